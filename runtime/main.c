/* main.c - the start of a trainer: the only place that knows the compiled program by name. */
#include "runtime_internal.h"

int main(int arguments, char **argument) { return blu_commands_main(&blu_program, arguments, argument); }
