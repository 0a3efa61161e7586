/* ranks.c - which rank this process is, by its options or by the variables of what launched it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ranks_internal.h"

enum { DEFAULT_PORT = 29500 }; /* torch's */

/* Variables of a launcher, in the order in which they are looked for. `near`: how many ranks are on this machine. */
typedef struct {
  const char *name, *sign, *rank, *ranks, *near, *host, *port;
} Launcher;

static const Launcher launchers[] = {
    {"torchrun", NULL, "RANK", "WORLD_SIZE", NULL, "MASTER_ADDR", "MASTER_PORT"},
    {"Open MPI", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL},
    {"PMI", NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, NULL},
    /* A batch script has SLURM_PROCID too; only what srun starts has a step, whose number is small but for interactive ones. */
    {"SLURM", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", NULL, NULL, NULL},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

static const char *variable(const char *name) {
  const char *value = name ? getenv(name) : NULL;
  return value && value[0] ? value : NULL;
}

static bool has_step(const Launcher *l) {
  int64_t step;
  return !l->sign || (variable(l->sign) && blu_text_int(variable(l->sign), &step) && step < 0xfffffff0);
}

static bool read_number(BluError *err, const char *name, int64_t least, int64_t most, int64_t *number) {
  const char *value = variable(name);
  return (blu_text_int(value, number) && *number >= least && *number <= most) ||
         blu_error_set(err, "the variable %s is '%s', which is no whole number from %" PRId64 " to %" PRId64, name, value, least, most);
}

static bool read_address(BluError *err, const char *text, BluRanks *ranks) {
  const char *colon = strrchr(text, ':');
  int64_t length = colon ? colon - text : 0;
  if (length < 1 || length >= (int64_t)sizeof ranks->host || !blu_text_int(colon + 1, &ranks->port) || ranks->port < 1 || ranks->port > 65535)
    return blu_error_set(err, "option --master is HOST:PORT, such as node1:29500, not '%s'", text);
  memcpy(ranks->host, text, (size_t)length);
  ranks->host[length] = 0;
  return true;
}

/* --ranks alone, or --rank, --ranks and --master. */
static bool by_options(BluError *err, const BluOptions *o, BluRanks *ranks) {
  ranks->ranks = o->ranks;
  ranks->rank = o->rank < 0 ? 0 : o->rank;
  if (o->rank < 0 && !o->master) return (ranks->here = o->ranks > 1) || true;
  if (o->ranks < 0 || o->rank < 0 || !o->master)
    return blu_error_set(err, "a rank that is started by hand needs --rank, --ranks and --master, and %s is missing; --ranks alone starts "
                         "all of them here", o->ranks < 0 ? "--ranks" : o->rank < 0 ? "--rank" : "--master");
  return o->rank < o->ranks || blu_error_set(err, "--rank %" PRId64 " is not below --ranks %" PRId64 ": ranks count from 0", o->rank, o->ranks);
}

/* Where rank 0 is: the common variables; on one machine they may be missing. */
static bool find_address(BluError *err, const Launcher *l, const BluOptions *o, BluRanks *ranks) {
  const char *host = variable("MASTER_ADDR"), *port = variable("MASTER_PORT");
  int64_t near = 0;
  if (o->master) return read_address(err, o->master, ranks);
  if (variable(l->near) && !read_number(err, l->near, 1, BLU_RANKS_MOST, &near)) return false;
  if (!host && near != ranks->ranks)
    return blu_error_set(err, "%s gives rank %" PRId64 " of %" PRId64 ", but not where rank 0 is: set MASTER_ADDR%s, or give --master HOST:PORT",
                         l->name, ranks->rank, ranks->ranks, port ? "" : " and MASTER_PORT");
  if (host && strlen(host) >= sizeof ranks->host) return blu_error_set(err, "the variable MASTER_ADDR is too long");
  snprintf(ranks->host, sizeof ranks->host, "%s", host ? host : "127.0.0.1");
  ranks->port = DEFAULT_PORT;
  if (port && !read_number(err, "MASTER_PORT", 1, 65535, &ranks->port)) return false;
  /* torchrun itself listens there, and says so: the next port is ours */
  const char *taken = l->host ? variable("TORCHELASTIC_USE_AGENT_STORE") : NULL;
  if (taken && !strcmp(taken, "True")) ranks->port += ranks->port < 65535 ? 1 : -1;
  return true;
}

/* *found: this launcher has started the process. */
static bool by_launcher(BluError *err, const Launcher *l, const BluOptions *o, BluRanks *ranks, bool *found) {
  const char *const needed[] = {l->rank, l->ranks, l->host, l->port};
  const char *there = NULL;
  char missing[200] = "";
  *found = has_step(l) && (variable(l->rank) || variable(l->ranks));
  if (!*found) return true;
  for (int i = 0; i < 4; i++) {
    size_t used = strlen(missing);
    if (!needed[i] || (i >= 2 && o->master)) continue;
    if (!variable(needed[i])) snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", needed[i]);
    else if (!there) there = needed[i];
  }
  if (missing[0])
    return blu_error_set(err, "the variable %s of %s is set, but not %s: set all of them, or give --ranks 1 to train in one process", there,
                         l->name, missing);
  return read_number(err, l->ranks, 1, BLU_RANKS_MOST, &ranks->ranks) && read_number(err, l->rank, 0, ranks->ranks - 1, &ranks->rank) &&
         (ranks->ranks == 1 || find_address(err, l, o, ranks));
}

bool blu_ranks_find(BluError *err, const BluOptions *options, BluRanks *ranks) {
  *ranks = (BluRanks){.ranks = 1, .listener = -1};
  if (options->ranks >= 0 || options->rank >= 0)
    return by_options(err, options, ranks) && (!options->master || read_address(err, options->master, ranks));
  bool found = false;
  for (int i = 0; i < LAUNCHERS && !found; i++)
    if (!by_launcher(err, &launchers[i], options, ranks, &found)) return false;
  return found || !options->master ||
         blu_error_set(err, "option --master needs a launcher that says which rank this is, or --rank and --ranks");
}
