/* licenses.c - the licenses of what is inside a trainer: Blu's runtime, zlib, and the C library where that is inside. */
#include "runtime_internal.h"

/* Of /LICENSE; the build makes it. */
extern const char blu_license_text[];

static const char zlib_license[] =
    "Copyright (C) 1995-2022 Jean-loup Gailly and Mark Adler\n"
    "\n"
    "This software is provided 'as-is', without any express or implied warranty. In no event will the authors be held\n"
    "liable for any damages arising from the use of this software.\n"
    "\n"
    "Permission is granted to anyone to use this software for any purpose, including commercial applications, and to\n"
    "alter it and redistribute it freely, subject to the following restrictions:\n"
    "\n"
    "1. The origin of this software must not be misrepresented; you must not claim that you wrote the original software.\n"
    "   If you use this software in a product, an acknowledgment in the product documentation would be appreciated but\n"
    "   is not required.\n"
    "2. Altered source versions must be plainly marked as such, and must not be misrepresented as being the original\n"
    "   software.\n"
    "3. This notice may not be removed or altered from any source distribution.\n";

void blu_licenses_print(FILE *file) {
  fprintf(file, "This program was made by Blu from a program of its author's; `source` prints that. Inside of it are:\n\n"
          "--- Blu's runtime: Apache License 2.0 ---\n\n%s\n"
          "%s%s"
          "--- zlib: zlib license ---\n\n%s", blu_license_text, blu_license_libc, blu_license_libc[0] ? "\n" : "", zlib_license);
}
