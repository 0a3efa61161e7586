/* tcp_meet.c - how ranks find each other, and how they part.
 *
 * Rank 0 listens at a known address. Each other rank connects and says who it is and where it listens itself; when all have come, rank 0
 * tells each where the rank below it listens, and the chain is made. Addresses are those of IPv4. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tcp_internal.h"

#define MAGIC 0x736b6e6172756c62u /* "bluranks" */
#define HELLO_SECONDS 5.0         /* that a caller has to say who it is */
#define PART_SECONDS 2.0          /* that last words may take */
#define RETRY_SECONDS 0.05
enum { VERSION = 1 };

/* The first words on a connection; on the chain only the first line counts. */
typedef struct {
  uint64_t magic;
  int64_t rank;
  int64_t version, ranks, port;
  uint64_t hash, host, cpus; /* of the program; the machine; the processors that it may use */
} Hello;

typedef struct {
  struct in_addr below; /* 0.0.0.0: where rank 0 is */
  int32_t port;
  int64_t near, beside; /* see BluCollective */
} Welcome;

static uint64_t hash_of_host(void) {
  struct utsname name;
  char boot[64] = "";
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re"); /* names of machines need not differ */
  if (file && !fgets(boot, sizeof boot, file)) boot[0] = 0;
  if (file) fclose(file);
  uname(&name);
  return blu_file_hash(name.nodename, (int64_t)strlen(name.nodename)) ^ blu_file_hash(boot, (int64_t)strlen(boot));
}

static uint64_t hash_of_cpus(void) {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof mask, &mask) ? 0 : blu_file_hash(&mask, sizeof mask);
}

static Hello hello_of(const BluTcp *t, uint64_t hash, int64_t port) {
  return (Hello){.magic = MAGIC, .rank = t->base.rank, .version = VERSION, .ranks = t->base.ranks, .port = port, .hash = hash,
                 .host = t->host, .cpus = hash_of_cpus()};
}

/* --- connections --- */

/* `port` 0: one that the kernel picks; it is given back. */
static bool listen_at(BluError *err, struct in_addr host, int64_t *port, int *fd) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = host, .sin_port = htons((uint16_t)*port)};
  socklen_t size = sizeof address;
  int on = 1;
  *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*fd >= 0 && *port) setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a run that has just ended holds the port for a minute */
  if (*fd < 0 || bind(*fd, (struct sockaddr *)&address, size) || listen(*fd, BLU_RANKS_MOST) || getsockname(*fd, (struct sockaddr *)&address, &size))
    return blu_error_set(err, "cannot listen on port %" PRId64 ": %s; MASTER_PORT or --master names another", *port, strerror(errno));
  *port = ntohs(address.sin_port);
  return true;
}

static bool resolve(BluError *err, const char *host, struct in_addr *address) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  int number = getaddrinfo(host, NULL, &hints, &found);
  if (number) return blu_error_set(err, "cannot find the machine '%s' of rank 0: %s", host, gai_strerror(number));
  struct sockaddr_in first;
  memcpy(&first, found->ai_addr, sizeof first);
  *address = first.sin_addr;
  freeaddrinfo(found);
  return true;
}

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = (long)(RETRY_SECONDS * 1e9)}, NULL); }

/* One attempt; errno says why it failed. */
static int try_to_connect(struct sockaddr_in address, double deadline) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), number = 0;
  socklen_t size = sizeof number;
  if (fd < 0 || !connect(fd, (struct sockaddr *)&address, sizeof address)) return fd;
  struct pollfd wait = {.fd = fd, .events = POLLOUT};
  if (errno != EINPROGRESS) number = errno;
  else if (poll(&wait, 1, blu_tcp_milliseconds(deadline)) <= 0) number = ETIMEDOUT;
  else getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
  /* On one machine a connection can meet itself: a port that the kernel picks may be the very one that is called. */
  struct sockaddr_in own = {0};
  size = sizeof own;
  if (!number && !getsockname(fd, (struct sockaddr *)&own, &size) && own.sin_port == address.sin_port && own.sin_addr.s_addr == address.sin_addr.s_addr)
    number = ECONNREFUSED;
  if (!number) return fd;
  close(fd);
  errno = number;
  return -1;
}

/* Again and again: who is called may not be there yet. */
static int connect_to(struct in_addr host, int64_t port, double deadline) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = host, .sin_port = htons((uint16_t)port)};
  for (;;) {
    int fd = try_to_connect(address, deadline);
    if (fd >= 0) blu_tcp_prepare(fd);
    if (fd >= 0 || !blu_tcp_milliseconds(deadline)) return fd;
    if (blu_train_signal) return errno = EINTR, -1;
    rest();
  }
}

static struct in_addr address_of(int fd) {
  struct sockaddr_in address = {0};
  socklen_t size = sizeof address;
  getpeername(fd, (struct sockaddr *)&address, &size);
  return address.sin_addr;
}

static bool is_loopback(struct in_addr address) { return ntohl(address.s_addr) >> 24 == 127; }

/* --- rank 0 --- */

static bool missing(BluError *err, BluTcp *t) {
  for (int64_t r = 0; r < t->base.ranks; r++) t->there[r] = !r || t->link[r] >= 0;
  blu_tcp_list(err, t);
  blu_error_add(err, " of %" PRId64 " didn't come to %s:%" PRId64 " within %g seconds (--rank-timeout)", t->base.ranks, t->who->host, t->who->port,
                t->seconds);
  return false;
}

/* A caller who is no rank, such as a scanner of ports, is sent away; a rank that doesn't belong here is an error. */
static bool admit(BluError *err, BluTcp *t, int fd, const Hello *ours, Hello *hello) {
  blu_tcp_prepare(fd);
  Hello h;
  if (blu_tcp_receive(fd, &h, sizeof h, blu_log_now() + HELLO_SECONDS) != BLU_TCP_GOOD || h.magic != MAGIC) {
    close(fd);
    return true;
  }
  bool good = h.version == VERSION || blu_error_set(err, "rank %" PRId64 " was made by another version of Blu", h.rank);
  if (good && h.ranks != ours->ranks)
    good = blu_error_set(err, "rank %" PRId64 " was told that there are %" PRId64 " ranks, and rank 0 that there are %" PRId64, h.rank, h.ranks, ours->ranks);
  if (good && (h.rank < 1 || h.rank >= ours->ranks || t->link[h.rank] >= 0))
    good = blu_error_set(err, "two processes say that they are rank %" PRId64, h.rank);
  if (good && h.hash != ours->hash)
    good = blu_error_set(err, "rank %" PRId64 " runs another program than rank 0 (hash %016" PRIx64 ", here is %016" PRIx64 ")", h.rank, h.hash, ours->hash);
  if (good) {
    t->link[h.rank] = fd;
    hello[h.rank] = h;
    return true;
  }
  int64_t spare = h.rank >= 1 && h.rank < ours->ranks && t->link[h.rank] < 0 ? h.rank : -1;
  if (spare > 0) t->link[spare] = fd; /* so that it hears the error */
  else close(fd);
  return false;
}

static bool someone_ended(BluError *err, BluTcp *t) {
  for (int64_t r = 1; r < t->base.ranks; r++) {
    struct pollfd gone = {.fd = t->link[r], .events = POLLRDHUP};
    bool hung_up = t->link[r] >= 0 && poll(&gone, 1, 0) > 0, ahead = false;
    if (hung_up && !blu_tcp_look(err, t, r, &ahead)) return true;
    if (t->link[r] >= 0 || !blu_ranks_ended(t->who, r)) continue;
    blu_error_set(err, "rank %" PRId64 " ended before it came", r);
    blu_ranks_explain(err, t->who, r);
    return true;
  }
  return false;
}

/* Waits until all have come. */
static bool receive_all(BluError *err, BluTcp *t, int listener, const Hello *ours, Hello *hello) {
  double deadline = blu_tcp_deadline(t);
  for (int64_t come = 1; come < t->base.ranks;) {
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    poll(&wait, 1, blu_tcp_milliseconds(blu_log_now() + RETRY_SECONDS));
    int fd = wait.revents ? accept(listener, NULL, NULL) : -1;
    if (fd >= 0 && !admit(err, t, fd, ours, hello)) return false;
    if (someone_ended(err, t)) return false;
    if (blu_train_signal) return blu_error_set(err, "stopped by signal %d before all ranks had come", (int)blu_train_signal);
    come = 1;
    for (int64_t r = 1; r < t->base.ranks; r++) come += t->link[r] >= 0;
    if (come < t->base.ranks && !blu_tcp_milliseconds(deadline)) return missing(err, t);
  }
  return true;
}

/* How many of the ranks are on the machine of rank r, and how many of these use the same processors. */
static void count_near(const Hello *hello, int64_t ranks, int64_t r, int64_t *near, int64_t *beside) {
  *near = *beside = 0;
  for (int64_t k = 0; k < ranks; k++) {
    *beside += hello[k].host == hello[r].host;
    *near += hello[k].host == hello[r].host && hello[k].cpus == hello[r].cpus;
  }
}

static bool meet_as_first(BluError *err, BluTcp *t, int listener, Hello *hello) {
  int64_t ranks = t->base.ranks;
  if (!receive_all(err, t, listener, &hello[0], hello)) return false;
  count_near(hello, ranks, 0, &t->base.near, &t->base.beside);
  for (int64_t r = 1; r < ranks; r++) {
    Welcome welcome = {.port = (int32_t)hello[r - 1].port};
    if (r > 1 && !is_loopback(address_of(t->link[r - 1]))) welcome.below = address_of(t->link[r - 1]);
    count_near(hello, ranks, r, &welcome.near, &welcome.beside);
    if (!blu_tcp_message(err, t, r, &welcome, sizeof welcome)) return false;
  }
  return true;
}

/* --- the others --- */

static bool meet_as_other(BluError *err, BluTcp *t, struct in_addr first, const Hello *hello) {
  double deadline = blu_log_now() + t->seconds;
  t->link[0] = connect_to(first, t->who->port, deadline);
  if (t->link[0] < 0)
    return blu_error_set(err, "cannot reach rank 0 at %s:%" PRId64 " within %g seconds (--rank-timeout): %s", t->who->host, t->who->port, t->seconds,
                         strerror(errno));
  Welcome welcome;
  if (blu_tcp_send(t->link[0], hello, sizeof *hello, deadline) != BLU_TCP_GOOD) return blu_tcp_lost(err, t, 0);
  if (!blu_tcp_await(err, t, 0, &welcome, sizeof welcome)) return false;
  t->base.near = welcome.near;
  t->base.beside = welcome.beside;
  struct in_addr below = welcome.below.s_addr ? welcome.below : address_of(t->link[0]);
  t->below = connect_to(below, welcome.port, blu_log_now() + t->seconds);
  if (t->below < 0 || blu_tcp_send(t->below, hello, 2 * sizeof(uint64_t), blu_tcp_deadline(t)) != BLU_TCP_GOOD)
    return blu_error_set(err, "cannot reach rank %" PRId64 " at port %d of its machine: %s", t->base.rank - 1, welcome.port, strerror(errno));
  return true;
}

/* The rank above calls; what happens to the others meanwhile is seen on their links. */
static bool wait_for_above(BluError *err, BluTcp *t, int listener) {
  double deadline = blu_tcp_deadline(t);
  int64_t links = t->base.rank ? 1 : t->base.ranks;
  for (int64_t r = 0; r < t->base.ranks; r++) t->there[r] = false;
  while (t->above < 0) {
    t->wait[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int64_t r = 0; r < links; r++) t->wait[1 + r] = (struct pollfd){.fd = t->link[r], .events = t->there[r] ? POLLRDHUP : POLLIN | POLLRDHUP};
    if (poll(t->wait, (nfds_t)(1 + links), blu_tcp_milliseconds(deadline)) <= 0 && !blu_tcp_milliseconds(deadline))
      return blu_error_set(err, "rank %" PRId64 " didn't connect to rank %" PRId64 " within %g seconds", t->base.rank + 1, t->base.rank, t->seconds);
    for (int64_t r = 0; r < links; r++) {
      bool ahead = false;
      if (t->wait[1 + r].revents && !blu_tcp_look(err, t, r, &ahead)) return false;
      t->there[r] |= ahead;
    }
    int fd = t->wait[0].revents ? accept(listener, NULL, NULL) : -1;
    uint64_t caller[2];
    if (fd < 0) continue;
    blu_tcp_prepare(fd);
    bool known = blu_tcp_receive(fd, caller, sizeof caller, blu_log_now() + HELLO_SECONDS) == BLU_TCP_GOOD && caller[0] == MAGIC &&
                 caller[1] == (uint64_t)t->base.rank + 1;
    if (known) t->above = fd;
    else close(fd);
  }
  return true;
}

/* --- together, and apart --- */

static bool meet(BluError *err, BluTcp *t, uint64_t hash) {
  struct in_addr first = {0}, any = {.s_addr = htonl(INADDR_ANY)};
  int64_t port = 0;
  int chain = -1;
  bool last = t->base.rank == t->base.ranks - 1, good = resolve(err, t->who->host, &first);
  struct in_addr from = good && is_loopback(first) ? first : any; /* nobody else needs to reach ranks that are all here */
  if (good && !last) good = listen_at(err, from, &port, &chain);
  if (good && !t->base.rank) {
    if (t->who->listener < 0) good = listen_at(err, from, &t->who->port, &t->who->listener);
    Hello *hello = blu_new(t->base.ranks, sizeof *hello);
    hello[0] = hello_of(t, hash, port);
    good = good && meet_as_first(err, t, t->who->listener, hello);
    free(hello);
  } else if (good) {
    Hello hello = hello_of(t, hash, port);
    good = meet_as_other(err, t, first, &hello);
  }
  good = good && (last || wait_for_above(err, t, chain));
  if (chain >= 0) close(chain);
  if (t->who->listener >= 0) close(t->who->listener);
  t->who->listener = -1;
  return good;
}

BluCollective *blu_tcp_open(BluError *err, BluRanks *ranks, uint64_t hash, int64_t seconds) {
  BluTcp *t = blu_new(1, sizeof *t);
  *t = (BluTcp){.base = {.rank = ranks->rank, .ranks = ranks->ranks, .gather = blu_tcp_gather, .sum = blu_tcp_sum, .share = blu_tcp_share,
                         .close = blu_tcp_close},
                .who = ranks, .host = hash_of_host(), .seconds = (double)seconds, .below = -1, .above = -1};
  t->link = blu_new(ranks->ranks, sizeof *t->link);
  t->there = blu_new(ranks->ranks, sizeof *t->there);
  t->wait = blu_new(ranks->ranks + 2, sizeof *t->wait);
  t->block = blu_new(BLU_TCP_BLOCK, 1);
  for (int64_t r = 0; r < ranks->ranks; r++) t->link[r] = -1;
  if (meet(err, t, hash)) return &t->base;
  blu_tcp_close(&t->base, err);
  return NULL;
}

/* Last words of a rank that isn't the first: rank 0 decides who prints them. Without an answer this rank does. */
static void report(BluTcp *t, BluError *why) {
  BluTcpNews news = {.host = t->host, .rank = t->base.rank};
  struct { BluTcpHead head; BluTcpNews news; } message = {{BLU_TCP_FAIL, sizeof news}, news};
  snprintf(message.news.text, sizeof message.news.text, "%s", why->text);
  double deadline = blu_log_now() + PART_SECONDS;
  if (blu_tcp_send(t->link[0], &message, sizeof message, deadline) != BLU_TCP_GOOD) return;
  shutdown(t->link[0], SHUT_WR);
  for (BluTcpHead head; blu_tcp_receive(t->link[0], &head, sizeof head, deadline) == BLU_TCP_GOOD;) {
    for (uint32_t left = head.bytes, part; head.kind != BLU_TCP_ABORT && left; left -= part) {
      part = left < sizeof news ? left : sizeof news;
      if (blu_tcp_receive(t->link[0], &news, part, deadline) != BLU_TCP_GOOD) return;
    }
    if (head.kind != BLU_TCP_ABORT || head.bytes != sizeof news) continue;
    if (blu_tcp_receive(t->link[0], &news, sizeof news, deadline) == BLU_TCP_GOOD && news.rank != t->base.rank && news.host == t->host) why->text[0] = 0;
    return;
  }
}

void blu_tcp_close(BluCollective *c, BluError *why) {
  BluTcp *t = (BluTcp *)c;
  BluError late;
  char all[BLU_RANKS_MOST];
  if (!why) blu_tcp_gather(&late, c, "", 1, all); /* this rank has done its work: what happens to others now is theirs to say */
  if (why && why->text[0] && c->rank) {
    char text[sizeof why->text];
    snprintf(text, sizeof text, "%s", why->text);
    blu_error_set(why, "rank %" PRId64 ": ", c->rank);
    blu_error_add(why, "%s", text);
    if (!t->told && t->link[0] >= 0) report(t, why);
  }
  if (why && !c->rank) blu_tcp_tell(t, 0, t->host, why->text);
  double deadline = blu_log_now() + PART_SECONDS;
  for (int64_t r = 0; why && r < c->ranks; r++)
    if (t->link[r] >= 0) shutdown(t->link[r], SHUT_WR);
  for (int64_t r = 0; r < c->ranks; r++) {
    char byte;
    if (t->link[r] < 0) continue;
    /* Closing a connection with data that nobody has read would destroy what was said last. */
    while (why && blu_tcp_receive(t->link[r], &byte, 1, deadline) == BLU_TCP_GOOD) continue;
    close(t->link[r]);
  }
  if (t->below >= 0) close(t->below);
  if (t->above >= 0) close(t->above);
  free(t->link);
  free(t->there);
  free(t->wait);
  free(t->block);
  free(t);
}
