/* tcp_internal.h - ranks that talk over TCP: a star of links to rank 0 for small things and for bad news, and a chain from each rank to the
 * next for tensors. Nothing here waits longer than it was told to. */
#ifndef BLU_TCP_INTERNAL_H
#define BLU_TCP_INTERNAL_H
#include <netinet/in.h>
#include <poll.h>

#include "ranks_internal.h"

/* What a link carries: a head, then so many bytes. */
typedef enum { BLU_TCP_DATA = 0x10, BLU_TCP_FAIL, BLU_TCP_ABORT, BLU_TCP_PING, BLU_TCP_PONG } BluTcpKind;

typedef struct {
  uint32_t kind, bytes;
} BluTcpHead;

typedef enum { BLU_TCP_GOOD, BLU_TCP_LATE, BLU_TCP_CLOSED } BluTcpEnd; /* of a transfer; errno says why it was closed */

/* Of FAIL and ABORT: who prints the text, and on which machine. */
typedef struct {
  uint64_t host;
  int64_t rank;
  char text[sizeof ((BluError *)0)->text];
} BluTcpNews;

typedef struct {
  BluCollective base;
  BluRanks *who;       /* borrowed */
  uint64_t host;       /* of this rank: its machine */
  double seconds;      /* how long another rank may take */
  int *link;           /* rank 0: [ranks] to each; others: link[0] to rank 0; -1: none */
  int below, above;    /* to ranks rank - 1 and rank + 1; -1: none */
  bool *there;         /* [ranks] of rank 0 in an operation: who has done its part */
  struct pollfd *wait; /* [ranks + 2] */
  char *block;         /* BLU_TCP_BLOCK: what has come to be summed */
  bool told;           /* the others know that it is over */
} BluTcp;

/* --- tcp.c --- */

void blu_tcp_prepare(int fd); /* a connected socket: it doesn't block, and sends at once */
BluTcpEnd blu_tcp_send(int fd, const void *data, int64_t bytes, double deadline);
BluTcpEnd blu_tcp_receive(int fd, void *data, int64_t bytes, double deadline);
int blu_tcp_milliseconds(double deadline); /* left, for poll */

/* When this rank gives up on others: later for others than rank 0, which knows best who is late. */
double blu_tcp_deadline(const BluTcp *t);
bool blu_tcp_message(BluError *err, BluTcp *t, int64_t to, const void *data, int64_t bytes);
/* The next DATA of rank `from`; pings are answered on the way. Error: it has another size, the rank is late or lost, or bad news came. */
bool blu_tcp_await(BluError *err, BluTcp *t, int64_t from, void *data, int64_t bytes);
/* Something has come from `from`, or it has hung up: true if it can wait, for it is DATA of a later operation, or was a ping. */
bool blu_tcp_look(BluError *err, BluTcp *t, int64_t from, bool *ahead);
/* Rank 0 ends it for all. The text is printed by `rank`, on that machine. */
void blu_tcp_tell(BluTcp *t, int64_t rank, uint64_t host, const char *text);
/* Always false: `rank` was lost, for the reason in errno. Rank 0 tells the others. */
bool blu_tcp_lost(BluError *err, BluTcp *t, int64_t rank);
/* Sets `err` to "ranks 1, 4 and 5", those for which !there; gives their number. */
int64_t blu_tcp_list(BluError *err, const BluTcp *t);
/* Always false: of the ranks for which !there, those are late that don't answer. */
bool blu_tcp_late(BluError *err, BluTcp *t);

/* --- tcp_chain.c --- */

bool blu_tcp_sum(BluError *err, BluCollective *c, const BluPart *part, int64_t parts);
bool blu_tcp_share(BluError *err, BluCollective *c, const BluPart *part, int64_t parts);

/* --- tcp_meet.c --- */

void blu_tcp_close(BluCollective *c, BluError *why);
bool blu_tcp_gather(BluError *err, BluCollective *c, const void *mine, int64_t bytes, void *all); /* tcp.c */

#endif
