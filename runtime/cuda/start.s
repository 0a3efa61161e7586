# start.s - the first instructions of a trainer that the system's dynamic loader starts: hands the stack's arguments to the C library, as the
# x86-64 ABI lays them out (argc and argv at the top, in rdx what the loader wants to be called at the end). glibc 2.34 and newer run no
# initialisers of the program's own for a start like this, and it has none.
.globl _start
.type _start, @function
.text
_start:
  xorl %ebp, %ebp
  movq %rdx, %r9          # rtld_fini
  popq %rsi               # argc
  movq %rsp, %rdx         # argv
  andq $-16, %rsp
  pushq %rax
  pushq %rsp              # stack_end
  xorl %r8d, %r8d         # fini
  xorl %ecx, %ecx         # init
  movq $main, %rdi
  call __libc_start_main
  hlt
.section .note.GNU-stack, "", @progbits
