/* log.c - what a run says: a progress line on a terminal, plain lines in a pipe, and JSON lines in OUT/metrics.jsonl.
 *
 * The same run writes the same metrics.jsonl but for the field `time`; which lines there are depends on steps, never on
 * the clock. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime_internal.h"

double blu_log_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool open_metrics(BluError *err, BluLog *log, int64_t keep) {
  const char *path = log->metrics_path;
  int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  struct stat info;
  if (fd < 0) return blu_error_set(err, "cannot write %s: %s", path, strerror(errno));
  bool good = true;
  if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
    good = blu_error_set(err, "%s: another trainer is writing to this folder", path);
  else if (fstat(fd, &info) || (info.st_size > keep && ftruncate(fd, keep)) || !(log->metrics = fdopen(fd, "a")))
    good = blu_error_set(err, "cannot write %s: %s", path, strerror(errno));
  if (!good) close(fd);
  return good;
}

bool blu_log_open(BluError *err, BluLog *log, const char *out, int64_t keep, bool quiet) {
  *log = (BluLog){.terminal = isatty(STDOUT_FILENO), .quiet = quiet, .start = blu_log_now()};
  log->metrics_path = blu_text_path(out, "metrics.jsonl");
  if (open_metrics(err, log, keep)) return true;
  blu_log_close(log);
  return false;
}

void blu_log_close(BluLog *log) {
  if (log->metrics) fclose(log->metrics);
  free(log->metrics_path);
  *log = (BluLog){0};
}

int64_t blu_log_sync(const BluLog *log) {
  struct stat info;
  fsync(fileno(log->metrics));
  return fstat(fileno(log->metrics), &info) ? 0 : info.st_size;
}

/* "  loss 0.1234  accuracy 0.9712" */
static void describe(char text[static 400], const BluMeter *meter, int64_t meters) {
  text[0] = 0;
  for (int64_t i = 0; i < meters; i++) {
    size_t used = strlen(text);
    snprintf(text + used, 400 - used, "  %s %.4f", meter[i].name, blu_meter_mean(&meter[i]));
  }
}

static int64_t epoch_of(const BluLog *log, int64_t step) { return step > 0 ? (step - 1) / log->per_epoch + 1 : 0; }

static double samples_per_second(const BluLog *log, int64_t step) {
  double seconds = blu_log_now() - log->start;
  return seconds > 0 ? (double)((step - log->first_step) * log->batch) / seconds : 0;
}

void blu_log_progress(BluLog *log, int64_t step, const BluMeter *meter, int64_t meters) {
  double now = blu_log_now();
  if (log->quiet || !log->terminal || (now - log->drawn < 0.1 && step < log->total)) return;
  log->drawn = now;
  enum { WIDTH = 20 };
  static const char full[] = "====================", empty[] = "....................";
  int done = (int)((double)step / (double)log->total * WIDTH);
  int64_t left = (int64_t)((now - log->start) / (double)(step - log->first_step) * (double)(log->total - step) + 0.5);
  char values[400], line[800];
  describe(values, meter, meters);
  snprintf(line, sizeof line,
           "epoch %" PRId64 "  [%.*s%.*s] %" PRId64 "/%" PRId64 "%s  %.0f samples/s  %" PRId64 ":%02d left",
           epoch_of(log, step), done, full, WIDTH - done, empty, step, log->total, values,
           samples_per_second(log, step), left / 60, (int)(left % 60));
  struct winsize window;
  int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) || !window.ws_col ? 80 : window.ws_col;
  printf("\r%.*s\033[K", columns - 1, line);
  fflush(stdout);
}

static bool write_metrics(BluError *err, BluLog *log, int64_t step, const char *split, const BluMeter *meter,
                          int64_t meters) {
  FILE *file = log->metrics;
  fprintf(file, "{\"step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"split\":\"%s\"", step, epoch_of(log, step), split);
  for (int64_t i = 0; i < meters; i++) {
    double mean = blu_meter_mean(&meter[i]);
    if (isfinite(mean)) fprintf(file, ",\"%s\":%.9g", meter[i].name, mean);
    else fprintf(file, ",\"%s\":null", meter[i].name);
  }
  fprintf(file, ",\"time\":%.3f}\n", blu_log_now() - log->start);
  return !fflush(file) || blu_error_set(err, "cannot write %s: %s", log->metrics_path, strerror(errno));
}

bool blu_log_train(BluError *err, BluLog *log, int64_t step, const BluMeter *meter, int64_t meters) {
  char values[400];
  describe(values, meter, meters);
  if (!log->quiet && !log->terminal) {
    printf("epoch %" PRId64 "  step %" PRId64 "/%" PRId64 "%s  %.0f samples/s\n", epoch_of(log, step), step, log->total,
           values, samples_per_second(log, step));
    fflush(stdout);
  }
  return write_metrics(err, log, step, "train", meter, meters);
}

bool blu_log_test(BluError *err, BluLog *log, int64_t step, const BluMeter *train, int64_t trains, const BluMeter *test,
                  int64_t tests) {
  char train_values[400], test_values[400];
  describe(train_values, train, trains);
  describe(test_values, test, tests);
  blu_log_say(log, "epoch %" PRId64 "  train%s  |  test%s  |  %.1f s", epoch_of(log, step), train_values, test_values,
              blu_log_now() - log->start);
  return write_metrics(err, log, step, "test", test, tests);
}

void blu_log_say(BluLog *log, const char *format, ...) {
  if (log->quiet) return;
  if (log->terminal) printf("\r\033[K");
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
  fflush(stdout);
}
