/* ranks_test.c - collectives between processes: sums against a loop in rank order, bit for bit, shares, gathers, callers that are no
 * ranks, and an error of one rank that reaches the others. Every process checks, and the first one counts those that failed. */
#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ranks_internal.h"
#include "unit.h"

enum { SECONDS = 20 };

/* Value i of part p on rank r: of very different sizes, so that the order of additions shows. */
static double value_of(int64_t r, int64_t p, int64_t i) {
  uint64_t x = ((uint64_t)r * 1000003 + (uint64_t)p * 7919 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  return ((double)(x >> 40) - 8388608) * (x % 5 == 0 ? 1e6 : x % 7 == 0 ? 1e-6 : 1);
}

static void fill(const BluPart *part, int64_t p, int64_t r) {
  for (int64_t i = 0; part->dtype == BLU_DTYPE_F32 && i < part->bytes / 4; i++) ((float *)(void *)part->place)[i] = (float)value_of(r, p, i);
  for (int64_t i = 0; part->dtype == BLU_DTYPE_F64 && i < part->bytes / 8; i++) ((double *)(void *)part->place)[i] = value_of(r, p, i);
  for (int64_t i = 0; part->dtype == BLU_DTYPE_U8 && i < part->bytes; i++) part->place[i] = (char)value_of(r, p, i);
}

/* How many elements differ from the sum in rank order. */
static int64_t wrong_sums(const BluPart *part, int64_t p, int64_t ranks) {
  int64_t wrong = 0;
  for (int64_t i = 0; part->dtype == BLU_DTYPE_F32 && i < part->bytes / 4; i++) {
    float sum = (float)value_of(0, p, i);
    for (int64_t r = 1; r < ranks; r++) sum += (float)value_of(r, p, i);
    wrong += memcmp(&sum, part->place + 4 * i, 4) != 0;
  }
  for (int64_t i = 0; part->dtype == BLU_DTYPE_F64 && i < part->bytes / 8; i++) {
    double sum = value_of(0, p, i);
    for (int64_t r = 1; r < ranks; r++) sum += value_of(r, p, i);
    wrong += memcmp(&sum, part->place + 8 * i, 8) != 0;
  }
  return wrong;
}

static BluPart part_of(int32_t dtype, int64_t elements) {
  int64_t bytes = elements * blu_dtype_bytes(dtype);
  return (BluPart){.place = blu_new(bytes, 1), .bytes = bytes, .dtype = dtype};
}

static void check_sums(BluCollective *c) {
  /* odd sizes, small ones among large ones, types that mix, more parts than fit into one call, more bytes than buffers hold */
  enum { FEW = 6, PARTS = 150 };
  static const int64_t large[FEW] = {1, 3, 100003, 65536, 300001, 7};
  BluPart part[PARTS];
  BluError err = {""};
  for (int64_t p = 0; p < PARTS; p++) part[p] = part_of(p % 3 == 1 ? BLU_DTYPE_F64 : BLU_DTYPE_F32, p < FEW ? large[p] : p % 11 + 1);
  for (int round = 0; round < 2; round++) {
    for (int64_t p = 0; p < PARTS; p++) fill(&part[p], p, c->rank);
    CHECK(c->sum(&err, c, part, PARTS), "%s", err.text);
    for (int64_t p = 0; p < PARTS; p++) CHECK(!wrong_sums(&part[p], p, c->ranks), "rank %d, part %d", (int)c->rank, (int)p);
  }
  CHECK(c->sum(&err, c, part, 0), "%s", err.text);
  for (int64_t p = 0; p < PARTS; p++) free(part[p].place);
}

/* In one process a step of micro-batches adds to zero; -0 must not make a difference, nor NaN and infinity be lost. */
static void check_special(BluCollective *c) {
  float x[4] = {-0.0f, c->rank ? INFINITY : 1, c->rank == 1 ? NAN : 1, 0x1p-149f};
  BluPart part = {.place = (char *)x, .bytes = sizeof x, .dtype = BLU_DTYPE_F32};
  BluError err = {""};
  CHECK(c->sum(&err, c, &part, 1), "%s", err.text);
  CHECK(x[0] == 0 && isinf(x[1]) && isnan(x[2]) && x[3] == (float)c->ranks * 0x1p-149f, "%g %g %g %g", x[0], x[1], x[2], x[3]);
}

static void check_shares(BluCollective *c) {
  BluError err = {""};
  BluPart part[3] = {part_of(BLU_DTYPE_U8, 700001), part_of(BLU_DTYPE_F32, 5), part_of(BLU_DTYPE_U8, 1)};
  for (int64_t p = 0; p < 3; p++) fill(&part[p], p, c->rank);
  CHECK(c->share(&err, c, part, 3), "%s", err.text);
  for (int64_t p = 0; p < 3; p++) {
    BluPart first = part_of(part[p].dtype, part[p].bytes / blu_dtype_bytes(part[p].dtype));
    fill(&first, p, 0);
    CHECK(!memcmp(first.place, part[p].place, (size_t)first.bytes), "rank %d, part %d", (int)c->rank, (int)p);
    free(first.place);
    free(part[p].place);
  }
}

static void check_gathers(BluCollective *c) {
  BluError err = {""};
  for (int64_t n = 1; n < 40000; n = n * 7 + 1) {
    char *mine = blu_new(n, 1), *all = blu_new(n * c->ranks, 1);
    for (int64_t i = 0; i < n; i++) mine[i] = (char)(c->rank * 31 + i);
    CHECK(c->gather(&err, c, mine, n, all), "%s", err.text);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n * c->ranks; i++) wrong += all[i] != (char)(i / n * 31 + i % n);
    CHECK(!wrong, "rank %d: %d of %d bytes", (int)c->rank, (int)wrong, (int)n);
    free(mine);
    free(all);
  }
}

/* Someone who calls at the port of rank 0 and is no rank. */
static void call_in_vain(const BluRanks *ranks, const char *words) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)ranks->port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(!connect(fd, (struct sockaddr *)&address, sizeof address) && send(fd, words, strlen(words), MSG_NOSIGNAL) >= 0, "no connection");
  close(fd);
}

/* One group; in all but the first process it ends in _exit. `fails`: the rank that ends with an error before a sum, -1: none. */
static void run_group(int64_t number, int64_t fails) {
  BluRanks ranks = {.ranks = number, .listener = -1};
  BluError err = {""};
  int before = unit_failures;
  bool started = blu_ranks_start(&err, &ranks);
  CHECK(started, "%s", err.text);
  if (!started) return;
  if (ranks.rank == 1) call_in_vain(&ranks, "");
  if (ranks.rank == 1) call_in_vain(&ranks, "GET / HTTP/1.1\r\nHost: somewhere, with more words than a rank would say..........\r\n\r\n");
  BluCollective *c = blu_tcp_open(&err, &ranks, 77, SECONDS);
  CHECK(c, "rank %d: %s", (int)ranks.rank, err.text);
  if (c && fails < 0) {
    CHECK(c->rank == ranks.rank && c->ranks == number && c->near == number && c->beside == number, "%d of %d", (int)c->rank, (int)c->ranks);
    check_gathers(c);
    check_sums(c);
    check_special(c);
    check_shares(c);
    check_sums(c);
    c->close(c, NULL);
  } else if (c) {
    float x = 1;
    BluPart part = {.place = (char *)&x, .bytes = 4, .dtype = BLU_DTYPE_F32};
    char all[8], mine = 0;
    CHECK(c->gather(&err, c, &mine, 1, all), "%s", err.text);
    double start = blu_log_now();
    bool good = c->rank != fails ? c->sum(&err, c, &part, 1) : blu_error_set(&err, "the disk is full");
    CHECK(!good && (c->rank == fails) == !!err.text[0], "rank %d: good %d, '%s'", (int)c->rank, good, err.text);
    c->close(c, &err);
    CHECK(ranks.rank != fails || !fails || strstr(err.text, "rank ") == err.text, "'%s'", err.text);
    CHECK(blu_log_now() - start < 60, "it took %g seconds", blu_log_now() - start);
  }
  int code = unit_failures > before;
  if (ranks.rank) fflush(stdout), _exit(code);
  CHECK(!blu_ranks_wait(&ranks, code), "a rank of %d failed", (int)number);
}

int main(void) {
  for (int64_t ranks = 2; ranks < 6; ranks++) run_group(ranks, -1);
  run_group(16, -1);
  for (int64_t fails = 0; fails < 4; fails++) run_group(4, fails);
  return unit_verdict();
}
