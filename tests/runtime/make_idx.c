/* make_idx.c - writes a small data set in MNIST's four files: make_idx DIR TRAIN TEST SIDE CLASSES
 *
 * Example i has label i % CLASSES; an image is noise, brighter in the pixels p with p % CLASSES == label. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *create(const char *dir, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "wb");
  if (!file) perror(path), exit(1);
  return file;
}

static void put_u32(FILE *file, uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(x >> shift & 255), file);
}

static void write_split(const char *dir, const char *prefix, int count, int side, int classes) {
  char name[64];
  snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
  FILE *images = create(dir, name);
  snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
  FILE *labels = create(dir, name);
  put_u32(images, 0x803);
  put_u32(images, (uint32_t)count);
  put_u32(images, (uint32_t)side);
  put_u32(images, (uint32_t)side);
  put_u32(labels, 0x801);
  put_u32(labels, (uint32_t)count);
  uint32_t random = 12345;
  for (int i = 0; i < count; i++) {
    fputc(i % classes, labels);
    for (int p = 0; p < side * side; p++) {
      random = random * 1664525 + 1013904223;
      fputc((int)(random >> 25) + (p % classes == i % classes ? 60 : 0), images);
    }
  }
  if (fclose(images) || fclose(labels)) exit(1);
}

int main(int arguments, char **argument) {
  if (arguments != 6) return 2;
  int side = atoi(argument[4]), classes = atoi(argument[5]);
  write_split(argument[1], "train", atoi(argument[2]), side, classes);
  write_split(argument[1], "t10k", atoi(argument[3]), side, classes);
  return 0;
}
