/* make_files.c - writes data files in all formats but IDX:
 *   make_files npy|csv DIR COUNT SIDE CLASSES [PREFIX]   the images and labels of make_idx, as image.npy or train.csv
 *   make_files llmc16|llmc32|raw16|raw32 FILE COUNT FIRST   tokens FIRST, FIRST + 1, ... modulo 256 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *create(const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) perror(path), exit(1);
  return file;
}

static void put(FILE *file, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) fputc((int)(value >> 8 * i & 255), file);
}

static void npy_head(FILE *file, const char *descr, const char *shape) {
  char text[200];
  int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
  fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
  fprintf(file, "%s%*s\n", text, 117 - used, "");
}

static void make_arrays(const char *dir, int count, int side, int classes, int npy, const char *prefix) {
  char path[4096], shape[60];
  snprintf(path, sizeof path, npy ? "%s/%simage.npy" : "%s/%strain.csv", dir, prefix);
  FILE *images = create(path), *labels = NULL;
  if (npy) {
    snprintf(path, sizeof path, "%s/%slabel.npy", dir, prefix);
    labels = create(path);
    snprintf(shape, sizeof shape, "%d, %d, %d", count, side, side);
    npy_head(images, "|u1", shape);
    snprintf(shape, sizeof shape, "%d,", count);
    npy_head(labels, "<i8", shape);
  } else {
    for (int p = 0; p < side * side; p++) fprintf(images, "p%d,", p);
    fprintf(images, "\"label\"\r\n");
  }
  uint32_t random = 12345;
  for (int i = 0; i < count; i++) {
    for (int p = 0; p < side * side; p++) {
      random = random * 1664525 + 1013904223;
      int value = (int)(random >> 25) + (p % classes == i % classes ? 60 : 0);
      if (npy) fputc(value, images);
      else fprintf(images, p % 3 ? "%d," : " %d.0 ,", value);
    }
    if (npy) put(labels, (uint64_t)(i % classes), 8);
    else fprintf(images, "%d\r\n", i % classes);
  }
  if (fclose(images) || (labels && fclose(labels))) exit(1);
}

static void make_tokens(const char *kind, const char *path, uint32_t count, uint32_t first) {
  FILE *file = create(path);
  int bytes = strstr(kind, "16") ? 2 : 4;
  if (!strncmp(kind, "llmc", 4)) {
    put(file, bytes == 2 ? 20240520 : 20240801, 4);
    put(file, bytes == 2 ? 1 : 7, 4);
    put(file, count, 4);
    for (int i = 3; i < 256; i++) put(file, 0, 4);
  }
  for (uint32_t i = 0; i < count; i++) put(file, (first + i) % 256, bytes);
  if (fclose(file)) exit(1);
}

int main(int arguments, char **argument) {
  if (arguments < 5) return 2;
  if (!strcmp(argument[1], "npy") || !strcmp(argument[1], "csv")) {
    if (arguments < 6) return 2;
    make_arrays(argument[2], atoi(argument[3]), atoi(argument[4]), atoi(argument[5]), argument[1][0] == 'n',
                arguments > 6 ? argument[6] : "");
  } else {
    make_tokens(argument[1], argument[2], (uint32_t)atol(argument[3]), (uint32_t)atol(argument[4]));
  }
  return 0;
}
