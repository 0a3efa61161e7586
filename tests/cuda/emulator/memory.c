/* memory.c - memory of the emulated device, and what is known of each byte: whether it was written, and who accessed it last. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

/* The last access to a word of 4 bytes: in which launch, by which block and thread, in which epoch, of which of its bytes. A word has one
 * for writes and one for reads; an access of other bytes of the word by another thread replaces it, so that races of bytes within a word may
 * be missed, and none is made up. It is small, for most of the time goes into waiting for these. */
typedef struct {
  uint64_t launch : 12, block : 20, epoch : 16, thread : 10, bytes : 4;
  uint64_t several : 2; /* readers: 1 others of the block in this epoch, 2 other blocks */
} Last;

typedef struct { Last write, read; } Word;

struct EmuRegion {
  EmuRegion *next;
  char *base;
  int64_t bytes;
  uint8_t *written; /* [bytes] */
  Word *word;       /* [bytes / 4 + 2] */
  bool host, freed;
};

static struct {
  EmuRegion *first, *recent;
  int64_t taken;
  EmuRegion shared;
  int64_t shared_room;
} memory;

static size_t word_bytes(int64_t bytes) { return (size_t)(bytes / 4 + 2) * sizeof(Word); }

static void *lazy(size_t bytes) { /* zeros, which take memory where they are touched */
  void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return map == MAP_FAILED ? NULL : map;
}

static bool open_region(EmuRegion *r, int64_t bytes, bool host) {
  enum { GUARD = 1 << 16 }; /* between regions */
  char *map = lazy((size_t)bytes + 2 * GUARD);
  if (!map) return false;
  r->base = map + GUARD;
  r->bytes = bytes;
  r->host = host;
  if (!host) r->written = lazy((size_t)bytes), r->word = lazy(word_bytes(bytes));
  return host || (r->written && r->word);
}

EmuRegion *blu_emu_take(int64_t bytes, bool host) {
  EmuRegion *r = calloc(1, sizeof *r);
  if (!r || !open_region(r, bytes, host)) return free(r), NULL;
  r->next = memory.first;
  memory.first = r;
  if (!host) memory.taken += bytes;
  return r;
}

void *blu_emu_base(const EmuRegion *region) { return region->base; }
bool blu_emu_is_host(const EmuRegion *region) { return region->host; }
int64_t blu_emu_taken(void) { return memory.taken; }

static bool holds(const EmuRegion *r, const void *place) { return (const char *)place >= r->base && (const char *)place < r->base + r->bytes; }

EmuRegion *blu_emu_find(const void *place) {
  if (memory.recent && holds(memory.recent, place)) return memory.recent;
  for (EmuRegion *r = memory.first; r; r = r->next)
    if (holds(r, place)) return memory.recent = r;
  return NULL;
}

void blu_emu_give(EmuRegion *r) {
  r->freed = true;
  if (r->host) return;
  memory.taken -= r->bytes;
  madvise(r->base, (size_t)r->bytes, MADV_DONTNEED);
}

int64_t blu_emu_left_behind(char *text, size_t size) {
  int64_t n = 0;
  for (EmuRegion *r = memory.first; r; r = r->next)
    if (!r->freed && !n++) snprintf(text, size, "%lld bytes of %s memory", (long long)r->bytes, r->host ? "pinned" : "device");
  return n;
}

/* --- ranges --- */

static EmuRegion *region_of(const char *who, const void *place, int64_t bytes) {
  EmuRegion *r = blu_emu_find(place);
  if (r && !r->host && !r->freed && bytes <= r->bytes - ((const char *)place - r->base)) return r;
  if (!r) blu_emu_fault("%s %lld bytes at %p, which is no memory of the device", who, (long long)bytes, place);
  if (r->host) blu_emu_fault("%s %lld bytes at %p, which is memory of the host", who, (long long)bytes, place);
  int64_t at = (const char *)place - r->base;
  if (r->freed) blu_emu_fault("%s %lld bytes at byte %lld of memory that was freed", who, (long long)bytes, (long long)at);
  blu_emu_fault("%s %lld bytes at byte %lld of %lld: beyond the end", who, (long long)bytes, (long long)at, (long long)r->bytes);
}

void blu_emu_range(const char *who, const void *place, int64_t bytes) { region_of(who, place, bytes); }

void blu_emu_mark(const void *place, int64_t bytes, bool written) {
  EmuRegion *r = blu_emu_find(place);
  memset(r->written + ((const char *)place - r->base), written, (size_t)bytes);
}

void blu_emu_copy_marks(const void *to, const void *from, int64_t bytes) {
  EmuRegion *t = blu_emu_find(to), *f = blu_emu_find(from);
  memmove(t->written + ((const char *)to - t->base), f->written + ((const char *)from - f->base), (size_t)bytes);
}

void blu_emu_library_access(const char *who, const void *place, int64_t bytes, bool write) {
  EmuRegion *r = region_of(who, place, bytes);
  int64_t at = (const char *)place - r->base;
  if (write) {
    memset(r->written + at, 1, (size_t)bytes);
    return;
  }
  const uint8_t *hole = memchr(r->written + at, 0, (size_t)bytes);
  if (hole) blu_emu_fault("%s byte %lld of %lld, which nobody has written", who, (long long)(hole - r->written), (long long)r->bytes);
}

/* --- accesses of kernels --- */

static const char *word_for(bool write) { return write ? "writes" : "reads"; }

/* Two accesses to the same bytes, one a write, that nothing puts in order. */
static void race(const EmuRegion *r, int64_t at, bool write, const Last *other, bool other_writes, bool shared) {
  blu_emu_fault("race: it %s byte %lld of %lld of %s memory, which %s %u of block %u %s, and no barrier lies between", word_for(write), (long long)at,
                (long long)r->bytes, shared ? "shared" : "global", other->several ? "among others thread" : "thread", (unsigned)other->thread,
                (unsigned)other->block,
                other_writes ? "has written" : "has read");
}

/* True if the other access isn't ordered before the actor's. */
static bool conflicts(const Last *other, const EmuActor *a, uint8_t bytes) {
  if (other->launch != a->launch || !(other->bytes & bytes)) return false;
  if (other->block != (a->block & 0xfffff) || other->several & 2) return true;
  return other->epoch == a->epoch && (other->thread != a->thread || other->several & 1);
}

static Last first_access(const EmuActor *a, uint8_t bytes) {
  return (Last){.launch = a->launch & 0xfff, .block = a->block & 0xfffff, .epoch = a->epoch & 0xffff, .thread = a->thread & 0x3ff, .bytes = bytes & 15};
}

static void note(Last *last, const EmuActor *a, uint8_t bytes, bool reads) {
  bool same_launch = last->launch == a->launch && (last->bytes & bytes);
  uint8_t several = 0;
  if (reads && same_launch) {
    if (last->block != (a->block & 0xfffff) || last->several & 2) several = 2;
    else if (last->epoch == a->epoch && (last->thread != a->thread || last->several & 1)) several = 1;
  }
  uint8_t all = reads && same_launch ? last->bytes | bytes : bytes;
  *last = first_access(a, all);
  last->several = several & 3;
}

/* The same as `check` for what most accesses are: whole words that nobody else has accessed in this launch, and that were written if they are
 * read. false: it is not such a one, or a word of it isn't, and nothing is known of the rest. */
static bool check_plain(EmuRegion *r, int64_t at, int64_t bytes, bool write, const EmuActor *a) {
  enum { ALL = 15 };
  if ((at | bytes) & 3) return false;
  for (int64_t i = at; i < at + bytes; i += 4) {
    Word *w = &r->word[i >> 2];
    uint32_t marks, written = 0x01010101;
    memcpy(&marks, r->written + i, sizeof marks);
    if ((!write && marks != written) || conflicts(&w->write, a, ALL)) return false;
    if (write) {
      if (conflicts(&w->read, a, ALL)) return false;
      w->write = first_access(a, ALL);
      memcpy(r->written + i, &written, sizeof written);
    } else if (w->read.launch != a->launch) w->read = first_access(a, ALL);
    else note(&w->read, a, ALL, true);
  }
  return true;
}

void blu_emu_forget(void) {
  for (EmuRegion *r = memory.first; r; r = r->next)
    if (r->word) madvise(r->word, word_bytes(r->bytes), MADV_DONTNEED);
}

static void check(EmuRegion *r, int64_t at, int64_t bytes, bool write, const EmuActor *a, bool shared) {
  if (check_plain(r, at, bytes, write, a)) return;
  for (int64_t i = 0; !write && i < bytes; i++)
    if (!r->written[at + i])
      blu_emu_fault("it reads byte %lld of %lld of %s memory, which nobody has written", (long long)(at + i), (long long)r->bytes, shared ? "shared" : "global");
  for (int64_t first = at; first < at + bytes;) {
    int64_t word = first / 4, end = (word + 1) * 4 < at + bytes ? (word + 1) * 4 : at + bytes;
    uint8_t mask = (uint8_t)(((1u << (end - first)) - 1) << (first % 4));
    Word *w = &r->word[word];
    if (conflicts(&w->write, a, mask)) race(r, first, write, &w->write, true, shared);
    if (write && conflicts(&w->read, a, mask)) race(r, first, write, &w->read, false, shared);
    note(write ? &w->write : &w->read, a, mask, !write);
    first = end;
  }
  if (write) memset(r->written + at, 1, (size_t)bytes);
}

/* Constants of a twin lie in its file. What is in a page that was asked for just before is known. */
static bool is_constant(const void *place, const void *code) {
  static uintptr_t page;
  static const void *of;
  Dl_info of_place, of_code;
  if ((uintptr_t)place >> 12 == page && of == code) return true;
  if (!dladdr(place, &of_place) || !dladdr(code, &of_code) || of_place.dli_fbase != of_code.dli_fbase) return false;
  page = (uintptr_t)place >> 12, of = code;
  return true;
}

void blu_emu_check(const void *place, int64_t bytes, bool write, const EmuActor *actor) {
  if (!write && !blu_emu_find(place) && is_constant(place, actor->code)) return;
  EmuRegion *r = region_of(write ? "it writes" : "it reads", place, bytes);
  int64_t at = (const char *)place - r->base;
  if (at & ((bytes > 8 ? 4 : bytes) - 1)) blu_emu_fault("it %s %lld bytes at byte %lld: not aligned", word_for(write), (long long)bytes, (long long)at);
  check(r, at, bytes, write, actor, false);
}

void blu_emu_shared_open(char *base, int64_t bytes) {
  EmuRegion *s = &memory.shared;
  if (bytes > memory.shared_room) {
    if (s->written) munmap(s->written, (size_t)memory.shared_room), munmap(s->word, word_bytes(memory.shared_room));
    s->written = lazy((size_t)bytes), s->word = lazy(word_bytes(bytes));
    memory.shared_room = bytes;
    if (!s->written || !s->word) blu_emu_fault("out of memory");
  }
  s->base = base;
  s->bytes = bytes;
  if (!bytes) return;
  memset(s->written, 0, (size_t)bytes);
  memset(s->word, 0, word_bytes(bytes));
}

void blu_emu_check_shared(const void *place, int64_t bytes, bool write, const EmuActor *actor) {
  EmuRegion *s = &memory.shared;
  int64_t at = (const char *)place - s->base;
  if (at < 0 || at + bytes > s->bytes)
    blu_emu_fault("it %s %lld bytes at byte %lld of %lld of shared memory", word_for(write), (long long)bytes, (long long)at, (long long)s->bytes);
  check(s, at, bytes, write, actor, true);
}
