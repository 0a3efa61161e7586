/* ops_conv.c - windows over images [batch, height, width, channels]: patches and its transpose unpatch, and the composites over
 * them: conv2d (a matrix product of patches and weights), max_pool, avg_pool. */
#include <math.h>
#include "dialects/format.h"
#include "dialects_internal.h"

#define NO_CASES ((const BluOpCase[]){{0}})
#define P(p) BLU_PRIM_##p
enum { X, W, H_ = 0, W_ = 1 };

/* One direction of a window: n elements of which a window takes k, `dilation` apart, at m places, `stride` apart. */
typedef struct { int64_t n, k, stride, pad, dilation, m; } Axis;

static int64_t number(const BluSig *s, const char *name, int d, int64_t absent) {
  const BluAttr *a = blu_attr(&s->attrs, name);
  return !a ? absent : a->i[a->n == 1 ? 0 : d];
}

/* Fills axis[2] from the attributes; n and k are given. */
static bool windows(const BluSig *s, BluWhy *why, bool stride_is_kernel, Axis *axis) {
  static const char *const names[] = {"stride", "pad", "dilation", "kernel", "size"};
  for (int i = 0; i < 5; i++) {
    const BluAttr *a = blu_attr(&s->attrs, names[i]);
    if (a && a->n != 1 && a->n != 2) return blu_refuse(why, "window", 0, "`%s` takes one number or two, not %d", names[i], a->n);
  }
  for (int d = 0; d < 2; d++) {
    Axis *x = &axis[d];
    x->stride = number(s, "stride", d, stride_is_kernel ? x->k : 1);
    x->pad = number(s, "pad", d, 0);
    x->dilation = number(s, "dilation", d, 1);
    const int64_t limit = (int64_t)1 << 30; /* products of three such numbers stay in range */
    if (x->k < 1 || x->stride < 1 || x->pad < 0 || x->dilation < 1 || x->n < 0 || x->k > limit / x->dilation ||
        x->stride > limit || x->pad > limit)
      return blu_refuse(why, "window", 0, "a window of %lld with stride %lld, padding %lld and dilation %lld", (long long)x->k,
          (long long)x->stride,
                        (long long)x->pad, (long long)x->dilation);
    int64_t span = (x->k - 1) * x->dilation + 1;
    if (x->n + 2 * x->pad < span)
      return blu_refuse(why, "window-fits", 0, "a window that spans %lld does not fit into %lld elements and a padding of %lld",
          (long long)span,
                        (long long)x->n, (long long)x->pad);
    x->m = (x->n + 2 * x->pad - span) / x->stride + 1;
  }
  return true;
}

static bool image(const BluSig *s, BluWhy *why) {
  if (!blu_require_float(s, why, X)) return false;
  return s->in[X].rank == 4 || blu_refuse(why, "rank", X, "expected [batch, height, width, channels], found rank %d",
      s->in[X].rank);
}

static void set_kernel(const BluSig *s, Axis *axis) {
  for (int d = 0; d < 2; d++) axis[d] = (Axis){.n = s->in[X].dim[1 + d], .k = number(s, "kernel", d, 1)};
}

/* The attributes of a patches or unpatch op for these windows. */
static BluAttrs window_attrs(const Axis *axis) {
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "stride", 2, (int64_t[]){axis[0].stride, axis[1].stride});
  as = blu_attr_set_ints(as, "pad", 2, (int64_t[]){axis[0].pad, axis[1].pad});
  return blu_attr_set_ints(as, "dilation", 2, (int64_t[]){axis[0].dilation, axis[1].dilation});
}

static MlirValue patches(BluBuilder *b, MlirValue x, const Axis *axis, double value) {
  BluAttrs as = blu_attr_set_ints(window_attrs(axis), "kernel", 2, (int64_t[]){axis[0].k, axis[1].k});
  if (value != 0) as = blu_attr_set_real(as, "value", value);
  return blu_build(b, "patches", &as, 1, &x);
}

static int64_t place(const Axis *a, int64_t window, int64_t k) { return window * a->stride - a->pad + k * a->dilation; }

/* ---- patches ---- */

static bool infer_patches(BluSig *s, BluWhy *why) {
  Axis axis[2];
  if (!image(s, why)) return false;
  set_kernel(s, axis);
  if (!windows(s, why, false, axis)) return false;
  const BluType *x = &s->in[X];
  s->out = blu_type_make(x->elem, 6, (int64_t[]){x->dim[0], axis[0].m, axis[1].m, axis[0].k, axis[1].k, x->dim[3]});
  s->out.name[0] = x->name[0], s->out.name[5] = x->name[3];
  return true;
}

static void ref_patches(BluRefCall *c) {
  Axis axis[2];
  BluWhy why;
  int64_t at[BLU_MAX_RANK];
  double fill = blu_elem_round(c->sig->out.elem, blu_attr_real(&c->sig->attrs, "value", 0));
  set_kernel(c->sig, axis);
  windows(c->sig, &why, false, axis);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) {
    blu_coordinates(&c->sig->out, i, at);
    int64_t y = place(&axis[0], at[1], at[3]), x = place(&axis[1], at[2], at[4]);
    bool inside = y >= 0 && y < axis[0].n && x >= 0 && x < axis[1].n;
    c->out[i] = inside ? c->in[X][blu_linear(&c->sig->in[X], (int64_t[]){at[0], y, x, at[5]})] : fill;
  }
}

static BluEmitVal move_patches(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  Axis axis[2];
  BluWhy why;
  BluEmitVal from[4] = {at[0], at[0], at[0], at[5]}, inside = e->bits(e, BLU_BOOL, 1);
  BluEmitVal fill = blu_emit_value(e, s->out.elem, blu_attr_real(&s->attrs, "value", 0));
  set_kernel(s, axis);
  windows(s, &why, false, axis);
  if (!blu_type_count(&s->in[X])) return fill;
  for (int d = 0; d < 2; d++) {
    BluEmitVal in_window = blu_emit_affine(e, at[3 + d], axis[d].dilation, -axis[d].pad);
    BluEmitVal y = blu_emit2(e, P(IADD), blu_emit_affine(e, at[1 + d], axis[d].stride, 0), in_window);
    inside = blu_emit2(e, P(AND), inside, blu_emit_within(e, y, axis[d].n));
    from[1 + d] = blu_emit_clamp(e, y, axis[d].n);
  }
  return blu_emit3(e, P(SELECT), inside, load(user, X, blu_emit_linear(e, &s->in[X], from)), fill);
}

static int runs_channels(const BluSig *s, BluRun *run) { return blu_run_add(run, 0, 0, blu_row_length(&s->out), 1u << X); }

static void vjp_patches(BluVjp *v) {
  Axis axis[2];
  BluWhy why;
  set_kernel(&v->sig, axis);
  windows(&v->sig, &why, false, axis);
  BluAttrs as = blu_attr_set_ints(window_attrs(axis), "size", 2, (int64_t[]){axis[0].n, axis[1].n});
  v->dx[X] = blu_build(v->b, "unpatch", &as, 1, &v->ct);
}

const BluRule blu_rule_patches = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "float rank window window-fits", .infer = infer_patches,
    .vjp = vjp_patches,
  .ref = ref_patches, .move = move_patches, .runs = runs_channels, .cases = (const BluOpCase[]){
    {"%x: tensor<1x4x3x2xf64>", "%r = blu.patches %x {kernel = array<i64: 2>, pad = array<i64: 1>, value = 0.5} : "
        "(tensor<1x4x3x2xf64>) -> tensor<1x5x4x2x2x2xf64>", -1, 1, 0},
    {"%x: tensor<1x6x5x1xf64>", "%r = blu.patches %x {kernel = array<i64: 2, 3>, stride = array<i64: 2, 1>, dilation = "
        "array<i64: 3, 2>} : (tensor<1x6x5x1xf64>) -> tensor<1x2x1x2x3x1xf64>", -1, 1, 0}, {0}}};

/* ---- unpatch ---- */

static bool infer_unpatch(BluSig *s, BluWhy *why) {
  Axis axis[2];
  if (!blu_require_float(s, why, X)) return false;
  const BluType *x = &s->in[X];
  if (x->rank != 6) return blu_refuse(why, "rank", X, "expected [batch, oh, ow, kh, kw, channels], found rank %d", x->rank);
  for (int d = 0; d < 2; d++) axis[d] = (Axis){.n = number(s, "size", d, 0), .k = x->dim[3 + d]};
  if (!windows(s, why, false, axis)) return false;
  for (int d = 0; d < 2; d++)
    if (x->dim[1 + d] != axis[d].m)
      return blu_refuse(why, "window-fits", X, "%lld windows where %lld elements have %lld", (long long)x->dim[1 + d],
          (long long)axis[d].n, (long long)axis[d].m);
  s->out = blu_type_make(x->elem, 4, (int64_t[]){x->dim[0], axis[0].n, axis[1].n, x->dim[5]});
  return true;
}

static void unpatch_axes(const BluSig *s, Axis *axis) {
  BluWhy why;
  for (int d = 0; d < 2; d++) axis[d] = (Axis){.n = number(s, "size", d, 0), .k = s->in[X].dim[3 + d]};
  windows(s, &why, false, axis);
}

static void ref_unpatch(BluRefCall *c) {
  Axis axis[2];
  int64_t at[BLU_MAX_RANK];
  unpatch_axes(c->sig, axis);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = 0;
  for (int64_t i = 0, n = blu_type_count(&c->sig->in[X]); i < n; i++) {
    blu_coordinates(&c->sig->in[X], i, at);
    int64_t y = place(&axis[0], at[1], at[3]), x = place(&axis[1], at[2], at[4]);
    if (y >= 0 && y < axis[0].n && x >= 0 && x < axis[1].n) c->out[blu_linear(&c->sig->out, (int64_t[]){at[0], y, x,
        at[5]})] += c->in[X][i];
  }
}

/* The window that has the element `at` as its k-th, and whether there is one. */
static BluEmitVal window_of(BluEmit *e, const Axis *a, BluEmitVal at, int64_t k, BluEmitVal *is) {
  BluEmitVal from = blu_emit_affine(e, at, 1, a->pad - k * a->dilation), w = blu_emit_floor_div(e, from, a->stride);
  *is = blu_emit_within(e, w, a->m);
  if (a->stride > 1) *is = blu_emit2(e, P(AND), *is, blu_emit2(e, P(EQ), blu_emit_affine(e, w, a->stride, 0), from));
  return blu_emit_clamp(e, w, a->m);
}

/* A sum over the places in a window, in ascending order, from 0. */
static BluEmitVal move_unpatch(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  Axis axis[2];
  BluEmitVal sum = blu_emit_value(e, s->out.elem, 0), zero = sum;
  unpatch_axes(s, axis);
  for (int64_t ky = 0; ky < axis[0].k; ky++)
    for (int64_t kx = 0; kx < axis[1].k; kx++) {
      BluEmitVal is_y, is_x, y = window_of(e, &axis[0], at[1], ky, &is_y), x = window_of(e, &axis[1], at[2], kx, &is_x);
      BluEmitVal from[6] = {at[0], y, x, blu_emit_int(e, ky), blu_emit_int(e, kx), at[3]};
      BluEmitVal part = load(user, X, blu_emit_linear(e, &s->in[X], from));
      sum = blu_emit2(e, P(FADD), sum, blu_emit3(e, P(SELECT), blu_emit2(e, P(AND), is_y, is_x), part, zero));
    }
  return sum;
}

static void vjp_unpatch(BluVjp *v) {
  Axis axis[2];
  unpatch_axes(&v->sig, axis);
  v->dx[X] = patches(v->b, v->ct, axis, 0);
}

const BluRule blu_rule_unpatch = {.kind = BLU_KIND_MOVE, .labels = "float rank window window-fits", .infer = infer_unpatch,
    .vjp = vjp_unpatch,
  .ref = ref_unpatch, .move = move_unpatch, .runs = runs_channels, .tolerance = 1e-6 /* a few additions */, .cases = (const BluOpCase[]){
    {"%x: tensor<1x5x4x2x2x2xf64>", "%r = blu.unpatch %x {size = array<i64: 4, 3>, pad = array<i64: 1>} : "
        "(tensor<1x5x4x2x2x2xf64>) -> tensor<1x4x3x2xf64>", -1, 1, 0},
    {"%x: tensor<1x2x1x2x3x1xf64>", "%r = blu.unpatch %x {size = array<i64: 6, 5>, stride = array<i64: 2, 1>, dilation = "
        "array<i64: 3, 2>} : (tensor<1x2x1x2x3x1xf64>) -> tensor<1x6x5x1xf64>", -1, 1, 0}, {0}}};

/* ---- conv2d ---- */

static int64_t groups_of(const BluSig *s) { return blu_attr_int(&s->attrs, "groups", 1); }

static bool infer_conv2d(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[X], *w = &s->in[W];
  Axis axis[2];
  int64_t g = groups_of(s);
  char a[200], c[200];
  if (!image(s, why)) return false;
  if (w->elem != x->elem)
    return blu_refuse(why, "same-type", W, "operands have different element types: %s and %s", blu_elem_name(x->elem),
        blu_elem_name(w->elem));
  if (w->rank != 4) return blu_refuse(why, "rank", W, "expected weights [out, channels / groups, kh, kw], found rank %d",
      w->rank);
  if (g < 1 || x->dim[3] % g || w->dim[0] % g)
    return blu_refuse(why, "groups-divide", -1, "%lld groups don't divide %lld channels in and %lld out", (long long)g,
        (long long)x->dim[3], (long long)w->dim[0]);
  if (w->dim[1] != x->dim[3] / g)
    return blu_refuse(why, "same-channels", W, "weights %s want %lld channels in each of %lld groups, the image is %s",
        blu_type_print(w, a, sizeof a),
                      (long long)w->dim[1], (long long)g, blu_type_print(x, c, sizeof c));
  for (int d = 0; d < 2; d++) axis[d] = (Axis){.n = x->dim[1 + d], .k = w->dim[2 + d]};
  if (!windows(s, why, false, axis)) return false;
  s->out = blu_type_make(x->elem, 4, (int64_t[]){x->dim[0], axis[0].m, axis[1].m, w->dim[0]});
  s->out.name[0] = x->name[0], s->out.name[3] = w->name[0];
  return true;
}

static void conv_axes(const BluSig *s, Axis *axis) {
  BluWhy why;
  for (int d = 0; d < 2; d++) axis[d] = (Axis){.n = s->in[X].dim[1 + d], .k = s->in[W].dim[2 + d]};
  windows(s, &why, false, axis);
}

/* Padding is zeros, which weights are multiplied by: NaN stays NaN. */
static void ref_conv2d(BluRefCall *c) {
  const BluType *in = &c->sig->in[X], *w = &c->sig->in[W];
  Axis axis[2];
  int64_t at[BLU_MAX_RANK], per = w->dim[1], outs = w->dim[0] / groups_of(c->sig);
  conv_axes(c->sig, axis);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) {
    blu_coordinates(&c->sig->out, i, at);
    double sum = 0;
    for (int64_t ky = 0; ky < axis[0].k; ky++)
      for (int64_t kx = 0; kx < axis[1].k; kx++) {
        int64_t y = place(&axis[0], at[1], ky), x = place(&axis[1], at[2], kx), first = at[3] / outs * per;
        bool inside = y >= 0 && y < axis[0].n && x >= 0 && x < axis[1].n;
        const double *from = inside ? c->in[X] + blu_linear(in, (int64_t[]){at[0], y, x, first}) : NULL;
        const double *weight = c->in[W] + blu_linear(w, (int64_t[]){at[3], 0, ky, kx});
        for (int64_t k = 0; k < per; k++) sum += (from ? from[k] : 0) * weight[k * axis[0].k * axis[1].k];
      }
    c->out[i] = sum;
  }
}

/* ---- conv2d, a few images at a time ---- */

/* The windows of all images at once are many times the images. Those of a few stay in a core's second cache between the moves and the
 * products, so images are the steps of a scan without carry, which threads share. On a device, steps follow one another, and each has as many
 * images as fill it with the product's tiles: then windows are in memory for the time of a step, and made again for the gradient. */
typedef struct { Axis axis[2]; int64_t batch, count, steps, rows, window, outs; } Images; /* count: images of a step; rows: windows of a step */

/* Images of a step on a device: the fewest that divide the batch and whose results are ENOUGH, two tiles of 128 x 128 for each of 132
 * multiprocessors; else all. */
static int64_t images_of_device(const Images *im, int64_t places) {
  enum { ENOUGH = 2 * 132 * 128 * 128 };
  int64_t n = 1;
  while (n < im->batch && (im->batch % n || n * places * im->outs < ENOUGH)) n++;
  return n;
}

static bool in_steps(const BluBuilder *b, const BluSig *s, Images *im) {
  enum { CACHE = 1 << 18, MANY = 1 << 21, FEWEST = 8, MANY_ON_DEVICE = 1 << 24 }; /* bytes of a step's windows, of all windows; steps; bytes */
  const BluType *x = &s->in[X], *w = &s->in[W];
  *im = (Images){.batch = x->dim[0], .window = w->dim[1] * w->dim[2] * w->dim[3], .outs = w->dim[0]};
  conv_axes(s, im->axis);
  int64_t places = im->axis[0].m * im->axis[1].m, bytes = places * im->window * blu_elem_bytes(x->elem), image = bytes ? bytes : 1;
  MlirModule m = blu_module_of(mlirBlockGetParentOperation(b->block));
  bool able = groups_of(s) == 1 && im->batch > 1 && bytes && im->outs && w->dim[2] * w->dim[3] > 1 && !mlirModuleIsNull(m);
  bool device = able && blu_targets_device(m);
  im->count = CACHE / image < 1 ? 1 : CACHE / image;
  if (im->count > im->batch / 2) im->count = im->batch / 2;
  while (able && im->batch % im->count) im->count--;
  if (device) im->count = images_of_device(im, places);
  im->steps = able ? im->batch / im->count : 0;
  im->rows = im->count * places;
  /* each step of the backward pass has weights' gradients of its own: they should be fewer than what isn't stored for it */
  bool worth = im->steps >= FEWEST && im->batch * image >= MANY && 2 * im->steps * im->outs <= im->batch * places;
  if (device) worth = im->batch * image >= MANY_ON_DEVICE;
  return able && blu_attr_int(&s->attrs, "by_image", worth);
}

typedef struct { BluBuilder b; MlirOperation body; MlirValue outside[3]; int n; } Steps;

/* A body for these tensors: the first `sequences` have the steps as leading dimension. */
static void open_steps(Steps *to, BluBuilder *b, const char *name, int sequences, int n) {
  BluPort port[3] = {0};
  to->n = n;
  for (int i = 0; i < n; i++) {
    BluType t = blu_value_type(to->outside[i]);
    port[i].type = i < sequences ? blu_scan_slice(&t) : t;
  }
  to->body = blu_func_open(b, name, n, port, &to->b);
}

static MlirOperation close_steps(Steps *to, BluBuilder *b, int64_t steps, int sequences, int n, const MlirValue *results) {
  blu_func_return(to->body, b->loc, n, results, NULL);
  blu_set_body(to->body);
  BluScan scan = {.steps = steps, .sequences = sequences};
  return blu_scan_build(b, &scan, to->body, to->n, to->outside);
}

static MlirValue by_steps(BluBuilder *b, const Images *im, MlirValue x) { /* [batch, ..] as [steps, count, ..] */
  BluType t = blu_value_type(x), split = {.elem = t.elem, .rank = t.rank + 1, .dim = {im->steps, im->count}};
  for (int i = 1; i < t.rank; i++) split.dim[i + 1] = t.dim[i];
  return blu_reshape_to(b, x, &split);
}

static MlirValue windows_of(BluBuilder *b, const Images *im, MlirValue x, BluElem e) {
  BluType flat = blu_type_make(e, 2, (int64_t[]){im->rows, im->window});
  return blu_reshape_to(b, patches(b, x, im->axis, 0), &flat);
}

static MlirValue weight_matrix(BluBuilder *b, const Images *im, MlirValue w, BluElem e) { /* [outs, window] in the windows' order */
  BluType matrix = blu_type_make(e, 2, (int64_t[]){im->outs, im->window});
  return blu_reshape_to(b, blu_transposed(b, w, (int64_t[]){0, 2, 3, 1}), &matrix);
}

static MlirValue conv_in_steps(BluBuilder *b, const BluSig *s, const Images *im, const MlirValue *in) {
  BluElem e = s->in[X].elem;
  Steps to = {.outside = {by_steps(b, im, in[X]), weight_matrix(b, im, in[W], e)}};
  open_steps(&to, b, "conv2d", 1, 2);
  MlirValue p = windows_of(&to.b, im, mlirBlockGetArgument(to.b.block, 0), e);
  MlirValue y = blu_product(&to.b, p, false, mlirBlockGetArgument(to.b.block, 1), true);
  return blu_reshape_to(b, mlirOperationGetResult(close_steps(&to, b, im->steps, 1, 1, &y), 0), &s->out);
}

static void vjp_conv2d(BluVjp *v) {
  Images im;
  if (!in_steps(v->b, &v->sig, &im)) {
    blu_vjp_by_expansion(v);
    return;
  }
  const BluType *x = &v->sig.in[X], *w = &v->sig.in[W];
  BluType rows = blu_type_make(x->elem, 2, (int64_t[]){im.rows, im.outs});
  Steps to = {.outside = {by_steps(v->b, &im, v->ct)}};
  int n = 1, sequences = 1, results = 0;
  if (v->need[W]) to.outside[n++] = by_steps(v->b, &im, v->in[X]), sequences++;
  if (v->need[X]) to.outside[n++] = weight_matrix(v->b, &im, v->in[W], x->elem);
  open_steps(&to, v->b, "conv2d.back", sequences, n);
  MlirValue out[2], ct = blu_reshape_to(&to.b, mlirBlockGetArgument(to.b.block, 0), &rows);
  if (v->need[X]) {
    BluType six = blu_type_make(x->elem, 6, (int64_t[]){im.count, im.axis[0].m, im.axis[1].m, w->dim[2], w->dim[3], w->dim[1]});
    BluAttrs as = blu_attr_set_ints(window_attrs(im.axis), "size", 2, (int64_t[]){im.axis[0].n, im.axis[1].n});
    MlirValue p = blu_product(&to.b, ct, false, mlirBlockGetArgument(to.b.block, n - 1), false), of = blu_reshape_to(&to.b, p, &six);
    out[results++] = blu_build(&to.b, "unpatch", &as, 1, &of);
  }
  BluElem wide = blu_elem_compute(x->elem); /* sums of a step and over the steps are rounded together, once */
  if (v->need[W]) {
    MlirValue p = blu_cast_to(&to.b, windows_of(&to.b, &im, mlirBlockGetArgument(to.b.block, 1), x->elem), wide);
    out[results++] = blu_product(&to.b, blu_cast_to(&to.b, ct, wide), true, p, false);
  }
  MlirOperation scan = close_steps(&to, v->b, im.steps, sequences, results, out);
  if (v->need[X]) v->dx[X] = blu_reshape_to(v->b, mlirOperationGetResult(scan, 0), x);
  if (!v->need[W]) return;
  BluAttrs first = blu_attr_set_ints((BluAttrs){0}, "axis", 1, (int64_t[]){0});
  MlirValue stack = mlirOperationGetResult(scan, results - 1), sum = blu_cast_to(v->b, blu_build(v->b, "sum", &first, 1, &stack), x->elem);
  BluType four = blu_type_make(x->elem, 4, (int64_t[]){w->dim[0], w->dim[2], w->dim[3], w->dim[1]});
  v->dx[W] = blu_transposed(v->b, blu_reshape_to(v->b, sum, &four), (int64_t[]){0, 3, 1, 2});
}

/* [rows, window * channels] times the weights in the same order; groups are the batch of a batched product. */
static MlirValue expand_conv2d(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  const BluType *x = &s->in[X], *w = &s->in[W];
  Axis axis[2];
  conv_axes(s, axis);
  Images im;
  if (in_steps(b, s, &im)) return conv_in_steps(b, s, &im, in);
  int64_t g = groups_of(s), per = w->dim[1], outs = w->dim[0] / g, window = axis[0].k * axis[1].k,
      rows = x->dim[0] * axis[0].m * axis[1].m;
  bool plain = window == 1 && axis[0].m == axis[0].n && axis[1].m == axis[1].n && !axis[0].pad && !axis[1].pad;
  MlirValue p = plain ? in[X] : patches(b, in[X], axis, 0);
  MlirValue weight = window == 1 ? in[W] : blu_transposed(b, in[W], (int64_t[]){0, 2, 3, 1});
  if (g == 1) {
    BluType flat = blu_type_make(x->elem, 2, (int64_t[]){rows, window * per}), matrix = blu_type_make(x->elem, 2,
        (int64_t[]){outs, window * per});
    MlirValue y = blu_product(b, blu_reshape_to(b, p, &flat), false, blu_reshape_to(b, weight, &matrix), true);
    return blu_reshape_to(b, y, &s->out);
  }
  BluType split = blu_type_make(x->elem, 4, (int64_t[]){rows, window, g, per}), flat = blu_type_make(x->elem, 3, (int64_t[]){g,
      rows, window * per});
  BluType matrix = blu_type_make(x->elem, 3, (int64_t[]){g, outs, window * per});
  p = blu_reshape_to(b, blu_transposed(b, blu_reshape_to(b, p, &split), (int64_t[]){2, 0, 1, 3}), &flat);
  MlirValue y = blu_product(b, p, false, blu_reshape_to(b, weight, &matrix), true);
  return blu_reshape_to(b, blu_transposed(b, y, (int64_t[]){1, 0, 2}), &s->out);
}

#define CONV(x, w, attrs, out)                                         \
  {"%x: tensor<" x "xf64>, %w: tensor<" w "xf64>",                      \
   "%r = blu.conv2d %x, %w " attrs ": (tensor<" x "xf64>, tensor<" w "xf64>) -> tensor<" out "xf64>", -1, 1, 0}
const BluRule blu_rule_conv2d = {.kind = BLU_KIND_COMPOSITE, .narrow = true, .labels = "float rank same-type groups-divide same-channels window "
    "window-fits",
  .infer = infer_conv2d, .vjp = vjp_conv2d, .ref = ref_conv2d, .expand = expand_conv2d,
      .tolerance = 4e-6 /* as a product */,
  .cases = (const BluOpCase[]){
    CONV("1x5x4x2", "3x2x3x3", "{pad = array<i64: 1>} ", "1x5x4x3"), CONV("2x5x4x2", "3x2x2x3",
        "{stride = array<i64: 2, 1>, pad = array<i64: 0, 1>} ", "2x2x4x3"),
    CONV("1x5x5x2", "2x2x2x2", "{dilation = array<i64: 2>, stride = array<i64: 1>} ", "1x3x3x2"),
    CONV("1x3x3x4", "6x2x2x2", "{groups = 2} ", "1x2x2x6"), CONV("1x4x3x3", "3x1x3x2", "{groups = 3, pad = array<i64: 1, 0>} ",
        "1x4x2x3"),
    CONV("2x3x4x2", "3x2x2x3", "{by_image = true, pad = array<i64: 1, 0>} ", "2x4x2x3"), CONV("4x5x4x1", "2x1x3x2",
        "{by_image = true, stride = array<i64: 2, 1>} ", "4x2x3x2"),
    CONV("2x2x3x3", "4x3x1x1", "", "2x2x3x4"), CONV("1x4x3x2", "2x2x1x1", "{stride = array<i64: 2>} ", "1x2x2x2"), {0}}};

/* ---- pooling ---- */

static bool infer_pool(BluSig *s, BluWhy *why) {
  Axis axis[2];
  if (!image(s, why)) return false;
  set_kernel(s, axis);
  if (!windows(s, why, true, axis)) return false;
  for (int d = 0; d < 2; d++)
    if (2 * axis[d].pad > (axis[d].k - 1) * axis[d].dilation + 1)
      return blu_refuse(why, "pad-half", 0, "a padding of %lld is more than half of the window", (long long)axis[d].pad);
  s->out = blu_type_make(s->in[X].elem, 4, (int64_t[]){s->in[X].dim[0], axis[0].m, axis[1].m, s->in[X].dim[3]});
  s->out.name[0] = s->in[X].name[0], s->out.name[3] = s->in[X].name[3];
  return true;
}

static void pool_axes(const BluSig *s, Axis *axis) {
  BluWhy why;
  set_kernel(s, axis);
  windows(s, &why, true, axis);
}

static void ref_pool(BluRefCall *c, bool max) {
  Axis axis[2];
  int64_t at[BLU_MAX_RANK];
  pool_axes(c->sig, axis);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) {
    double all = max ? -INFINITY : 0;
    blu_coordinates(&c->sig->out, i, at);
    for (int64_t k = 0; k < axis[0].k * axis[1].k; k++) {
      int64_t y = place(&axis[0], at[1], k / axis[1].k), x = place(&axis[1], at[2], k % axis[1].k);
      if (y < 0 || y >= axis[0].n || x < 0 || x >= axis[1].n) continue;
      double v = c->in[X][blu_linear(&c->sig->in[X], (int64_t[]){at[0], y, x, at[3]})];
      if (!max) all += v;
      else if (v > all || isnan(v) || isnan(all)) all = isnan(all) ? all : v;
    }
    c->out[i] = max ? all : all / (double)(axis[0].k * axis[1].k);
  }
}
static void ref_max_pool(BluRefCall *c) { ref_pool(c, true); }
static void ref_avg_pool(BluRefCall *c) { ref_pool(c, false); }

static MlirValue pooled(BluBuilder *b, const BluSig *s, MlirValue x, const char *reduction, double fill) {
  Axis axis[2];
  pool_axes(s, axis);
  return blu_reduce(b, reduction, patches(b, x, axis, fill), 2, (int64_t[]){3, 4}, false);
}
static MlirValue expand_max_pool(BluBuilder *b, const BluSig *s, const MlirValue *in) { return pooled(b, s, in[X], "max",
    -INFINITY); }
static MlirValue expand_avg_pool(BluBuilder *b, const BluSig *s, const MlirValue *in) { return pooled(b, s, in[X], "mean", 0); }

#define POOLS(op) (const BluOpCase[]){                                                                                                \
    {"%x: tensor<1x4x6x2xf64>", "%r = blu." op " %x {kernel = array<i64: 2>} : (tensor<1x4x6x2xf64>) -> tensor<1x2x3x2xf64>", -1, 1, 0}, \
    {"%x: tensor<2x5x4x1xf64>", "%r = blu." op " %x {kernel = array<i64: 3, 2>, stride = array<i64: 2, 1>, pad = array<i64: 1, 0>} : (tensor<2x5x4x1xf64>) -> tensor<2x3x3x1xf64>", -1, 1, 0}, {0}}
const BluRule blu_rule_max_pool = {.kind = BLU_KIND_COMPOSITE, .narrow = true, .labels = "float rank window window-fits pad-half",
    .infer = infer_pool,
  .vjp = blu_vjp_by_expansion, .ref = ref_max_pool, .expand = expand_max_pool, .tolerance = 1.2e-7, .cases = POOLS("max_pool")};
const BluRule blu_rule_avg_pool = {.kind = BLU_KIND_COMPOSITE, .narrow = true, .labels = "float rank window window-fits pad-half",
    .infer = infer_pool,
  .vjp = blu_vjp_by_expansion, .ref = ref_avg_pool, .expand = expand_avg_pool, .tolerance = 1e-6, .cases = POOLS("avg_pool")};
