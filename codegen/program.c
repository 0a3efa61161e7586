/* program.c - a planned module as one LLVM module: the kernels' functions, and the constant blu_program whose layout is
 * runtime/abi.h, field by field. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "codegen/codegen.h"
#include "codegen/cuda/cuda.h"
#include "codegen/kernel.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/Diagnostics.h"
#include "passes/passes.h"
#include "runtime/abi.h"
#include "dialects/memory.h"

/* fn: of the CPU, or null; device: what a launch says of the device; elements: see blu_kernel_any_size */
typedef struct { LLVMValueRef fn, device; int64_t pieces, flops, elements; } Compiled;
typedef struct { BluKernelKey key; LLVMValueRef fn; } Shared; /* a function that serves kernels of several sizes */

typedef struct {
  LLVMContextRef ctx;
  LLVMModuleRef module;
  MlirModule planned;
  const BluProgramInfo *info;
  LLVMTypeRef i32, i64, f64, ptr, slot, launch, function, image;
  int64_t loop_offsets;
  bool good;
  BluMap kernels;       /* kernel's func op -> Compiled */
  Shared *shared;
  int nshared;
  int64_t scratch;
} Program;

static MlirStringRef ref(const char *s) { return mlirStringRefCreateFromCString(s); }

/* ---- constants ---- */

static LLVMValueRef number(Program *p, int64_t v) { return LLVMConstInt(p->i64, (uint64_t)v, 1); }
static LLVMValueRef small(Program *p, int64_t v) { return LLVMConstInt(p->i32, (uint64_t)v & 0xffffffffu, 0); }

static LLVMValueRef global(Program *p, LLVMValueRef value) {
  LLVMValueRef g = LLVMAddGlobal(p->module, LLVMTypeOf(value), "");
  LLVMSetInitializer(g, value);
  LLVMSetGlobalConstant(g, 1);
  LLVMSetLinkage(g, LLVMPrivateLinkage);
  return g;
}

static LLVMValueRef string(Program *p, const char *s) {
  LLVMValueRef g = global(p, LLVMConstStringInContext2(p->ctx, s, strlen(s), 0));
  LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
  return g;
}

static void *z_alloc(void *user, uInt n, uInt size) { return (void)user, blu_alloc((size_t)n * size); }
static void z_free(void *user, void *memory) { (void)user, free(memory); }

/* Text compressed: the plan of a large model would be half of its trainer. */
static LLVMValueRef gzip(Program *p, const char *text, int64_t *bytes) {
  enum { MEMORY = 8, GZIP = 16 + MAX_WBITS };
  z_stream z = {.next_in = (Bytef *)text, .avail_in = (uInt)strlen(text), .zalloc = z_alloc, .zfree = z_free};
  int status = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY);
  z.avail_out = (uInt)deflateBound(&z, z.avail_in);
  char *out = blu_alloc(z.avail_out + 1);
  z.next_out = (Bytef *)out;
  if (status == Z_OK) status = deflate(&z, Z_FINISH);
  assert(status == Z_STREAM_END); /* it has memory and room */
  *bytes = (int64_t)z.total_out;
  deflateEnd(&z);
  LLVMValueRef g = global(p, LLVMConstStringInContext2(p->ctx, out, (size_t)*bytes, 1));
  LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
  free(out);
  return g;
}

static LLVMValueRef array(Program *p, LLVMTypeRef element, LLVMValueRef *values, int64_t n) {
  return n ? global(p, LLVMConstArray2(element, values, (uint64_t)n)) : LLVMConstNull(p->ptr);
}

static LLVMTypeRef structure(Program *p, int n, LLVMTypeRef *fields) { return LLVMStructTypeInContext(p->ctx, fields, (unsigned)n, 0); }
static LLVMValueRef record(Program *p, int n, LLVMValueRef *fields) { return LLVMConstStructInContext(p->ctx, fields, (unsigned)n, 0); }

/* ---- slots ---- */

static int64_t role_of(const char *role) {
  static const struct { const char *name; BluRole role; } roles[] = {
    {"param", BLU_ROLE_PARAM}, {"state", BLU_ROLE_STATE}, {"data", BLU_ROLE_DATA},     {"rows", BLU_ROLE_ROWS},
    {"run", BLU_ROLE_RUN},     {"step", BLU_ROLE_STEP},   {"seed", BLU_ROLE_SEED},     {"input", BLU_ROLE_INPUT},
    {"output", BLU_ROLE_OUTPUT}, {"sum", BLU_ROLE_SUM},   {"weight", BLU_ROLE_WEIGHT}, {"squares", BLU_ROLE_SQUARES},
    {"norm", BLU_ROLE_NORM},   {"cache", BLU_ROLE_CACHE},    {"gradient", BLU_ROLE_GRADIENT}, {"total", BLU_ROLE_TOTAL}, {"scale", BLU_ROLE_SCALE}};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (!strcmp(roles[i].name, role)) return roles[i].role;
  return -1;
}

static const int dtype_of[BLU_ELEMS] = {[BLU_F32] = BLU_DTYPE_F32, [BLU_F64] = BLU_DTYPE_F64, [BLU_I32] = BLU_DTYPE_I32,
                                        [BLU_I64] = BLU_DTYPE_I64, [BLU_U8] = BLU_DTYPE_U8,   [BLU_BOOL] = BLU_DTYPE_BOOL,
                                        [BLU_BF16] = BLU_DTYPE_BF16, [BLU_F16] = BLU_DTYPE_F16};

static const char *text_attr(MlirOperation op, const char *name) {
  MlirAttribute a = mlirOperationGetAttributeByName(op, ref(name));
  if (mlirAttributeIsNull(a)) return "";
  MlirStringRef s = mlirStringAttrGetValue(a);
  return s.length ? s.data : "";
}

/* What a module attribute of "NAME=text" lines says of a parameter or state; "" for all else. */
static LLVMValueRef words_of(Program *p, const BluPort *port, const char *attribute) {
  bool saved = !strcmp(port->role, "param") || !strcmp(port->role, "state");
  size_t n = strlen(port->name);
  const char *line = saved ? text_attr(mlirModuleGetOperation(p->planned), attribute) : "";
  while (*line && (strncmp(line, port->name, n) || line[n] != '=')) line += strcspn(line, "\n"), line += *line == '\n';
  const char *text = *line ? line + n + 1 : "";
  size_t size = strcspn(text, "\n");
  LLVMValueRef g = global(p, LLVMConstStringInContext2(p->ctx, text, size, 0));
  LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
  return g;
}

static LLVMValueRef slot(Program *p, const BluPort *port, int64_t offset) {
  LLVMValueRef dim[BLU_ABI_RANK];
  for (int i = 0; i < BLU_ABI_RANK; i++) dim[i] = number(p, i < port->type.rank ? port->type.dim[i] : 0);
  int64_t bytes = blu_type_count(&port->type) * blu_elem_bytes(port->type.elem);
  return record(p, 12, (LLVMValueRef[]){string(p, *port->name ? port->name : port->role), small(p, role_of(port->role)),
    small(p, dtype_of[port->type.elem]), small(p, port->type.rank), small(p, 0), LLVMConstArray2(p->i64, dim, BLU_ABI_RANK),
    number(p, offset), number(p, bytes), number(p, port->bound), LLVMConstReal(p->f64, port->value),
    words_of(p, port, "blu.starts"), words_of(p, port, "blu.group")});
}

typedef struct { LLVMValueRef *value; int64_t *offset; int64_t n, cap; } Slots;

static bool add_slot(Program *p, Slots *s, const BluPort *port, int64_t offset, bool once) {
  for (int64_t i = 0; once && i < s->n; i++)
    if (s->offset[i] == offset) return false;
  if (s->n == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 16;
    s->value = blu_realloc(s->value, (size_t)s->cap * sizeof *s->value);
    s->offset = blu_realloc(s->offset, (size_t)s->cap * sizeof *s->offset);
  }
  int64_t at = s->n++;
  for (; once && at > 0 && s->offset[at - 1] > offset; at--) s->value[at] = s->value[at - 1], s->offset[at] = s->offset[at - 1];
  s->value[at] = slot(p, port, offset);
  s->offset[at] = offset;
  return true;
}

static LLVMValueRef finish_slots(Program *p, Slots *s) {
  LLVMValueRef a = array(p, p->slot, s->value, s->n);
  free(s->value), free(s->offset);
  return a;
}

/* ---- functions ---- */

static int64_t int_attr(MlirOperation op, const char *name) {
  MlirAttribute a = mlirOperationGetAttributeByName(op, ref(name));
  return mlirAttributeIsNull(a) ? 0 : mlirIntegerAttrGetValueInt(a);
}
static int64_t place(MlirOperation op, const char *list, int i) {
  return mlirDenseI64ArrayGetElement(mlirOperationGetAttributeByName(op, ref(list)), i);
}
static bool is_func(MlirOperation op) { return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), ref("func.func")); }
static bool is_call(MlirOperation op) { return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), ref("func.call")); }
static bool is_kernel(MlirOperation op) { return *text_attr(op, "blu.kernel") != 0; }

/* The line of the model's own file that an op comes from: its location, or for library code the call in the file. */
static int64_t line_of(MlirLocation l, const char *file) {
  if (mlirLocationIsAFileLineColRange(l)) {
    MlirStringRef name = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(l));
    size_t n = strlen(file);
    bool same = name.length >= n && !memcmp(name.data + name.length - n, file, n);
    return same ? mlirLocationFileLineColRangeGetStartLine(l) : 0;
  }
  if (mlirLocationIsACallSite(l)) {
    int64_t inner = line_of(mlirLocationCallSiteGetCallee(l), file);
    return inner ? inner : line_of(mlirLocationCallSiteGetCaller(l), file);
  }
  if (mlirLocationIsAName(l)) return line_of(mlirLocationNameGetChildLoc(l), file);
  return 0;
}

/* Queries times the keys that they see, a mask aside. */
static int64_t pairs_of(const BluAttention *a) {
  int64_t rows = a->t < a->s ? a->t : a->s, before = a->s - rows; /* rows that see a key, and the keys that all of those see */
  return a->b * a->g * a->r * (a->causal ? rows * before + rows * (rows + 1) / 2 : a->t * a->s);
}

/* Of the products that an op of attention's kernel consists of; scores and the cotangents of weights are shared by the gradients that a kernel makes:
 * `shared` says that they have been counted. */
static int64_t attention_flops(MlirOperation o, bool *shared) {
  BluSig s;
  blu_sig_of(o, &s);
  BluAttention a = blu_attention_of(&s);
  int64_t of = blu_attr_int(&s.attrs, "of", -1), twice = 2 * pairs_of(&a);
  if (of < 0) return a.dv ? twice * (a.d + a.dv) : 0; /* the logarithms come with the result */
  int64_t again = *shared ? 0 : a.d + a.dv;
  *shared = true;
  return twice * (again + (of == 2 ? a.dv : a.d));
}

static int64_t flops_of(MlirOperation kernel) {
  int64_t flops = 0;
  bool shared = false;
  for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(kernel)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    BluSig s;
    if (blu_attention_is_whole(o)) flops += attention_flops(o, &shared);
    if (!blu_is(o, "matmul")) continue;
    blu_sig_of(o, &s);
    flops += 2 * blu_type_count(&s.out) * s.in[0].dim[s.in[0].rank - (blu_attr_int(&s.attrs, "ta", 0) ? 2 : 1)];
  }
  return flops;
}

/* Of one run: 2 flops a multiply-add of the products; operands and results of the launches, each once. */
typedef struct { int64_t flops, bytes; } Cost;

/* Bytes of the operands and results of a launch. */
static int64_t bytes_of(MlirOperation call) {
  int64_t bytes = 0;
  for (intptr_t i = 0, in = mlirOperationGetNumOperands(call); i < in + mlirOperationGetNumResults(call); i++) {
    BluType t = blu_value_type(i < in ? mlirOperationGetOperand(call, i) : mlirOperationGetResult(call, i - in));
    bytes += blu_type_count(&t) * blu_elem_bytes(t.elem);
  }
  return bytes;
}

/* The scans that launches stand in, from the inside out. */
typedef struct Nest {
  const struct Nest *up;
  MlirOperation scan;
  BluScan shape;
  int step, frame, levels; /* places in the strides: of its step, of its frame's distance from the arena (-1: the frame is in the arena, or in that of
                              a scan around), and how many there are inside */
} Nest;

/* A place in the arena at step 0 of all loops, and how far it moves with each loop's step. */
typedef struct { int64_t offset, stride[2 * BLU_ABI_LOOPS]; } Place;

/* What an entry of blu.places of an op inside of the nest means. */
static Place resolve(const Nest *n, int64_t at) {
  if (!n) return (Place){.offset = at};
  const BluScan *s = &n->shape;
  int nin = s->carries + s->sequences + s->fixed, k = (int)(BLU_PLACE_OUTSIDE - at);
  if (at >= 0 && n->frame >= 0) {
    Place own = {.offset = at};
    own.stride[n->frame] = 1;
    return own;
  }
  if (at >= 0) { /* in the frame */
    Place frame = resolve(n->up, place(n->scan, "blu.places", nin + s->carries + s->stacked));
    frame.offset += at;
    return frame;
  }
  Place p = resolve(n->up, place(n->scan, "blu.places", k));
  BluType t = blu_value_type(k < nin ? mlirOperationGetOperand(n->scan, k) : mlirOperationGetResult(n->scan, k - nin));
  bool sliced = k < nin ? k >= s->carries && k < s->carries + s->sequences : k >= nin + s->carries;
  if (sliced) p.stride[n->step] = blu_type_count(&t) * blu_elem_bytes(t.elem) / s->steps;
  return p;
}

static LLVMValueRef launches(Program *p, MlirOperation f, const Nest *nest, int64_t *n, int64_t *commit, Cost *cost);

static LLVMValueRef kernel_launch(Program *p, MlirOperation o, const Nest *nest, Cost *cost) {
  const char *name = mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(o, ref("callee"))).data;
  Compiled *k = blu_map_get(&p->kernels, blu_func_find(p->planned, name).ptr);
  int places = (int)(mlirOperationGetNumOperands(o) + mlirOperationGetNumResults(o)), depth = nest ? nest->levels : 0;
  LLVMValueRef *offset = blu_alloc((size_t)(places + 1) * sizeof *offset);
  LLVMValueRef *stride = blu_alloc((size_t)((places + 1) * depth + 1) * sizeof *stride);
  for (int i = 0; i < places; i++) {
    Place at = resolve(nest, place(o, "blu.places", i));
    offset[i] = number(p, at.offset);
    for (int d = 0; d < depth; d++) stride[i * depth + d] = number(p, at.stride[d]);
  }
  if (k->elements) {
    offset[places] = number(p, k->elements);
    for (int d = 0; d < depth; d++) stride[places * depth + d] = number(p, 0);
    places++;
  }
  if (nest && places > p->loop_offsets) p->loop_offsets = places;
  cost->flops += k->flops;
  cost->bytes += bytes_of(o);
  LLVMValueRef null = LLVMConstNull(p->ptr), launch = record(p, 9, (LLVMValueRef[]){k->fn ? k->fn : null, array(p, p->i64, offset, places),
    number(p, k->pieces), string(p, name), number(p, line_of(mlirOperationGetLocation(o), p->info->source_name)), LLVMConstNull(p->ptr),
    array(p, p->i64, stride, places * depth),
    number(p, nest || p->info->cuda ? places : 0), k->device});
  free(offset), free(stride);
  return launch;
}

static LLVMValueRef loop_launch(Program *p, MlirOperation scan, const Nest *up, Cost *cost) {
  Nest nest = {.up = up, .scan = scan, .step = up ? up->levels : 0, .frame = -1};
  blu_scan_of(scan, &nest.shape);
  bool parallel = place(scan, "blu.places", (int)(mlirOperationGetNumOperands(scan) + mlirOperationGetNumResults(scan))) == BLU_PLACE_OF_THREAD;
  nest.levels = nest.step + 1 + parallel;
  if (parallel) nest.frame = nest.step + 1;
  if (nest.levels > BLU_ABI_LOOPS) {
    p->good = false;
    mlirEmitError(mlirOperationGetLocation(scan), "scans are nested too deep");
    return LLVMGetUndef(p->launch);
  }
  int64_t n;
  Cost inside;
  LLVMValueRef body = launches(p, blu_func_find(p->planned, nest.shape.body), &nest, &n, NULL, &inside);
  cost->flops += nest.shape.steps * inside.flops;
  cost->bytes += nest.shape.steps * inside.bytes;
  LLVMValueRef loop = global(p, record(p, 5, (LLVMValueRef[]){number(p, nest.shape.steps), number(p, nest.shape.reverse), number(p, parallel), body,
    number(p, n)}));
  LLVMValueRef null = LLVMConstNull(p->ptr);
  return record(p, 9, (LLVMValueRef[]){null, null, number(p, 1), string(p, nest.shape.body),
    number(p, line_of(mlirOperationGetLocation(scan), p->info->source_name)), loop, null, number(p, 0), null});
}

/* The launch that poisons what nobody reads after launch i of f; null: there is nothing. */
static LLVMValueRef poison_launch(Program *p, MlirOperation f, int i, const Nest *nest) {
  BluDead *dead;
  int n = blu_plan_dead(f, i, &dead), places = 1 + 2 * n, depth = nest ? nest->levels : 0;
  if (!n) return NULL;
  LLVMValueRef *offset = blu_alloc((size_t)places * sizeof *offset), *stride = blu_alloc((size_t)(places * depth + 1) * sizeof *stride);
  for (int k = 0; k < places * depth; k++) stride[k] = number(p, 0);
  offset[0] = number(p, n);
  for (int k = 0; k < n; k++) {
    Place at = resolve(nest, dead[k].place);
    offset[1 + 2 * k] = number(p, at.offset);
    offset[2 + 2 * k] = number(p, dead[k].bytes);
    for (int d = 0; d < depth; d++) stride[(1 + 2 * k) * depth + d] = number(p, at.stride[d]);
  }
  if (nest && places > p->loop_offsets) p->loop_offsets = places;
  LLVMValueRef fn = LLVMGetNamedFunction(p->module, "blu_rt_poison");
  LLVMTypeRef of[] = {p->ptr, p->ptr, p->ptr, p->i64, p->i64};
  if (!fn) fn = LLVMAddFunction(p->module, "blu_rt_poison", LLVMFunctionType(LLVMVoidTypeInContext(p->ctx), of, 5, 0));
  LLVMValueRef launch = record(p, 9, (LLVMValueRef[]){fn, array(p, p->i64, offset, places), number(p, 1), string(p, "poison"), number(p, 0),
    LLVMConstNull(p->ptr), array(p, p->i64, stride, places * depth), number(p, nest || p->info->cuda ? places : 0),
    LLVMConstNull(p->ptr)});
  free(dead), free(offset), free(stride);
  return launch;
}

/* *commit (NULL: none): the number of launches before the commit, as the plan counts them; then as this table does. */
static LLVMValueRef launches(Program *p, MlirOperation f, const Nest *nest, int64_t *n, int64_t *commit, Cost *cost) {
  LLVMValueRef *all = NULL;
  int64_t cap = 0, border = commit ? *commit : -1;
  int planned = 0;
  *n = 0;
  *cost = (Cost){0};
  for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(f)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    if (!is_call(o) && !blu_is(o, "scan")) continue;
    if (*n + 2 > cap) all = blu_realloc(all, (size_t)(cap = cap ? 2 * cap : 32) * sizeof *all);
    all[(*n)++] = is_call(o) ? kernel_launch(p, o, nest, cost) : loop_launch(p, o, nest, cost);
    LLVMValueRef poison = p->info->poison ? poison_launch(p, f, planned, nest) : NULL;
    if (poison) all[(*n)++] = poison;
    if (++planned == border) *commit = *n;
  }
  LLVMValueRef a = array(p, p->launch, all, *n);
  free(all);
  return a;
}

static bool is_scalar_role(int64_t r) {
  return r == BLU_ROLE_RUN || r == BLU_ROLE_STEP || r == BLU_ROLE_SEED || r == BLU_ROLE_ROWS || r == BLU_ROLE_TOTAL || r == BLU_ROLE_SCALE;
}
static bool is_tensor_role(int64_t r) { return r == BLU_ROLE_PARAM || r == BLU_ROLE_STATE; }

static LLVMValueRef function(Program *p, MlirOperation f, Slots *tensors, Slots *scalars) {
  Slots own = {0};
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0, n = pass ? blu_func_nresults(f) : blu_func_nargs(f); i < n; i++) {
      BluPort port = pass ? blu_func_result(f, i) : blu_func_arg(f, i);
      int64_t role = role_of(port.role), offset = place(f, pass ? "blu.results" : "blu.args", i);
      if (is_tensor_role(role)) add_slot(p, tensors, &port, offset, true);
      else if (is_scalar_role(role)) add_slot(p, scalars, &port, offset, true);
      else if (!pass || role != BLU_ROLE_GRADIENT) add_slot(p, &own, &port, offset, false); /* the new sums are where the old ones were */
    }
  Cost cost;
  int64_t nlaunch, nslots = own.n, commit = int_attr(f, "blu.commit");
  LLVMValueRef launch = launches(p, f, NULL, &nlaunch, &commit, &cost), slots = finish_slots(p, &own);
  return record(p, 9, (LLVMValueRef[]){string(p, text_attr(f, "sym_name")), slots, number(p, nslots), launch, number(p, nlaunch),
                                       number(p, commit), number(p, cost.flops), number(p, cost.bytes), number(p, int_attr(f, "blu.bytes"))});
}

/* ---- the program ---- */

static void hash_text(MlirStringRef s, void *user) { /* FNV-1a */
  uint64_t *h = user;
  for (size_t i = 0; i < s.length; i++) *h = (*h ^ (unsigned char)s.data[i]) * 0x100000001b3u;
}

bool blu_has_code(const BluOp *op) {
  static const char *const reductions[] = {"sum", "prod", "max", "min", "argmax"}; /* codegen/reduce.c */
  if (op->rule->uncoded) return false;
  switch (op->rule->kind) {
  case BLU_KIND_ELEMENT: return op->rule->lower != NULL;
  case BLU_KIND_COMPOSITE: return op->rule->expand != NULL;
  case BLU_KIND_MOVE: return op->rule->move || blu_loop_has_code(op->name);
  case BLU_KIND_REDUCE:
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
      if (!strcmp(op->name, reductions[i])) return true;
    return false;
  default: return true;
  }
}

/* The first half type among op's operands and result; BLU_ELEMS: none. */
static BluElem half_of(MlirOperation op) {
  for (intptr_t i = 0, in = mlirOperationGetNumOperands(op); i < in + mlirOperationGetNumResults(op); i++) {
    BluElem e = blu_value_type(i < in ? mlirOperationGetOperand(op, i) : mlirOperationGetResult(op, i - in)).elem;
    if (blu_elem_is_half(e)) return e;
  }
  return BLU_ELEMS;
}

static bool has_code(const Program *p, MlirOperation kernel) {
  for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(kernel)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    BluElem half = op && p->info->cuda ? half_of(o) : BLU_ELEMS;
    if (!op || (blu_has_code(op) && half == BLU_ELEMS)) continue;
    char text[160];
    if (half == BLU_ELEMS) snprintf(text, sizeof text, "`%s` has no code for %s yet", op->name, p->info->cuda ? "CUDA" : "the CPU");
    else snprintf(text, sizeof text, "%s has no code for CUDA yet: programs for a GPU compute in f32", blu_elem_name(half));
    mlirEmitError(mlirOperationGetLocation(o), text);
    return false;
  }
  return true;
}

static int64_t size_of(LLVMValueRef fn) { /* in instructions */
  int64_t n = 0;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n++;
  return n;
}

/* The function of a kernel, in the part that has least to do so far; the program's module then declares it. */
static LLVMValueRef emit_kernel(Program *p, MlirOperation f, int64_t *load, int64_t *pieces, int64_t *scratch) {
  int to = 0;
  if (!p->info->parts) return blu_kernel_emit(p->ctx, p->module, f, p->info->cpu, pieces, scratch);
  for (int i = 1; i < p->info->parts; i++)
    if (load[i] < load[to]) to = i;
  LLVMModuleRef part = p->info->part[to];
  LLVMValueRef fn = blu_kernel_emit(LLVMGetModuleContext(part), part, f, p->info->cpu, pieces, scratch);
  char name[256];
  snprintf(name, sizeof name, "blu_kernel.%s", text_attr(f, "sym_name")); /* no name of the runtime or of C's */
  LLVMSetValueName2(fn, name, strlen(name));
  LLVMSetLinkage(fn, LLVMExternalLinkage);
  LLVMSetVisibility(fn, LLVMHiddenVisibility);
  load[to] += size_of(fn);
  return LLVMAddFunction(p->module, name, LLVMFunctionType(LLVMVoidTypeInContext(p->ctx), NULL, 0, 0)); /* only its address is used */
}

/* As emit_kernel; kernels that differ in their number of elements alone get one function. */
static LLVMValueRef emit_shared(Program *p, MlirOperation f, int64_t *load, Compiled *k) {
  int64_t scratch;
  BluKernelKey key = blu_kernel_key(f, false);
  for (int i = 0; i < p->nshared; i++) {
    if (!blu_kernel_key_same(&p->shared[i].key, &key)) continue;
    blu_kernel_key_free(&key);
    k->pieces = blu_kernel_any_size_pieces(k->elements);
    return p->shared[i].fn;
  }
  p->shared = blu_realloc(p->shared, (size_t)(p->nshared + 1) * sizeof *p->shared);
  p->shared[p->nshared] = (Shared){key, emit_kernel(p, f, load, &k->pieces, &scratch)};
  return p->shared[p->nshared++].fn;
}

/* ---- kernels of a device ---- */

/* A launch of one of our functions, as BluDeviceLaunch; product: it stands behind that, else null. */
static LLVMValueRef device_function(Program *p, MlirOperation f, bool aligned, LLVMValueRef product) {
  BluCuda *to = p->info->cuda;
  CudaShape shape;
  char name[256];
  blu_cuda_kernel_emit(to->module, f, aligned, &shape);
  blu_cuda_name(f, name, sizeof name);
  to->kernel = blu_realloc(to->kernel, (size_t)(to->kernels + 1) * sizeof *to->kernel);
  to->kernel[to->kernels++] = (BluCudaUse){.name = strdup(name), .at = mlirOperationGetLocation(f), .blocks = shape.blocks,
                                           .shared_bytes = shape.shared_bytes, .threads = shape.threads};
  LLVMValueRef one = small(p, 1), grid[3] = {small(p, shape.blocks), one, one}, block[3] = {small(p, shape.threads), one, one};
  return global(p, record(p, 6, (LLVMValueRef[]){string(p, name), product, LLVMConstArray2(p->i32, grid, 3), LLVMConstArray2(p->i32, block, 3),
    small(p, shape.shared_bytes), small(p, 0)}));
}

/* A kernel of the sum alone, for libraries that don't make it beside the product. Not to be found by others: it goes away. */
static MlirOperation sum_kernel(Program *p, MlirOperation kernel, MlirOperation sum) {
  MlirContext ctx = mlirModuleGetContext(p->planned);
  MlirLocation at = mlirOperationGetLocation(sum);
  BluPort port = {.role = "", .name = "", .type = blu_value_type(mlirOperationGetOperand(sum, 0))};
  char name[256];
  BluBuilder b = {.ctx = ctx, .loc = at};
  snprintf(name, sizeof name, "%s_sum", text_attr(kernel, "sym_name"));
  MlirOperation f = blu_func_make(p->planned, at, name, 1, &port, &b.block);
  MlirValue result = blu_reduce(&b, "sum", mlirBlockGetArgument(b.block, 0), 1, (int64_t[]){0}, false);
  blu_func_return(f, at, 1, &result, NULL);
  mlirOperationSetAttributeByName(f, ref("blu.kernel"), mlirStringAttrGet(ctx, ref(blu_kernel_kind_names[BLU_KERNEL_COLUMNS])));
  mlirOperationSetAttributeByName(f, ref("blu.space"), mlirDenseI64ArrayGet(ctx, port.type.rank, port.type.dim));
  return f;
}

/* A product of a library, as BluDeviceLaunch with a BluProduct. */
static LLVMValueRef library_product(Program *p, MlirOperation kernel, MlirOperation matmul, bool aligned) {
  BluMatrices x = blu_matrices_of(matmul);
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(kernel)), last = blu_def(mlirOperationGetOperand(end, mlirOperationGetNumOperands(end) - 1));
  MlirValue bias = {0};
  int summed = blu_product_sum(last, matmul);
  bool biased = summed < 0 && !mlirOperationEqual(last, matmul);
  int epilogue = summed >= 0 ? BLU_EPILOGUE_SUM_A + summed : biased ? BLU_EPILOGUE_BIAS : BLU_EPILOGUE_NONE;
  bool tf32 = !mlirAttributeIsNull(mlirOperationGetAttributeByName(mlirModuleGetOperation(p->planned), ref("blu.tf32")));
  if (biased) bias = blu_product_bias(last, matmul);
  int64_t place_of[3] = {0, 0, -1};
  for (int i = 0; i < 2; i++) place_of[i] = mlirBlockArgumentGetArgNumber(mlirOperationGetOperand(matmul, i));
  if (biased) place_of[2] = mlirBlockArgumentGetArgNumber(bias);
  if (summed >= 0) place_of[2] = blu_func_nargs(kernel) + 1; /* results are in the order of ops: the product, the sum */
  LLVMValueRef product = global(p, record(p, 15, (LLVMValueRef[]){number(p, x.batch), number(p, x.m), number(p, x.n), number(p, x.k), number(p, x.step_a),
    number(p, x.step_b), number(p, x.step_c), small(p, x.ta), small(p, x.tb), small(p, tf32), small(p, epilogue),
    small(p, place_of[0]), small(p, place_of[1]), small(p, blu_func_nargs(kernel)), small(p, place_of[2])}));
  if (summed >= 0) {
    MlirOperation alone = sum_kernel(p, kernel, last);
    LLVMValueRef launch = device_function(p, alone, aligned, product);
    mlirOperationDestroy(alone);
    return launch;
  }
  LLVMValueRef null = LLVMConstNull(p->ptr), three = LLVMConstNull(LLVMArrayType2(p->i32, 3));
  return global(p, record(p, 6, (LLVMValueRef[]){null, product, three, three, small(p, 0), small(p, 0)}));
}

/* A launch of one of our functions, or of a library's product, as BluDeviceLaunch. */
static LLVMValueRef device_kernel(Program *p, MlirOperation f, bool aligned) {
  BluKernelInfo info;
  blu_kernel_info(f, &info);
  if (info.kind == BLU_KERNEL_MATMUL && blu_product_in_library(info.main)) return library_product(p, f, info.main, aligned);
  return device_function(p, f, aligned, LLVMConstNull(p->ptr));
}

/* Slices in loops lie at multiples of their own size. Kernels that get one whose size is no multiple of a vector's are marked. */
static void find_unaligned(Program *p, BluMap *unaligned) {
  enum { VECTOR = 16 };
  for (MlirOperation f = mlirBlockGetFirstOperation(mlirModuleGetBody(p->planned)); !mlirOperationIsNull(f); f = mlirOperationGetNextInBlock(f)) {
    if (!is_func(f) || is_kernel(f) || !blu_is_body(f)) continue;
    for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(f)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
      if (!is_call(o)) continue;
      const char *name = mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(o, ref("callee"))).data;
      MlirOperation kernel = blu_func_find(p->planned, name);
      for (intptr_t i = 0, in = mlirOperationGetNumOperands(o); i < in + mlirOperationGetNumResults(o); i++) {
        BluType t = blu_value_type(i < in ? mlirOperationGetOperand(o, i) : mlirOperationGetResult(o, i - in));
        bool outside = place(o, "blu.places", (int)i) <= BLU_PLACE_OUTSIDE;
        if (outside && blu_type_count(&t) * blu_elem_bytes(t.elem) % VECTOR) blu_map_set(unaligned, kernel.ptr, kernel.ptr);
      }
    }
  }
}

static bool make_images(Program *p) {
  char *error = NULL;
  blu_cuda_math(p->info->cuda->module);
  blu_cuda_prepare(p->info->cuda->module);
  if (blu_cuda_images(p->info->cuda, &error)) return true;
  mlirEmitError(mlirLocationUnknownGet(mlirModuleGetContext(p->planned)), error ? error : "no device code");
  free(error);
  return false;
}

static LLVMValueRef images(Program *p) {
  const BluCuda *c = p->info->cuda;
  LLVMValueRef image[BLU_CUDA_ARCHS + 1];
  for (int i = 0; i < c->images; i++) {
    const BluCudaImage *from = &c->image[i];
    LLVMValueRef bytes = global(p, LLVMConstStringInContext2(p->ctx, from->bytes, from->size, 1));
    LLVMSetAlignment(bytes, BLU_ABI_ALIGN);
    image[i] = record(p, 4, (LLVMValueRef[]){small(p, from->arch), small(p, from->least), bytes, number(p, (int64_t)from->size)});
  }
  return array(p, p->image, image, c->images);
}

static bool compile_kernels(Program *p) {
  bool good = true;
  int64_t *load = blu_alloc_zeroed((size_t)p->info->parts + 1, sizeof *load);
  BluMap unaligned = {0};
  if (p->info->cuda) find_unaligned(p, &unaligned);
  for (MlirOperation f = mlirBlockGetFirstOperation(mlirModuleGetBody(p->planned)); !mlirOperationIsNull(f); f = mlirOperationGetNextInBlock(f)) {
    if (!is_func(f) || !is_kernel(f) || !(good &= has_code(p, f))) continue;
    Compiled *k = blu_alloc(sizeof *k);
    int64_t scratch = 0;
    bool device = p->info->cuda && !blu_kernel_is_host(f);
    *k = (Compiled){.device = LLVMConstNull(p->ptr), .pieces = 1, .flops = flops_of(f), .elements = device ? 0 : blu_kernel_any_size(f)};
    if (device) k->device = device_kernel(p, f, !blu_map_get(&unaligned, f.ptr));
    else k->fn = k->elements ? emit_shared(p, f, load, k) : emit_kernel(p, f, load, &k->pieces, &scratch);
    if (scratch > p->scratch) p->scratch = scratch;
    blu_map_set(&p->kernels, f.ptr, k);
  }
  free(load);
  blu_map_free(&unaligned);
  return good && (!p->info->cuda || make_images(p));
}

int64_t blu_program_vocabulary(MlirModule planned) {
  MlirOperation f = blu_func_find(planned, BLU_DECODE);
  BluPort input[2], output = {0};
  int inputs = 0, outputs = 0;
  if (mlirOperationIsNull(f)) return 0;
  for (int i = 0; i < blu_func_nargs(f); i++) {
    BluPort port = blu_func_arg(f, i);
    if (strcmp(port.role, "input")) continue;
    if (inputs < 2) input[inputs] = port;
    inputs++;
  }
  for (int i = 0; i < blu_func_nresults(f); i++) {
    BluPort port = blu_func_result(f, i);
    if (!strcmp(port.role, "output")) output = port, outputs++;
  }
  if (inputs < 1 || inputs > 2 || outputs != 1) return 0;
  BluType token = input[0].type, logits = output.type;
  bool at = inputs == 1 || (input[1].type.elem == BLU_I32 && input[1].type.rank == 0);
  bool fits = token.elem == BLU_I32 && token.rank == 1 && token.dim[0] == 1 && at &&
              (logits.elem == BLU_F32 || logits.elem == BLU_F64 || logits.elem == BLU_BF16 || logits.elem == BLU_F16) && logits.rank == 2 && logits.dim[0] == 1;
  return fits ? logits.dim[1] : 0;
}

/* The runtime's command, where there is something to sample from: else the linker leaves its code out. */
static LLVMValueRef sampler(Program *p) {
  if (!blu_program_vocabulary(p->planned)) return LLVMConstNull(p->ptr);
  return LLVMAddFunction(p->module, "blu_sample_run", LLVMFunctionType(LLVMVoidTypeInContext(p->ctx), NULL, 0, 0)); /* only its address */
}

static bool has_adapters(MlirModule planned) {
  for (MlirOperation f = mlirBlockGetFirstOperation(mlirModuleGetBody(planned)); !mlirOperationIsNull(f); f = mlirOperationGetNextInBlock(f))
    for (int i = 0; is_func(f) && !is_kernel(f) && i < blu_func_nargs(f); i++) {
      BluPort port = blu_func_arg(f, i);
      size_t length = port.name ? strlen(port.name) : 0, ending = strlen(BLU_ADAPTER_FIRST);
      if (!strcmp(port.role, "param") && length > ending && !strcmp(port.name + length - ending, BLU_ADAPTER_FIRST)) return true;
    }
  return false;
}

/* What the runtime knows of adapters, where there are any. */
static LLVMValueRef adapters(Program *p) {
  return has_adapters(p->planned) ? LLVMAddGlobal(p->module, LLVMInt8TypeInContext(p->ctx), "blu_adapters") : LLVMConstNull(p->ptr);
}

static void emit_table(Program *p) {
  int64_t scratch = (p->scratch + BLU_ABI_ALIGN - 1) / BLU_ABI_ALIGN * BLU_ABI_ALIGN; /* of kernels; the frame follows */
  MlirOperation module = mlirModuleGetOperation(p->planned);
  Slots tensors = {0}, scalars = {0};
  LLVMValueRef *functions = NULL;
  int64_t n = 0;
  for (MlirOperation f = mlirBlockGetFirstOperation(mlirModuleGetBody(p->planned)); !mlirOperationIsNull(f); f = mlirOperationGetNextInBlock(f)) {
    if (!is_func(f) || is_kernel(f) || blu_is_body(f)) continue;
    functions = blu_realloc(functions, (size_t)(n + 1) * sizeof *functions);
    functions[n++] = function(p, f, &tensors, &scalars);
  }
  uint64_t hash = 0xcbf29ce484222325u;
  hash_text(ref(p->info->compiler), &hash);
  hash_text(ref(p->info->cpu->name), &hash);
  for (int i = 0; p->info->cuda && i < p->info->cuda->archs->n; i++) hash_text(ref(p->info->cuda->archs->arch[i].name), &hash);
  mlirOperationPrint(module, hash_text, &hash);
  hash ^= p->info->embedded_hash;
  char *plan = blu_plan_print(p->planned);
  int64_t plan_bytes;
  LLVMValueRef packed = gzip(p, plan, &plan_bytes);
  int64_t ntensors = tensors.n, nscalars = scalars.n;
  LLVMValueRef tensor = finish_slots(p, &tensors), scalar = finish_slots(p, &scalars);
  LLVMValueRef fields[] = {
    small(p, BLU_ABI), small(p, p->info->cpu->level == 4 ? BLU_CPU_V4 : p->info->cpu->level == 3 ? BLU_CPU_V3 : BLU_CPU_V2),
    string(p, text_attr(module, "blu.model")), string(p, p->info->compiler), string(p, p->info->cpu->name),
    string(p, p->info->source_name), string(p, p->info->source), packed, number(p, plan_bytes),
    string(p, text_attr(module, "blu.data")), string(p, text_attr(module, "blu.data_args")), number(p, (int64_t)hash),
    number(p, int_attr(module, "blu.arena")), number(p, int_attr(module, "blu.kept")),
    number(p, scratch + int_attr(module, "blu.frame")), number(p, scratch), number(p, p->loop_offsets),
    tensor, number(p, ntensors), scalar, number(p, nscalars), array(p, p->function, functions, n), number(p, n),
    p->info->embedded_bytes ? LLVMAddGlobal(p->module, LLVMInt8TypeInContext(p->ctx), "blu_embedded") : LLVMConstNull(p->ptr),
    number(p, p->info->embedded_bytes), p->info->cuda ? images(p) : LLVMConstNull(p->ptr),
    number(p, p->info->cuda ? p->info->cuda->images : 0), sampler(p),
    p->info->tokenizer_bytes ? LLVMAddGlobal(p->module, LLVMInt8TypeInContext(p->ctx), "blu_tokenizer") : LLVMConstNull(p->ptr),
    number(p, p->info->tokenizer_bytes), adapters(p)};
  LLVMValueRef value = record(p, sizeof fields / sizeof *fields, fields), g = LLVMAddGlobal(p->module, LLVMTypeOf(value), "blu_program");
  LLVMSetInitializer(g, value);
  LLVMSetGlobalConstant(g, 1);
  free(plan);
  free(functions);
}

bool blu_program_emit(LLVMModuleRef m, MlirModule planned, const BluProgramInfo *info) {
  Program p = {.ctx = LLVMGetModuleContext(m), .module = m, .planned = planned, .info = info, .good = true};
  p.i32 = LLVMInt32TypeInContext(p.ctx), p.i64 = LLVMInt64TypeInContext(p.ctx), p.f64 = LLVMDoubleTypeInContext(p.ctx);
  p.ptr = LLVMPointerTypeInContext(p.ctx, 0);
  p.slot = structure(&p, 12, (LLVMTypeRef[]){p.ptr, p.i32, p.i32, p.i32, p.i32, LLVMArrayType2(p.i64, BLU_ABI_RANK), p.i64, p.i64, p.i64, p.f64,
                                                     p.ptr, p.ptr});
  p.launch = structure(&p, 9, (LLVMTypeRef[]){p.ptr, p.ptr, p.i64, p.ptr, p.i64, p.ptr, p.ptr, p.i64, p.ptr});
  p.image = structure(&p, 4, (LLVMTypeRef[]){p.i32, p.i32, p.ptr, p.i64});
  p.function = structure(&p, 9, (LLVMTypeRef[]){p.ptr, p.ptr, p.i64, p.ptr, p.i64, p.i64, p.i64, p.i64, p.i64});
  p.good = compile_kernels(&p);
  if (p.good) emit_table(&p);
  for (size_t i = 0; i < p.kernels.size; i++) free(p.kernels.slot[i].value);
  blu_map_free(&p.kernels);
  for (int i = 0; i < p.nshared; i++) blu_kernel_key_free(&p.shared[i].key);
  free(p.shared);
  return p.good;
}
