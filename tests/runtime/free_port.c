/* free_port.c - prints a TCP port of 127.0.0.1 that nobody uses: the kernel picks it. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || getsockname(fd, (struct sockaddr *)&address, &size)) return perror("free_port"), 1;
  printf("%d\n", ntohs(address.sin_port));
  return 0;
}
