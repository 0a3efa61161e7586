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
  if (!fstat(fd, &info) && (info.st_size <= keep || !ftruncate(fd, keep)) && (log->metrics = fdopen(fd, "a"))) return true;
  blu_error_set(err, "cannot write %s: %s", path, strerror(errno));
  close(fd);
  return false;
}

bool blu_log_open(BluError *err, BluLog *log, const char *out, int64_t keep, bool quiet, bool events) {
  *log = (BluLog){.terminal = isatty(STDOUT_FILENO), .quiet = quiet, .start = blu_log_now()};
  log->metrics_path = blu_text_path(out, "metrics.jsonl");
  if (open_metrics(err, log, keep) && (!events || (log->events = blu_events_open(err, out)))) return true;
  blu_log_close(log);
  return false;
}

void blu_log_close(BluLog *log) {
  if (log->metrics) fclose(log->metrics);
  blu_events_close(log->events);
  free(log->metrics_path);
  *log = (BluLog){0};
}

bool blu_log_sync(BluError *err, const BluLog *log, int64_t *bytes) {
  struct stat info;
  if (fsync(fileno(log->metrics)) || fstat(fileno(log->metrics), &info))
    return blu_error_set(err, "cannot sync %s: %s", log->metrics_path, strerror(errno));
  *bytes = info.st_size;
  return true;
}

/* "  loss 0.1234  accuracy 0.9712" */
static void describe(char text[static 400], const BluMeter *meter, int64_t meters) {
  text[0] = 0;
  for (int64_t i = 0; i < meters; i++) {
    size_t used = strlen(text);
    snprintf(text + used, 400 - used, meter[i].last ? "  %s %.4g" : "  %s %.4f", meter[i].name, blu_meter_mean(&meter[i]));
  }
}

static int64_t epoch_of(const BluLog *log, int64_t step) { return step > 0 ? (step - 1) / log->per_epoch + 1 : 0; }

/* Of training, without evaluations. */
static double steps_per_second(const BluLog *log, int64_t step) {
  double seconds = blu_log_now() - log->start - log->evaluating;
  return seconds > 0 ? (double)(step - log->first_step) / seconds : 0;
}

/* "  12345 samples/s" or "  12345 tokens/s", "  43.1% of peak" if that is known, "  3 ranks" */
static void describe_speed(char text[static 100], const BluLog *log, int64_t step) {
  double steps = steps_per_second(log, step);
  int used = snprintf(text, 100, "  %.0f %s/s", steps * (double)log->batch * (double)(log->tokens ? log->tokens : 1),
                      log->tokens ? "tokens" : "samples");
  if (log->peak > 0) used += snprintf(text + used, (size_t)(100 - used), "  %.1f%% of peak", 100 * steps * log->flops / log->peak);
  if (log->ranks > 1) snprintf(text + used, (size_t)(100 - used), "  %" PRId64 " ranks", log->ranks);
}

void blu_log_progress(BluLog *log, int64_t step, const BluMeter *meter, int64_t meters) {
  double now = blu_log_now();
  if (log->quiet || !log->terminal || !log->metrics || (now - log->drawn < 0.1 && step < log->total)) return;
  log->drawn = now;
  enum { WIDTH = 20 };
  static const char full[] = "====================", empty[] = "....................";
  int done = (int)((double)step / (double)log->total * WIDTH);
  int64_t left = (int64_t)((now - log->start) / (double)(step - log->first_step) * (double)(log->total - step) + 0.5);
  char values[400], speed[100], line[800];
  describe(values, meter, meters);
  describe_speed(speed, log, step);
  /* What matters most comes first: a narrow terminal cuts the end. */
  snprintf(line, sizeof line, "epoch %" PRId64 "  [%.*s%.*s] %" PRId64 "/%" PRId64 "  %" PRId64 ":%02d left%s%s",
           epoch_of(log, step), done, full, WIDTH - done, empty, step, log->total, left / 60, (int)(left % 60), values,
           speed);
  struct winsize window;
  int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) || !window.ws_col ? 80 : window.ws_col;
  printf("\r%.*s\033[K", columns - 1, line);
  fflush(stdout);
}

static bool flush_metrics(BluError *err, BluLog *log) {
  return (!fflush(log->metrics) || blu_error_set(err, "cannot write %s: %s", log->metrics_path, strerror(errno))) &&
         (!log->events || blu_events_flush(err, log->events));
}

static bool write_metrics(BluError *err, BluLog *log, int64_t step, const char *split, const BluMeter *meter,
                          int64_t meters) {
  FILE *file = log->metrics;
  if (!file) return true;
  fprintf(file, "{\"step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"split\":\"%s\"", step, epoch_of(log, step), split);
  for (int64_t i = 0; i < meters; i++) {
    double mean = blu_meter_mean(&meter[i]);
    if (isfinite(mean)) fprintf(file, ",\"%s\":%.9g", meter[i].name, mean);
    else fprintf(file, ",\"%s\":null", meter[i].name);
  }
  fprintf(file, ",\"time\":%.3f}\n", blu_log_now() - log->start);
  for (int64_t i = 0; log->events && i < meters; i++) {
    char tag[100];
    snprintf(tag, sizeof tag, "%s/%.80s", split, meter[i].name);
    blu_events_add(log->events, tag, step, blu_meter_mean(&meter[i]));
  }
  return flush_metrics(err, log);
}

bool blu_log_train(BluError *err, BluLog *log, int64_t step, const BluMeter *meter, int64_t meters) {
  char values[400], speed[100];
  describe(values, meter, meters);
  describe_speed(speed, log, step);
  if (!log->quiet && !log->terminal && log->metrics) {
    printf("epoch %" PRId64 "  step %" PRId64 "/%" PRId64 "%s%s\n", epoch_of(log, step), step, log->total, values, speed);
    fflush(stdout);
  }
  return write_metrics(err, log, step, "train", meter, meters);
}

bool blu_log_event(BluError *err, BluLog *log, int64_t step, const char *event, const char *text) {
  if (!log->metrics) return true;
  blu_log_say(log, "step %" PRId64 ": %s", step, text);
  fprintf(log->metrics, "{\"step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"split\":\"event\",\"event\":\"%s\",\"text\":\"", step,
          epoch_of(log, step), event);
  for (const char *c = text; *c; c++) fprintf(log->metrics, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
  fprintf(log->metrics, "\",\"time\":%.3f}\n", blu_log_now() - log->start);
  return flush_metrics(err, log);
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
  if (log->quiet || !log->metrics) return;
  if (log->terminal) printf("\r\033[K");
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
  fflush(stdout);
}
