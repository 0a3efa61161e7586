/* embed.c - what every trainer is linked with, as bytes of the compiler. */
#define EMBED(name, path)                                   \
  __asm__(".section .rodata\n.balign 16\n.globl " name "\n" \
          name ":\n.incbin \"" path "\"\n.globl " name "_end\n" name "_end:\n.byte 0\n.previous\n")

EMBED("blu_runtime_object", BLU_RUNTIME_OBJECT);
EMBED("blu_crtn_object", BLU_CRTN_OBJECT);
EMBED("blu_device_runtime_object", BLU_DEVICE_RUNTIME_OBJECT);
EMBED("blu_stub_libc", BLU_STUB_LIBC);
EMBED("blu_stub_libm", BLU_STUB_LIBM);
