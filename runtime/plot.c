/* plot.c - a metric over the steps, from metrics.jsonl of one or more runs: as an SVG file or in the terminal. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime_internal.h"

typedef struct {
  double step, value;
} Point;

/* One line of the plot: the metric of one split of one run. */
typedef struct {
  char *name;
  Point *point;
  int64_t points;
} Curve;

typedef struct {
  Curve curve[2 * BLU_CLI_FILES];
  int curves;
  double low, high, first, last; /* values; steps */
} Plot;

/* --- reading: lines as log.c writes them; a line that isn't one is left out --- */

/* The number behind "KEY": in a line of flat JSON. */
static bool number_of(const char *line, const char *key, double *value) {
  char quoted[100];
  snprintf(quoted, sizeof quoted, "\"%.90s\":", key);
  const char *at = strstr(line, quoted);
  if (!at) return false;
  char *end;
  at += strlen(quoted);
  *value = strtod(at, &end);
  return end != at && isfinite(*value);
}

static void add_point(Curve *curve, Point point) {
  if (!(curve->points & (curve->points - 1))) { /* 0, 1, 2, 4, ...: full */
    int64_t room = curve->points ? 2 * curve->points : 1;
    curve->point = realloc(curve->point, (size_t)room * sizeof *curve->point);
    blu_need(curve->point);
  }
  curve->point[curve->points++] = point;
}

static bool read_run(BluError *err, Plot *plot, const char *dir, const char *metric) {
  static const char *const splits[] = {"train", "test"};
  char *path = blu_text_path(dir, "metrics.jsonl"), *line = NULL;
  size_t room = 0;
  Curve *curve = &plot->curve[plot->curves];
  FILE *file = fopen(path, "re");
  if (!file) blu_error_set(err, "cannot open %s: %s", path, strerror(errno));
  for (int i = 0; i < 2; i++) curve[i] = (Curve){.name = blu_text_print("%s %s", dir, splits[i])};
  plot->curves += 2;
  while (file && getline(&line, &room, file) > 0) {
    Point point;
    if (!number_of(line, "step", &point.step) || !number_of(line, metric, &point.value)) continue;
    for (int i = 0; i < 2; i++) {
      char split[40];
      snprintf(split, sizeof split, "\"split\":\"%s\"", splits[i]);
      if (strstr(line, split)) add_point(&curve[i], point);
    }
  }
  bool good = file != NULL;
  if (file) fclose(file);
  free(line);
  free(path);
  return good;
}

/* Range of what there is to see, never empty. */
static bool find_range(BluError *err, Plot *plot, const char *metric) {
  plot->low = plot->first = INFINITY;
  plot->high = plot->last = -INFINITY;
  for (int c = 0; c < plot->curves; c++)
    for (int64_t i = 0; i < plot->curve[c].points; i++) {
      const Point *p = &plot->curve[c].point[i];
      if (p->value < plot->low) plot->low = p->value;
      if (p->value > plot->high) plot->high = p->value;
      if (p->step < plot->first) plot->first = p->step;
      if (p->step > plot->last) plot->last = p->step;
    }
  if (plot->low > plot->high) return blu_error_set(err, "no line of metrics.jsonl has a value of '%s'", metric);
  if (plot->low == plot->high) plot->low -= 0.5, plot->high += 0.5;
  if (plot->first == plot->last) plot->last++;
  return true;
}

/* --- SVG --- */

enum { WIDTH = 800, HEIGHT = 480, LEFT = 80, RIGHT = 20, TOP = 40, BOTTOM = 50, TICKS = 5 };

static double x_of(const Plot *p, double step) {
  return LEFT + (step - p->first) / (p->last - p->first) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const Plot *p, double value) {
  return HEIGHT - BOTTOM - (value - p->low) / (p->high - p->low) * (HEIGHT - TOP - BOTTOM);
}

static void print_escaped(FILE *file, const char *text) {
  for (; *text; text++) {
    if (*text == '<') fputs("&lt;", file);
    else if (*text == '&') fputs("&amp;", file);
    else fputc(*text, file);
  }
}

static void print_svg(FILE *file, const Plot *plot, const char *metric) {
  static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};
  fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
          "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", WIDTH, HEIGHT);
  for (int i = 0; i <= TICKS; i++) {
    double value = plot->low + (plot->high - plot->low) * i / TICKS, step = plot->first + (plot->last - plot->first) * i / TICKS;
    double x = x_of(plot, step), y = y_of(plot, value);
    fprintf(file, "<path d=\"M%d %.1fH%d M%.1f %dV%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT, x, TOP, HEIGHT - BOTTOM);
    fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 6, y + 4, value);
    fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x, HEIGHT - BOTTOM + 18, step);
  }
  fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n<text x=\"%d\" y=\"20\" font-size=\"14\">",
          (WIDTH + LEFT) / 2, HEIGHT - 10, LEFT);
  print_escaped(file, metric);
  fputs("</text>\n", file);
  for (int c = 0, drawn = 0; c < plot->curves; c++) {
    const Curve *curve = &plot->curve[c];
    if (!curve->points) continue;
    const char *color = colors[drawn % (int)(sizeof colors / sizeof *colors)];
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", color);
    for (int64_t i = 0; i < curve->points; i++)
      fprintf(file, "%s%.1f,%.1f", i ? " " : "", x_of(plot, curve->point[i].step), y_of(plot, curve->point[i].value));
    fprintf(file, "\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">", WIDTH - RIGHT, 20 + 14 * drawn, color);
    print_escaped(file, curve->name);
    fputs("</text>\n", file);
    drawn++;
  }
  fputs("</svg>\n", file);
}

static bool write_svg(BluError *err, const Plot *plot, const char *metric, const char *path) {
  FILE *file = fopen(path, "we");
  if (!file) return blu_error_set(err, "cannot create %s: %s", path, strerror(errno));
  print_svg(file, plot, metric);
  bool good = !fflush(file) && !ferror(file);
  if (fclose(file) || !good) return blu_error_set(err, "cannot write %s: %s", path, strerror(errno));
  return true;
}

/* --- terminal --- */

static void draw_terminal(const Plot *plot, const char *metric) {
  enum { COLUMNS = 64, ROWS = 16 };
  static const char marks[] = "*o+x#@%&";
  char cell[ROWS][COLUMNS + 1];
  for (int r = 0; r < ROWS; r++) memset(cell[r], ' ', COLUMNS), cell[r][COLUMNS] = 0;
  printf("%s\n", metric);
  int drawn = 0;
  for (int c = 0; c < plot->curves; c++) {
    const Curve *curve = &plot->curve[c];
    if (!curve->points) continue;
    char mark = marks[drawn++ % (int)(sizeof marks - 1)];
    for (int64_t i = 0; i < curve->points; i++) {
      const Point *p = &curve->point[i];
      int column = (int)((p->step - plot->first) / (plot->last - plot->first) * (COLUMNS - 1) + 0.5);
      int row = (int)((plot->high - p->value) / (plot->high - plot->low) * (ROWS - 1) + 0.5);
      cell[row][column] = mark;
    }
    printf("  %c %s: %.6g at step %.0f\n", mark, curve->name, curve->point[curve->points - 1].value,
           curve->point[curve->points - 1].step);
  }
  for (int r = 0; r < ROWS; r++) {
    int used = COLUMNS;
    while (used && cell[r][used - 1] == ' ') used--;
    double value = plot->high - (plot->high - plot->low) * r / (ROWS - 1);
    if (r % 5 == 0) printf("%10.4g |%.*s\n", value, used, cell[r]);
    else printf("%10s |%.*s\n", "", used, cell[r]);
  }
  printf("%10s +%.*s\n%12.0f%*.0f\n", "", COLUMNS, "----------------------------------------------------------------",
         plot->first, COLUMNS - 1, plot->last);
}

bool blu_plot_run(BluError *err, const BluProgram *program, const BluOptions *options) {
  char *out = blu_cli_out(program, options);
  const char *metric = options->metric ? options->metric : "loss";
  Plot plot = {.curves = 0};
  bool good = options->files || read_run(err, &plot, out, metric);
  for (int64_t i = 0; good && i < options->files; i++) good = read_run(err, &plot, options->file[i], metric);
  good = good && find_range(err, &plot, metric);
  if (good && options->svg) good = write_svg(err, &plot, metric, options->svg);
  else if (good) draw_terminal(&plot, metric);
  for (int c = 0; c < plot.curves; c++) {
    free(plot.curve[c].name);
    free(plot.curve[c].point);
  }
  free(out);
  return good;
}
