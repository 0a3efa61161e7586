/* streams.c - see streams.h. A stream is a queue. What stands first in it may be done if it isn't waiting for an event of another stream. Which of
 * the streams goes on is drawn; so is, when something is asked for, whether anything is done right away. */
#define _GNU_SOURCE
#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INVALID = 1, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900 };

typedef enum { WORK, RECORD, AFTER, GRAPH } Kind;

typedef struct Item {
  struct Item *next;
  Kind kind;
  EmuWork *work;
  EmuEvent *event;
  EmuGraph *graph;
  int64_t version; /* of the event */
  size_t bytes;
  _Alignas(16) char data[];
} Item;

struct EmuEvent {
  EmuEvent *next;
  int64_t asked, done; /* versions */
  bool timed, closed;
  double time;
};

struct EmuGraph {
  EmuGraph *next;
  Item *first, *last;
  int64_t pending; /* launches that are not done */
  bool closed;
};

struct EmuStream {
  EmuStream *next;
  Item *first, *last;
  EmuGraph *records;
  bool closed;
};

static struct {
  EmuStream *stream;
  EmuEvent *event;
  EmuGraph *graph;
} all;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Item *new_item(Kind kind, const void *data, size_t bytes) {
  Item *item = calloc(1, sizeof *item + bytes);
  if (!item) blu_emu_fault("out of memory");
  item->kind = kind;
  item->bytes = bytes;
  if (bytes) memcpy(item->data, data, bytes);
  return item;
}

static bool may_go_on(const EmuStream *s) { return s->first && (s->first->kind != AFTER || s->first->event->done >= s->first->version); }

static void do_first(EmuStream *s) {
  Item *item = s->first;
  switch (item->kind) {
    case WORK: item->work(item->data); break;
    case RECORD:
      item->event->time = seconds();
      if (item->version > item->event->done) item->event->done = item->version;
      break;
    case AFTER: break;
    case GRAPH:
      for (Item *i = item->graph->first; i; i = i->next) i->work(i->data);
      item->graph->pending--;
      break;
  }
  s->first = item->next;
  if (!s->first) s->last = NULL;
  free(item);
}

/* One thing of a stream that is drawn; false: none can go on. */
static bool go_on(void) {
  int64_t able = 0;
  for (EmuStream *s = all.stream; s; s = s->next) able += may_go_on(s);
  if (!able) return false;
  int64_t which = (int64_t)(blu_emu_random() % (uint64_t)able);
  for (EmuStream *s = all.stream; s; s = s->next)
    if (may_go_on(s) && !which--) {
      do_first(s);
      return true;
    }
  return false;
}

/* What is asked for may happen at once, much later, or in between. */
static void maybe_go_on(void) {
  int64_t seed = blu_emu_seed();
  if (!seed)
    while (go_on());
  else if (seed % 3 == 2)
    for (uint64_t n = blu_emu_random() % 3; n; n--) go_on();
}

static int push(EmuStream *s, Item *item) {
  if (s->last) s->last->next = item;
  else s->first = item;
  s->last = item;
  maybe_go_on();
  return 0;
}

/* --- streams --- */

EmuStream *emu_stream_open(void) {
  EmuStream *s = calloc(1, sizeof *s);
  s->next = all.stream;
  return all.stream = s;
}

int emu_stream_close(EmuStream *s) {
  int code = emu_stream_wait(s);
  s->closed = true;
  return code;
}

int emu_stream_add(EmuStream *s, EmuWork *work, const void *data, size_t bytes) {
  Item *item = new_item(WORK, data, bytes);
  item->work = work;
  if (!s->records) return push(s, item);
  if (s->records->last) s->records->last->next = item;
  else s->records->first = item;
  s->records->last = item;
  return 0;
}

int blu_emu_enqueue(void *stream, void (*work)(const void *data), const void *data, size_t bytes) { return emu_stream_add(stream, work, data, bytes); }

int emu_stream_wait(EmuStream *s) {
  if (s->records) return CAPTURE_UNSUPPORTED;
  while (s->first)
    if (!go_on()) blu_emu_fault("streams wait for each other");
  return 0;
}

int emu_stream_after(EmuStream *s, EmuEvent *e) {
  if (s->records) return CAPTURE_UNSUPPORTED;
  Item *item = new_item(AFTER, NULL, 0);
  item->event = e;
  item->version = e->asked;
  return push(s, item);
}

bool emu_stream_records(const EmuStream *s) { return s->records != NULL; }

/* --- events --- */

EmuEvent *emu_event_open(bool timed) {
  EmuEvent *e = calloc(1, sizeof *e);
  e->timed = timed;
  e->next = all.event;
  return all.event = e;
}

void emu_event_close(EmuEvent *e) { e->closed = true; }

int emu_event_record(EmuEvent *e, EmuStream *s) {
  if (s->records) return CAPTURE_UNSUPPORTED;
  if (e->closed) blu_emu_fault("an event is recorded that was destroyed");
  Item *item = new_item(RECORD, NULL, 0);
  item->event = e;
  item->version = ++e->asked;
  return push(s, item);
}

int emu_event_wait(EmuEvent *e) {
  int64_t version = e->asked;
  while (e->done < version)
    if (!go_on()) blu_emu_fault("streams wait for each other");
  return 0;
}

int emu_event_time(float *milliseconds, const EmuEvent *from, const EmuEvent *to) {
  if (!from->timed || !to->timed) return INVALID;
  if (from->done < from->asked || to->done < to->asked) return NOT_READY;
  *milliseconds = (float)(1e3 * (to->time - from->time));
  return 0;
}

/* --- graphs: always a chain, for they record one stream --- */

static EmuGraph *new_graph(void) {
  EmuGraph *g = calloc(1, sizeof *g);
  g->next = all.graph;
  return all.graph = g;
}

int emu_capture_begin(EmuStream *s) {
  if (s->records) return INVALID;
  s->records = new_graph();
  return 0;
}

int emu_capture_end(EmuStream *s, EmuGraph **graph) {
  if (!s->records) return INVALID;
  *graph = s->records;
  s->records = NULL;
  return 0;
}

EmuGraph *emu_graph_copy(const EmuGraph *g) {
  EmuGraph *copy = new_graph();
  Item **end = &copy->first;
  for (const Item *from = g->first; from; from = from->next, end = &(*end)->next) {
    *end = copy->last = new_item(WORK, from->data, from->bytes);
    (*end)->work = from->work;
  }
  return copy;
}

int emu_graph_launch(EmuGraph *g, EmuStream *s) {
  if (s->records) return CAPTURE_UNSUPPORTED;
  if (g->closed) blu_emu_fault("a graph is launched that was destroyed");
  Item *item = new_item(GRAPH, NULL, 0);
  item->graph = g;
  g->pending++;
  return push(s, item);
}

void emu_graph_close(EmuGraph *g) {
  if (g->pending) blu_emu_fault("a graph is destroyed before it has run");
  g->closed = true;
}

int64_t emu_streams_left_behind(char *text, size_t size) {
  int64_t n = 0;
  for (EmuStream *s = all.stream; s; s = s->next)
    if (!s->closed && !n++) snprintf(text, size, "a stream");
  for (EmuEvent *e = all.event; e; e = e->next)
    if (!e->closed && !n++) snprintf(text, size, "an event");
  for (EmuGraph *g = all.graph; g; g = g->next)
    if (!g->closed && !n++) snprintf(text, size, "a graph");
  return n;
}
