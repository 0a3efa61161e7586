/* ranks_local.c - all ranks on this machine, without a launcher: this process becomes rank 0 and forks the others. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks_internal.h"

#define GRACE_SECONDS 3.0 /* after an error, for the others to end by themselves: those that can will have been told */
#define END_SECONDS 60.0  /* after a good end: they have nothing left to do, but the machine may be busy */

/* A listener on a port that the kernel picks: open before the others exist, so that nobody can come too early. */
static bool open_listener(BluError *err, BluRanks *ranks) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool good = fd >= 0 && !bind(fd, (struct sockaddr *)&address, size) && !listen(fd, BLU_RANKS_MOST) &&
              !getsockname(fd, (struct sockaddr *)&address, &size);
  if (!good) {
    blu_error_set(err, "cannot listen on 127.0.0.1: %s", strerror(errno));
    if (fd >= 0) close(fd);
    return false;
  }
  ranks->listener = fd;
  ranks->port = ntohs(address.sin_port);
  strcpy(ranks->host, "127.0.0.1");
  return true;
}

bool blu_ranks_start(BluError *err, BluRanks *ranks) {
  if (!open_listener(err, ranks)) return false;
  ranks->child = blu_new(ranks->ranks, sizeof *ranks->child);
  for (int64_t r = 1; r < ranks->ranks; r++) {
    pid_t child = fork();
    if (child < 0) {
      blu_error_set(err, "cannot start rank %lld of %lld: %s", (long long)r, (long long)ranks->ranks, strerror(errno));
      for (int64_t k = 1; k < r; k++) kill(ranks->child[k], SIGKILL);
      return false;
    }
    if (child) {
      ranks->child[r] = child;
      continue;
    }
    free(ranks->child);
    close(ranks->listener);
    ranks->rank = r;
    ranks->child = NULL;
    ranks->listener = -1;
    return true;
  }
  return true;
}

bool blu_ranks_ended(const BluRanks *ranks, int64_t rank) {
  siginfo_t info = {0};
  if (!ranks->child || !ranks->child[rank]) return false;
  return !waitid(P_PID, (id_t)ranks->child[rank], &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

void blu_ranks_explain(BluError *err, BluRanks *ranks, int64_t rank) {
  int status;
  if (!ranks->child || !ranks->child[rank]) return;
  struct timespec moment = {.tv_nsec = 50000000}; /* its connection is closed a little before it can be waited for */
  for (int i = 0; i < 10; i++) {
    pid_t ended = waitpid(ranks->child[rank], &status, WNOHANG);
    if (ended == ranks->child[rank]) break;
    if (ended < 0 || i == 9) return;
    nanosleep(&moment, NULL);
  }
  ranks->child[rank] = 0;
  if (WIFSIGNALED(status)) blu_error_add(err, ": killed by signal %d", WTERMSIG(status));
  else blu_error_add(err, ": exit code %d", WEXITSTATUS(status));
}

int blu_ranks_wait(BluRanks *ranks, int code) {
  double start = blu_log_now();
  for (int64_t r = 1; ranks->child && r < ranks->ranks; r++) {
    int status = 0;
    while (ranks->child[r] && waitpid(ranks->child[r], &status, WNOHANG) == 0) {
      struct timespec moment = {.tv_nsec = 5000000};
      nanosleep(&moment, NULL);
      if (blu_log_now() - start > (code == BLU_EXIT_FAILED ? GRACE_SECONDS : END_SECONDS)) kill(ranks->child[r], SIGKILL);
    }
    if (!code && (!WIFEXITED(status) || WEXITSTATUS(status))) code = BLU_EXIT_FAILED;
  }
  free(ranks->child);
  ranks->child = NULL;
  return code;
}
