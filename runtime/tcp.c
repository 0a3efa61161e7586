/* tcp.c - messages between rank 0 and the others, and who is to blame when one doesn't come.
 *
 * Rank 0 alone judges: it has a link to everyone, so it sees which rank is late or gone, and tells the rest. Another rank that loses its
 * neighbour waits for that verdict. An error is printed once per machine: where it arose, or by rank 0. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tcp_internal.h"

#define GRACE_SECONDS 10.0 /* that rank 0 has to judge, before others give up by themselves */
#define PING_SECONDS 2.0   /* that ranks have to say that they are alive */

/* --- sockets --- */

void blu_tcp_prepare(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int blu_tcp_milliseconds(double deadline) {
  double left = 1e3 * (deadline - blu_log_now());
  return left < 0 ? 0 : left > 1e6 ? 1000000 : (int)left + 1;
}

static bool may_retry(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static BluTcpEnd transfer(int fd, char *data, int64_t bytes, double deadline, bool sends, int flags) {
  while (bytes > 0) {
    ssize_t n = sends ? send(fd, data, (size_t)bytes, MSG_NOSIGNAL | flags) : recv(fd, data, (size_t)bytes, 0);
    if (n > 0) {
      data += n;
      bytes -= n;
    } else if ((!n && !sends) || (n < 0 && !may_retry())) {
      if (!n) errno = 0;
      return BLU_TCP_CLOSED;
    } else {
      struct pollfd wait = {.fd = fd, .events = sends ? POLLOUT : POLLIN};
      int left = blu_tcp_milliseconds(deadline);
      if (!left) return BLU_TCP_LATE;
      poll(&wait, 1, left);
    }
  }
  return BLU_TCP_GOOD;
}

BluTcpEnd blu_tcp_send(int fd, const void *data, int64_t bytes, double deadline) { return transfer(fd, (char *)data, bytes, deadline, true, 0); }
BluTcpEnd blu_tcp_receive(int fd, void *data, int64_t bytes, double deadline) { return transfer(fd, data, bytes, deadline, false, 0); }

/* --- bad news --- */

double blu_tcp_deadline(const BluTcp *t) { return blu_log_now() + t->seconds + (t->base.rank ? GRACE_SECONDS : 0); }

static BluTcpEnd send_message(const BluTcp *t, int64_t to, BluTcpKind kind, const void *data, int64_t bytes) {
  BluTcpHead head = {.kind = kind, .bytes = (uint32_t)bytes};
  double deadline = blu_tcp_deadline(t);
  BluTcpEnd end = transfer(t->link[to], (char *)&head, sizeof head, deadline, true, bytes ? MSG_MORE : 0); /* one packet */
  return end == BLU_TCP_GOOD ? blu_tcp_send(t->link[to], data, bytes, deadline) : end;
}

void blu_tcp_tell(BluTcp *t, int64_t rank, uint64_t host, const char *text) {
  BluTcpNews news = {.host = host, .rank = rank};
  snprintf(news.text, sizeof news.text, "%s", text);
  struct { BluTcpHead head; BluTcpNews news; } message = {{BLU_TCP_ABORT, sizeof news}, news};
  for (int64_t r = 1; r < t->base.ranks && !t->told; r++) /* a rank whose buffer is full isn't waited for */
    if (t->link[r] >= 0) blu_tcp_send(t->link[r], &message, sizeof message, 0);
  t->told = true;
}

bool blu_tcp_lost(BluError *err, BluTcp *t, int64_t rank) {
  char why[100] = "";
  if (errno) snprintf(why, sizeof why, " (%s)", strerror(errno));
  blu_error_set(err, "rank %" PRId64 " was lost: it ended, or can't be reached any more%s", rank, why);
  blu_ranks_explain(err, t->who, rank);
  if (!t->base.rank) blu_tcp_tell(t, 0, t->host, err->text);
  return false;
}

int64_t blu_tcp_list(BluError *err, const BluTcp *t) {
  enum { MOST = 8 };
  int64_t missing = 0, listed = 0;
  for (int64_t r = 1; r < t->base.ranks; r++) missing += !t->there[r];
  blu_error_set(err, missing > 1 ? "ranks " : "rank ");
  for (int64_t r = 1; r < t->base.ranks && listed < MOST; r++)
    if (!t->there[r]) blu_error_add(err, "%s%" PRId64, !listed++ ? "" : listed == missing ? " and " : ", ", r);
  if (listed < missing) blu_error_add(err, " and %" PRId64 " more", missing - listed);
  return missing;
}

/* Marks those who say that they are alive: ranks that wait for another one answer. False: bad news came instead. */
static bool ask_around(BluError *err, BluTcp *t) {
  BluTcpHead ping = {.kind = BLU_TCP_PING};
  double deadline = blu_log_now() + PING_SECONDS;
  bool late = false, all = false;
  for (int64_t r = 1; r < t->base.ranks; r++)
    if (!t->there[r]) blu_tcp_send(t->link[r], &ping, sizeof ping, deadline);
  while (!late && !all) {
    for (int64_t r = 1; r < t->base.ranks; r++) t->wait[r - 1] = (struct pollfd){.fd = t->there[r] ? -1 : t->link[r], .events = POLLIN};
    int ready = poll(t->wait, (nfds_t)(t->base.ranks - 1), blu_tcp_milliseconds(deadline));
    late = ready <= 0 && !blu_tcp_milliseconds(deadline);
    all = true;
    for (int64_t r = 1; r < t->base.ranks; r++) {
      bool ahead = false;
      if (ready > 0 && t->wait[r - 1].revents && !blu_tcp_look(err, t, r, &ahead)) return false;
      t->there[r] |= ahead;
      all &= t->there[r];
    }
  }
  return true;
}

/* Those are late for which !there. */
static bool blame(BluError *err, BluTcp *t) {
  int64_t missing = blu_tcp_list(err, t);
  if (missing) blu_error_add(err, " ha%s not answered for %g seconds (--rank-timeout)", missing > 1 ? "ve" : "s", t->seconds);
  else blu_error_set(err, "nothing moves between the ranks since %g seconds (--rank-timeout), though all of them answer", t->seconds);
  blu_tcp_tell(t, 0, t->host, err->text);
  return false;
}

bool blu_tcp_late(BluError *err, BluTcp *t) { return ask_around(err, t) && blame(err, t); }

/* The news that this head announces. Empty text: another rank of this machine prints it. */
static bool take_news(BluError *err, BluTcp *t, int64_t from, BluTcpHead head) {
  BluTcpNews news;
  if (head.bytes != sizeof news || blu_tcp_receive(t->link[from], &news, sizeof news, blu_tcp_deadline(t)) != BLU_TCP_GOOD)
    return blu_tcp_lost(err, t, from);
  news.text[sizeof news.text - 1] = 0;
  if (!t->base.rank) blu_tcp_tell(t, news.rank, news.host, news.text);
  t->told = true;
  return blu_error_set(err, "%s", news.host == t->host ? "" : news.text);
}

/* --- messages --- */

bool blu_tcp_message(BluError *err, BluTcp *t, int64_t to, const void *data, int64_t bytes) {
  BluTcpEnd end = send_message(t, to, BLU_TCP_DATA, data, bytes);
  if (end == BLU_TCP_GOOD) return true;
  if (!t->base.rank && end == BLU_TCP_LATE) {
    for (int64_t r = 0; r < t->base.ranks; r++) t->there[r] = r != to;
    return blame(err, t);
  }
  return t->base.rank ? true : blu_tcp_lost(err, t, to); /* rank 0 may have left a message before it went: blu_tcp_await finds out */
}

/* Anything but DATA of the wanted size; *again: it was nothing of interest. */
static bool take_other(BluError *err, BluTcp *t, int64_t from, BluTcpHead head, bool *again) {
  *again = head.kind == BLU_TCP_PING || head.kind == BLU_TCP_PONG;
  if (head.kind == BLU_TCP_PING) send_message(t, from, BLU_TCP_PONG, NULL, 0);
  if (*again) return true;
  if (head.kind == BLU_TCP_FAIL || head.kind == BLU_TCP_ABORT) return take_news(err, t, from, head);
  blu_error_set(err, "rank %" PRId64 " says something else than rank %" PRId64 " expects: they don't do the same", from, t->base.rank);
  if (!t->base.rank) blu_tcp_tell(t, 0, t->host, err->text);
  return false;
}

bool blu_tcp_await(BluError *err, BluTcp *t, int64_t from, void *data, int64_t bytes) {
  double deadline = blu_tcp_deadline(t);
  BluTcpEnd end;
  for (bool again = true; again;) {
    BluTcpHead head;
    end = blu_tcp_receive(t->link[from], &head, sizeof head, deadline);
    if (end == BLU_TCP_GOOD && head.kind == BLU_TCP_DATA && head.bytes == bytes) end = blu_tcp_receive(t->link[from], data, bytes, deadline), again = false;
    else if (end == BLU_TCP_GOOD && !take_other(err, t, from, head, &again)) return false;
    if (end != BLU_TCP_GOOD) break;
  }
  if (end == BLU_TCP_GOOD) return true;
  if (end == BLU_TCP_CLOSED) return blu_tcp_lost(err, t, from);
  if (t->base.rank) return blu_error_set(err, "rank 0 has not answered for %g seconds (--rank-timeout)", t->seconds);
  for (int64_t r = 0; r < t->base.ranks; r++) t->there[r] = r != from;
  return blame(err, t);
}

bool blu_tcp_look(BluError *err, BluTcp *t, int64_t from, bool *ahead) {
  BluTcpHead head;
  ssize_t n = recv(t->link[from], &head, sizeof head, MSG_PEEK);
  if (n < 0 && may_retry()) return true;
  if (n <= 0) {
    if (!n) errno = 0;
    return blu_tcp_lost(err, t, from);
  }
  if (n < (ssize_t)sizeof head) return true;
  *ahead = head.kind == BLU_TCP_DATA;
  if (*ahead) return true;
  bool again, pong = head.kind == BLU_TCP_PONG;
  blu_tcp_receive(t->link[from], &head, sizeof head, 0);
  if (!take_other(err, t, from, head, &again)) return false;
  if (pong && !t->base.rank) t->there[from] = true;
  return true;
}

/* --- gather --- */

/* What each rank gives, as it comes. */
static bool collect(BluError *err, BluTcp *t, int64_t bytes, char *all) {
  double deadline = blu_tcp_deadline(t);
  int64_t ranks = t->base.ranks;
  for (int64_t r = 0; r < ranks; r++) t->there[r] = !r;
  for (int64_t left = ranks - 1; left;) {
    for (int64_t r = 1; r < ranks; r++) t->wait[r - 1] = (struct pollfd){.fd = t->link[r], .events = t->there[r] ? POLLRDHUP : POLLIN | POLLRDHUP};
    int ready = poll(t->wait, (nfds_t)(ranks - 1), blu_tcp_milliseconds(deadline));
    if (!ready && !blu_tcp_milliseconds(deadline)) return blu_tcp_late(err, t);
    for (int64_t r = 1; ready > 0 && r < ranks; r++) {
      if (!t->wait[r - 1].revents) continue;
      if (!blu_tcp_await(err, t, r, all + r * bytes, bytes)) return false;
      left -= !t->there[r];
      t->there[r] = true;
    }
  }
  return true;
}

bool blu_tcp_gather(BluError *err, BluCollective *c, const void *mine, int64_t bytes, void *all) {
  BluTcp *t = (BluTcp *)c;
  if (c->rank) return blu_tcp_message(err, t, 0, mine, bytes) && blu_tcp_await(err, t, 0, all, bytes * c->ranks);
  memcpy(all, mine, (size_t)bytes);
  if (!collect(err, t, bytes, all)) return false;
  for (int64_t r = 1; r < c->ranks; r++)
    if (!blu_tcp_message(err, t, r, all, bytes * c->ranks)) return false;
  return true;
}
