/* tcp_chain.c - tensors along the chain of ranks: partial sums go up, sums come down, and both directions move at the same time.
 *
 * Rank r adds what it has to the sum of ranks 0 to r - 1 and passes it on; the last rank has the sum of all in rank order, and passes that
 * back. All happens in the place of the tensors, in one stream of bytes, so that each rank sends and receives every byte at most twice,
 * whatever the number of ranks. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tcp_internal.h"

enum { PIECES = 64, AT_ONCE = BLU_TCP_BLOCK };
#define VERDICT_SECONDS 2.0 /* that rank 0 waits for the last words of one that has hung up */

/* A place in the stream. */
typedef struct {
  const BluPart *part;
  int64_t at, in, done; /* part, byte of the part, bytes before */
} Place;

typedef struct {
  BluTcp *tcp;
  const BluPart *part;
  bool adds;
  int64_t total, filled;                   /* bytes of the stream; bytes that wait in the block */
  Place up_in, up_out, down_in, down_out;
  bool moved;
  int64_t lost;                            /* neighbour whose connection has ended, -1: none */
} Chain;

static void go_on(Place *p, int64_t bytes) {
  p->done += bytes;
  for (p->in += bytes; p->in > 0 && p->in >= p->part[p->at].bytes;) p->in -= p->part[p->at++].bytes;
}

/* Up to `most` bytes from the place on, as pieces. */
static int pieces_of(const Place *p, int64_t most, struct iovec piece[PIECES]) {
  int n = 0;
  int64_t in = p->in;
  for (int64_t at = p->at; most > 0 && n < PIECES; at++, in = 0) {
    int64_t bytes = p->part[at].bytes - in < most ? p->part[at].bytes - in : most;
    if (bytes) piece[n++] = (struct iovec){.iov_base = p->part[at].place + in, .iov_len = (size_t)bytes};
    most -= bytes;
  }
  return n;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* What a call moved; 0: nothing now. */
static int64_t note(Chain *c, ssize_t n, bool sends, int64_t neighbour) {
  if (n > 0) c->moved = true;
  else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  else if (n < 0 || !sends) {
    if (!n) errno = 0;
    c->lost = neighbour;
    return 0;
  }
  return n;
}

static void send_from(Chain *c, Place *p, int64_t limit, int fd, int64_t neighbour) {
  struct iovec piece[PIECES];
  struct msghdr message = {.msg_iov = piece};
  int n = pieces_of(p, least_of(limit - p->done, AT_ONCE), piece);
  message.msg_iovlen = (size_t)n;
  if (n) go_on(p, note(c, sendmsg(fd, &message, MSG_NOSIGNAL), true, neighbour));
}

static void receive_to(Chain *c, Place *p, int fd, int64_t neighbour) {
  struct iovec piece[PIECES];
  int n = pieces_of(p, least_of(c->total - p->done, AT_ONCE), piece);
  if (n) go_on(p, note(c, readv(fd, piece, n), false, neighbour));
}

static void add_f32(char *to, const char *from, int64_t bytes) {
  float *sum = (float *)(void *)to, more;
  for (int64_t i = 0; i < bytes / 4; i++) memcpy(&more, from + 4 * i, 4), sum[i] = more + sum[i];
}

static void add_f64(char *to, const char *from, int64_t bytes) {
  double *sum = (double *)(void *)to, more;
  for (int64_t i = 0; i < bytes / 8; i++) memcpy(&more, from + 8 * i, 8), sum[i] = more + sum[i];
}

/* Receives into the block, and adds the whole elements there. */
static void receive_and_add(Chain *c, int fd, int64_t neighbour) {
  Place *p = &c->up_in;
  char *block = c->tcp->block;
  int64_t room = least_of(BLU_TCP_BLOCK - c->filled, c->total - p->done - c->filled), used = 0;
  if (room) c->filled += note(c, recv(fd, block + c->filled, (size_t)room, 0), false, neighbour);
  while (used < c->filled) {
    const BluPart *part = &p->part[p->at];
    int64_t element = part->dtype == BLU_DTYPE_F64 ? 8 : 4, bytes = least_of(c->filled - used, part->bytes - p->in) / element * element;
    if (!bytes) break;
    (element == 8 ? add_f64 : add_f32)(part->place + p->in, block + used, bytes);
    used += bytes;
    go_on(p, bytes);
  }
  memmove(block, block + used, (size_t)(c->filled - used));
  c->filled -= used;
}

static int64_t down_limit(const Chain *c) { return c->tcp->above < 0 ? c->up_in.done : c->down_in.done; }

/* Moves what can be moved now. */
static void move(Chain *c) {
  BluTcp *t = c->tcp;
  int64_t rank = t->base.rank;
  c->moved = false;
  if (t->below >= 0 && c->up_in.done < c->total) c->adds ? receive_and_add(c, t->below, rank - 1) : receive_to(c, &c->up_in, t->below, rank - 1);
  if (t->above >= 0 && c->lost < 0) send_from(c, &c->up_out, t->below < 0 ? c->total : c->up_in.done, t->above, rank + 1);
  if (!c->adds) return;
  if (t->above >= 0 && c->lost < 0) receive_to(c, &c->down_in, t->above, rank + 1);
  if (t->below >= 0 && c->lost < 0) send_from(c, &c->down_out, down_limit(c), t->below, rank - 1);
}

static bool is_done(const Chain *c) {
  const BluTcp *t = c->tcp;
  return (t->below < 0 || c->up_in.done == c->total) && (t->above < 0 || c->up_out.done == c->total) &&
         (!c->adds || ((t->above < 0 || c->down_in.done == c->total) && (t->below < 0 || c->down_out.done == c->total)));
}

/* Waits for something to move, or for news. `there` marks ranks that are ahead of this operation. *late: nothing came in time. */
static bool wait_for_more(BluError *err, Chain *c, double deadline, bool *late) {
  BluTcp *t = c->tcp;
  int64_t links = t->base.rank ? 1 : t->base.ranks;
  bool up = t->below >= 0 && c->up_in.done < c->total, up_more = c->up_out.done < (t->below < 0 ? c->total : c->up_in.done);
  bool down = c->adds && c->down_in.done < c->total, down_more = c->adds && c->down_out.done < down_limit(c);
  t->wait[0] = (struct pollfd){.fd = t->below, .events = (short)((up ? POLLIN : 0) | (down_more ? POLLOUT : 0))};
  t->wait[1] = (struct pollfd){.fd = t->above, .events = (short)((down ? POLLIN : 0) | (up_more ? POLLOUT : 0))};
  for (int64_t r = 0; r < links; r++)
    t->wait[2 + r] = (struct pollfd){.fd = t->link[r], .events = t->there[r] ? POLLRDHUP : POLLIN | POLLRDHUP};
  int ready = poll(t->wait, (nfds_t)(2 + links), blu_tcp_milliseconds(deadline));
  *late = ready <= 0 && !blu_tcp_milliseconds(deadline);
  for (int64_t r = 0; ready > 0 && r < links; r++) {
    bool ahead = false;
    if (!t->wait[2 + r].revents) continue;
    if (t->there[r]) return errno = 0, blu_tcp_lost(err, t, r);
    if (!blu_tcp_look(err, t, r, &ahead)) return false;
    t->there[r] |= ahead;
  }
  return true;
}

/* A neighbour has gone, and what it said before is on a link: its own, or that of rank 0, which sees all. */
static bool blame(BluError *err, BluTcp *t, int64_t lost) {
  int number = errno;
  double deadline = t->base.rank ? blu_tcp_deadline(t) : blu_log_now() + VERDICT_SECONDS;
  struct pollfd wait = {.fd = t->link[t->base.rank ? 0 : lost], .events = POLLIN};
  for (bool ahead = false; !ahead && poll(&wait, 1, blu_tcp_milliseconds(deadline)) > 0;)
    if (!blu_tcp_look(err, t, t->base.rank ? 0 : lost, &ahead)) return false;
  errno = number;
  return blu_tcp_lost(err, t, lost);
}

static bool run(BluError *err, BluTcp *t, const BluPart *part, int64_t parts, bool adds) {
  Chain c = {.tcp = t, .part = part, .adds = adds, .lost = -1};
  for (int64_t i = 0; i < parts; i++) c.total += part[i].bytes;
  c.up_in.part = c.up_out.part = c.down_in.part = c.down_out.part = part;
  for (int64_t r = 0; r < t->base.ranks; r++) t->there[r] = !r && !t->base.rank;
  double deadline = blu_tcp_deadline(t);
  while (!is_done(&c)) {
    bool late;
    move(&c);
    if (c.lost >= 0) return blame(err, t, c.lost);
    if (c.moved) {
      deadline = blu_tcp_deadline(t);
      continue;
    }
    if (is_done(&c)) break;
    if (!wait_for_more(err, &c, deadline, &late)) return false;
    if (!late) continue;
    if (!t->base.rank) return blu_tcp_late(err, t);
    return blu_error_set(err, "rank 0 has not answered for %g seconds (--rank-timeout)", t->seconds);
  }
  return true;
}

bool blu_tcp_sum(BluError *err, BluCollective *c, const BluPart *part, int64_t parts) { return run(err, (BluTcp *)c, part, parts, true); }
bool blu_tcp_share(BluError *err, BluCollective *c, const BluPart *part, int64_t parts) { return run(err, (BluTcp *)c, part, parts, false); }
