/* break_file.c - spoils a copy of a file: break_file FILE COPY flip BIT | cut BYTES | extend BYTES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int arguments, char **argument) {
  static unsigned char data[1 << 20];
  if (arguments != 5) return 2;
  FILE *from = fopen(argument[1], "rb"), *to = fopen(argument[2], "wb");
  if (!from || !to) return 1;
  size_t bytes = fread(data, 1, sizeof data / 2, from), number = (size_t)atol(argument[4]);
  if (!strcmp(argument[3], "flip")) {
    if (number / 8 >= bytes) return 3;
    data[number / 8] ^= (unsigned char)(1 << number % 8);
  } else if (!strcmp(argument[3], "cut")) {
    if (number > bytes) return 3;
    bytes = number;
  } else {
    bytes += number;
  }
  return fwrite(data, 1, bytes, to) != bytes || fclose(to);
}
