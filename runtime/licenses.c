/* licenses.c - the licenses of what is inside a trainer: Blu's runtime, musl and zlib. */
#include "runtime_internal.h"

/* Of /LICENSE; the build makes it. */
extern const char blu_license_text[];

static const char musl_license[] =
    "Copyright (c) 2005-2020 Rich Felker, et al.\n"
    "\n"
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated\n"
    "documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation\n"
    "the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to\n"
    "permit persons to whom the Software is furnished to do so, subject to the following conditions:\n"
    "\n"
    "The above copyright notice and this permission notice shall be included in all copies or substantial portions of\n"
    "the Software.\n"
    "\n"
    "THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO\n"
    "THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE\n"
    "AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT,\n"
    "TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE\n"
    "SOFTWARE.\n";

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
          "--- musl, the C library: MIT license ---\n\n%s\n"
          "--- zlib: zlib license ---\n\n%s", blu_license_text, musl_license, zlib_license);
}
