/* step.c - runs parts of functions: recorded once as a graph of the driver's, replayed after that.
 *
 * A part is what is run in one go, such as a step until its guard. Its loops are unrolled. Launches that are host code run first, on the mirror,
 * in their order; what they give is copied to the arena where they stand among the device's launches, for a place may serve others before
 * and after. All numbers of a run travel through one pinned buffer of the part, so that the graph reads them anew each time. */
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

enum { NEAR = 4096 }; /* bytes: results so near to each other come back in one copy */

/* --- all launches, one by one --- */

typedef struct {
  int64_t *room, at[2 * BLU_ABI_LOOPS];
  BluCudaVisit *visit;
  void *user;
} Walk;

static bool walk(BluError *err, Walk *w, const BluLaunch *launch, int64_t launches, int depth) {
  for (int64_t i = 0; i < launches; i++) {
    const BluLoop *loop = launch[i].loop;
    for (int64_t k = 0; loop && k < loop->steps; k++) {
      w->at[depth] = loop->reverse ? loop->steps - 1 - k : k;
      if (!walk(err, w, loop->launch, loop->launches, depth + 1)) return false;
    }
    if (loop) continue;
    const int64_t *offset = launch[i].offset;
    for (int64_t p = 0; depth && p < launch[i].offsets; p++) {
      w->room[p] = launch[i].offset[p];
      for (int d = 0; d < depth; d++) w->room[p] += launch[i].stride[p * depth + d] * w->at[d];
      offset = w->room;
    }
    if (!w->visit(err, w->user, &launch[i], offset)) return false;
  }
  return true;
}

bool blu_cuda_walk(BluError *err, const BluLaunch *launch, int64_t launches, int64_t *room, BluCudaVisit *visit, void *user) {
  Walk w = {.room = room, .visit = visit, .user = user};
  return walk(err, &w, launch, launches, 0);
}

static bool is_poison(const BluLaunch *launch) { return launch->kernel == blu_rt_poison; }
static bool is_host(const BluLaunch *launch) { return !launch->device && !is_poison(launch); }

/* --- what a part sends and brings back --- */

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Adds spans that cover 8 bytes at each of the places; those no more than `gap` apart share one. `at` counts the buffer's bytes. Places are
 * multiples of 64 apart (BLU_ABI_ALIGN), so that 8 bytes of a number of 4 are nobody else's. Null `span`: only counts. */
static int64_t cover(int64_t *place, int64_t places, int64_t gap, BluCudaSpan *span, int64_t *at) {
  enum { NUMBER = 8 };
  int64_t spans = 0, end = 0;
  qsort(place, (size_t)places, sizeof *place, by_value);
  for (int64_t i = 0; i < places; i++) {
    bool joins = spans && place[i] <= end + gap;
    if (joins && place[i] + NUMBER <= end) continue;
    if (!joins && span) span[spans] = (BluCudaSpan){.offset = place[i], .at = *at};
    int64_t more = joins ? place[i] + NUMBER - end : NUMBER;
    spans += !joins;
    *at += more;
    end = place[i] + NUMBER;
    if (span) span[spans - 1].bytes += more;
  }
  return spans;
}

typedef struct {
  BluCudaPart *part;
  bool fill; /* else counts */
} Collect;

static bool collect(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset) {
  Collect *c = user;
  BluCudaPart *p = c->part;
  (void)err;
  if (!is_host(launch)) return true;
  int64_t *place = blu_new(launch->offsets, sizeof *place);
  memcpy(place, offset, (size_t)launch->offsets * sizeof *place);
  int64_t spans = cover(place, launch->offsets, BLU_ABI_ALIGN - 8, c->fill ? p->number + p->spans : NULL, &p->number_bytes);
  if (c->fill) p->host_spans[p->hosts] = spans;
  p->spans += spans;
  p->hosts++;
  free(place);
  return true;
}

static bool is_result(const BluSlot *slot) {
  return !slot->rank && (slot->role == BLU_ROLE_SUM || slot->role == BLU_ROLE_WEIGHT || slot->role == BLU_ROLE_SQUARES ||
                         slot->role == BLU_ROLE_NORM || slot->role == BLU_ROLE_OUTPUT);
}

static bool gather(BluError *err, BluCudaDevice *d, BluCudaPart *p) {
  const BluFunction *f = p->function;
  int64_t *place = blu_new(d->program->scalars + f->slots, sizeof *place), places = 0;
  Collect c = {.part = p};
  bool good = true;
  for (int round = 0; good && round < 2; round++) { /* counts, then fills */
    c.fill = round;
    if (round) {
      p->number = blu_new(p->spans, sizeof *p->number);
      p->host_spans = blu_new(p->hosts, sizeof *p->host_spans);
      p->result = blu_new(f->slots, sizeof *p->result);
    }
    p->spans = p->hosts = p->number_bytes = p->result_bytes = places = 0;
    for (int64_t i = 0; !p->first && i < d->program->scalars; i++) place[places++] = d->program->scalar[i].offset;
    p->scalar_spans = p->spans = cover(place, places, BLU_ABI_ALIGN - 8, round ? p->number : NULL, &p->number_bytes);
    good = blu_cuda_walk(err, f->launch + p->first, p->last - p->first, d->offset, collect, &c);
  }
  places = 0;
  for (int64_t i = 0; !p->first && i < f->slots; i++)
    if (is_result(&f->slot[i])) place[places++] = f->slot[i].offset;
  if (good) p->result_spans = cover(place, places, NEAR, p->result, &p->result_bytes);
  free(place);
  return good;
}

static bool take_pinned(BluError *err, BluCudaDevice *d, char **place, int64_t bytes) {
  if (!bytes) return true;
  d->pinned_bytes += bytes;
  return blu_cuda_good(err, &d->api, d->api.host_take((void **)place, (size_t)bytes, 0), "pinned memory");
}

static bool open_part(BluError *err, BluCudaDevice *d, BluCudaPart *p) {
  return gather(err, d, p) && take_pinned(err, d, &p->numbers, p->number_bytes) && take_pinned(err, d, &p->results, p->result_bytes) &&
         blu_cuda_good(err, &d->api, d->api.event_open(&p->done, CU_NO_TIMING), "an event");
}

/* --- the host's numbers --- */

typedef struct {
  const BluArena *arena;
  BluCudaPart *part;
  int64_t span, host; /* next */
} Compute;

static void snapshot(Compute *c) {
  const BluCudaSpan *span = &c->part->number[c->span++];
  memcpy(c->part->numbers + span->at, c->arena->base + span->offset, (size_t)span->bytes);
}

static bool compute(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset) {
  Compute *c = user;
  (void)err;
  if (!is_host(launch)) return true;
  launch->kernel(c->arena->base, offset, c->arena->scratch, 0, launch->pieces);
  for (int64_t spans = c->part->host_spans[c->host++]; spans; spans--) snapshot(c);
  return true;
}

/* --- the device's launches --- */

typedef struct {
  BluCudaDevice *device;
  BluCudaPart *part;
  int64_t span, host; /* next of the numbers to send, of the host launches */
  int64_t time;  /* events recorded; -1: not profiled */
} Issue;

static bool send_number(BluError *err, Issue *issue) {
  BluCudaDevice *d = issue->device;
  const BluCudaSpan *span = &issue->part->number[issue->span++];
  return blu_cuda_good(err, &d->api, d->api.to_device(d->arena + (uint64_t)span->offset, issue->part->numbers + span->at, (size_t)span->bytes, d->stream),
                       "sending a number");
}

static int by_name(const void *a, const void *b) { return strcmp(((const BluCudaCode *)a)->name, ((const BluCudaCode *)b)->name); }

static bool launch_code(BluError *err, BluCudaDevice *d, const BluDeviceLaunch *to, const int64_t *offset, int64_t offsets) {
  BluCudaCode key = {.name = to->function}, *code = bsearch(&key, d->code, (size_t)d->codes, sizeof key, by_name);
  uint64_t value[BLU_CUDA_PARAMETERS];
  void *parameter[BLU_CUDA_PARAMETERS];
  value[0] = d->arena;
  for (int64_t i = 0; i < offsets; i++) value[i + 1] = (uint64_t)offset[i];
  for (int64_t i = 0; i <= offsets; i++) parameter[i] = &value[i];
  char what[200];
  snprintf(what, sizeof what, "launching %s", to->function);
  return blu_cuda_good(err, &d->api, d->api.launch(code->function, (unsigned)to->grid[0], (unsigned)to->grid[1], (unsigned)to->grid[2],
                                                   (unsigned)to->block[0], (unsigned)to->block[1], (unsigned)to->block[2], (unsigned)to->shared_bytes,
                                                   d->stream, parameter, NULL), what);
}

static bool multiply(BluError *err, BluCudaDevice *d, const BluDeviceLaunch *to, const int64_t *offset) {
  const BluProduct *p = to->product;
  if (!blu_cuda_multiply(err, d, p, offset)) return false;
  if (!to->function || blu_cuda_sums(d, p)) return true;
  return launch_code(err, d, to, (int64_t[]){offset[p->epilogue == BLU_EPILOGUE_SUM_A ? p->place_a : p->place_b], offset[p->place_bias]}, 2);
}

/* See blu_rt_poison. */
static bool poison(BluError *err, BluCudaDevice *d, const int64_t *offset) {
  for (int64_t i = 0; i < offset[0]; i++)
    if (!blu_cuda_good(err, &d->api, d->api.fill(d->arena + (uint64_t)offset[1 + 2 * i], 0xff, (size_t)offset[2 + 2 * i], d->stream), "poisoning"))
      return false;
  return true;
}

static bool mark_time(BluError *err, Issue *issue, const BluLaunch *launch) {
  if (issue->time < 0) return true;
  BluCudaPart *p = issue->part;
  p->timed[issue->time] = launch;
  return blu_cuda_good(err, &issue->device->api, issue->device->api.event_record(p->time[issue->time++], issue->device->stream), "an event");
}

static bool issue_launch(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset) {
  Issue *issue = user;
  BluCudaDevice *d = issue->device;
  if (!mark_time(err, issue, launch)) return false;
  if (is_poison(launch)) return poison(err, d, offset);
  if (launch->device) return launch->device->product ? multiply(err, d, launch->device, offset)
                                                     : launch_code(err, d, launch->device, offset, launch->offsets);
  bool good = true;
  for (int64_t spans = issue->part->host_spans[issue->host++]; good && spans; spans--) good = send_number(err, issue);
  return good;
}

/* Everything of the part, in its order, onto the stream. */
static bool issue_part(BluError *err, BluCudaDevice *d, BluCudaPart *p, bool timed) {
  Issue issue = {.device = d, .part = p, .time = timed ? 0 : -1};
  bool good = true;
  while (good && issue.span < p->scalar_spans) good = send_number(err, &issue);
  good = good && blu_cuda_walk(err, p->function->launch + p->first, p->last - p->first, d->offset, issue_launch, &issue) && mark_time(err, &issue, NULL);
  for (int64_t i = 0; good && i < p->result_spans; i++)
    good = blu_cuda_good(err, &d->api, d->api.to_host(p->results + p->result[i].at, d->arena + (uint64_t)p->result[i].offset, (size_t)p->result[i].bytes,
                                                      d->stream), "bringing back results");
  return good;
}

static bool record_part(BluError *err, BluCudaDevice *d, BluCudaPart *p) {
  CuGraph graph = NULL;
  BluError late;
  if (!blu_cuda_good(err, &d->api, d->api.capture_begin(d->stream, CU_CAPTURE_RELAXED), "recording a graph")) return false;
  bool good = issue_part(err, d, p, false);
  bool ended = blu_cuda_good(good ? err : &late, &d->api, d->api.capture_end(d->stream, &graph), "recording a graph");
  good = good && ended && blu_cuda_good(err, &d->api, d->api.graph_make(&p->graph, graph, 0), "making a graph");
  if (graph) d->api.graph_free(graph);
  return good;
}

/* --- profiles --- */

static bool count(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset) {
  (void)err, (void)launch, (void)offset;
  ++*(int64_t *)user;
  return true;
}

static bool open_times(BluError *err, BluCudaDevice *d, BluCudaPart *p) {
  int64_t times = 1;
  if (p->time) return true;
  if (!blu_cuda_walk(err, p->function->launch + p->first, p->last - p->first, d->offset, count, &times)) return false;
  p->time = blu_new(times, sizeof *p->time);
  p->timed = blu_new(times, sizeof *p->timed);
  for (; p->times < times; p->times++)
    if (!blu_cuda_good(err, &d->api, d->api.event_open(&p->time[p->times], 0), "an event")) return false;
  return true;
}

/* Without a graph, whose launches can't be timed one by one. */
static bool run_timed(BluError *err, BluCudaDevice *d, BluCudaPart *p, BluProfile *profile) {
  if (!open_times(err, d, p) || !issue_part(err, d, p, true) ||
      !blu_cuda_good(err, &d->api, d->api.stream_wait(d->stream), p->function->name))
    return false;
  for (int64_t i = 0; i + 1 < p->times; i++) {
    float milliseconds;
    if (!blu_cuda_good(err, &d->api, d->api.event_time(&milliseconds, p->time[i], p->time[i + 1]), "an event")) return false;
    blu_profile_add(profile, p->timed[i], 1e-3 * milliseconds);
  }
  profile->runs += !p->first;
  return true;
}

/* --- running --- */

static BluCudaPart *part_of(BluError *err, BluCudaDevice *d, const BluFunction *function, int64_t first, int64_t last) {
  BluCudaPart *p = d->part;
  while (p && (p->function != function || p->first != first || p->last != last)) p = p->next;
  if (p) return p;
  p = blu_new(1, sizeof *p);
  *p = (BluCudaPart){.function = function, .first = first, .last = last, .next = d->part};
  d->part = p;
  return open_part(err, d, p) ? p : NULL;
}

/* The DATA that was sent for the function goes to its places. */
static bool take_data(BluError *err, BluCudaDevice *d, const BluFunction *f) {
  const BluCudaApi *api = &d->api;
  if (d->pending != f) return true;
  d->pending = NULL;
  int code = api->stream_after(d->stream, d->sent, 0);
  int64_t at = 0;
  for (int64_t i = 0; !code && i < f->slots; i++) {
    const BluSlot *slot = &f->slot[i];
    if (slot->role != BLU_ROLE_DATA) continue;
    code = api->copy(d->arena + (uint64_t)slot->offset, d->staging + (uint64_t)at, (size_t)slot->bytes, d->stream);
    at += (slot->bytes + BLU_ABI_ALIGN - 1) / BLU_ABI_ALIGN * BLU_ABI_ALIGN;
  }
  if (!code) code = api->event_record(d->taken, d->stream);
  d->has_taken = true;
  return blu_cuda_good(err, api, code, "taking a batch");
}

bool blu_cuda_run(BluError *err, const BluArena *arena, BluProfile *profile, const BluFunction *function, int64_t first, int64_t last) {
  BluCudaDevice *d = arena->device;
  BluCudaPart *p = part_of(err, d, function, first, last);
  if (!p || !blu_cuda_good(err, &d->api, p->launched ? d->api.event_wait(p->done) : 0, function->name)) return false;
  Compute c = {.arena = arena, .part = p};
  while (c.span < p->scalar_spans) snapshot(&c);
  if (!blu_cuda_walk(err, function->launch + first, last - first, d->offset, compute, &c) || (!first && !take_data(err, d, function))) return false;
  if (profile) {
    if (!run_timed(err, d, p, profile)) return false;
  } else {
    if (!p->graph && !record_part(err, d, p)) return false;
    if (!blu_cuda_good(err, &d->api, d->api.graph_launch(p->graph, d->stream), function->name)) return false;
  }
  d->last = p;
  p->launched = true;
  return blu_cuda_good(err, &d->api, d->api.event_record(p->done, d->stream), "an event");
}

bool blu_cuda_wait(BluError *err, const BluArena *arena) {
  BluCudaDevice *d = arena->device;
  BluCudaPart *p = d->last;
  return !p || blu_cuda_good(err, &d->api, d->api.event_wait(p->done), p->function->name);
}

const char *blu_cuda_result(const BluArena *arena, const BluSlot *slot) {
  const BluCudaDevice *d = arena->device;
  for (const BluCudaPart *p = d->part; p; p = p->next) {
    const BluSlot *first = p->function->slot;
    for (int64_t k = 0; slot >= first && slot < first + p->function->slots && k < p->result_spans; k++) {
      const BluCudaSpan *span = &p->result[k];
      if (slot->offset >= span->offset && slot->offset < span->offset + span->bytes) return p->results + span->at + (slot->offset - span->offset);
    }
  }
  return arena->base + slot->offset; /* a number of the run */
}

void blu_cuda_parts_close(BluCudaDevice *d) {
  for (BluCudaPart *p = d->part, *next; p; p = next) {
    next = p->next;
    if (p->graph) d->api.graph_exec_free(p->graph);
    if (p->done) d->api.event_close(p->done);
    if (p->numbers) d->api.host_give(p->numbers);
    if (p->results) d->api.host_give(p->results);
    for (int64_t i = 0; i < p->times; i++) d->api.event_close(p->time[i]);
    free(p->time);
    free(p->timed);
    free(p->number);
    free(p->host_spans);
    free(p->result);
    free(p);
  }
}
