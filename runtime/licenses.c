/* licenses.c - the licenses of what is inside a trainer: Blu's runtime, musl and zlib, and in one that samples text
 * tables of Unicode. */
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

static const char unicode_license[] =
    "UNICODE LICENSE V3\n"
    "\n"
    "COPYRIGHT AND PERMISSION NOTICE\n"
    "\n"
    "Copyright (C) 1991-2024 Unicode, Inc.\n"
    "\n"
    "NOTICE TO USER: Carefully read the following legal agreement. BY DOWNLOADING, INSTALLING, COPYING OR OTHERWISE\n"
    "USING DATA FILES, AND/OR SOFTWARE, YOU UNEQUIVOCALLY ACCEPT, AND AGREE TO BE BOUND BY, ALL OF THE TERMS AND\n"
    "CONDITIONS OF THIS AGREEMENT. IF YOU DO NOT AGREE, DO NOT DOWNLOAD, INSTALL, COPY, DISTRIBUTE OR USE THE DATA\n"
    "FILES OR SOFTWARE.\n"
    "\n"
    "Permission is hereby granted, free of charge, to any person obtaining a copy of data files and any associated\n"
    "documentation (the \"Data Files\") or software and any associated documentation (the \"Software\") to deal in the\n"
    "Data Files or Software without restriction, including without limitation the rights to use, copy, modify, merge,\n"
    "publish, distribute, and/or sell copies of the Data Files or Software, and to permit persons to whom the Data\n"
    "Files or Software are furnished to do so, provided that either (a) this copyright and permission notice appear\n"
    "with all copies of the Data Files or Software, or (b) this copyright and permission notice appear in associated\n"
    "Documentation.\n"
    "\n"
    "THE DATA FILES AND SOFTWARE ARE PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING\n"
    "BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT OF\n"
    "THIRD PARTY RIGHTS.\n"
    "\n"
    "IN NO EVENT SHALL THE COPYRIGHT HOLDER OR HOLDERS INCLUDED IN THIS NOTICE BE LIABLE FOR ANY CLAIM, OR ANY\n"
    "SPECIAL INDIRECT OR CONSEQUENTIAL DAMAGES, OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR\n"
    "PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION\n"
    "WITH THE USE OR PERFORMANCE OF THE DATA FILES OR SOFTWARE.\n"
    "\n"
    "Except as contained in this notice, the name of a copyright holder shall not be used in advertising or otherwise\n"
    "to promote the sale, use or other dealings in these Data Files or Software without prior written authorization\n"
    "of the copyright holder.\n";

void blu_licenses_print(FILE *file, bool sampling) {
  fprintf(file, "This program was made by Blu from a program of its author's; `source` prints that. Inside of it are:\n\n"
          "--- Blu's runtime: Apache License 2.0 ---\n\n%s\n"
          "--- musl, the C library: MIT license ---\n\n%s\n"
          "--- zlib: zlib license ---\n\n%s", blu_license_text, musl_license, zlib_license);
  if (sampling) fprintf(file, "\n--- tables of characters: Unicode license ---\n\n%s", unicode_license);
}
