#!/usr/bin/env python3
"""tables.py - writes tables.c: what unicode.c knows about characters. `pip install unicodedata2==16.0.0`, then run it without arguments;
the file is committed, so that a build needs neither."""
import os
import unicodedata2 as u

CLASSES = 'Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co'.split()
LAST = 0x110000
# Categories are those of today, for that is what the `tokenizers` library splits by; but its normal forms are of 2017, and take characters of
# later versions of Unicode for such that neither move nor compose. Texts were tokenized like that, so these are left out here too.
LATER = ((0x7fd, 0x7fd), (0x897, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xc3c, 0xc3c), (0xd3b, 0xd3c), (0xeba, 0xeba), (0x1715, 0x1715),
         (0x1abf, 0x1ace), (0x1df6, 0x1dfa), (0xa82c, 0xa82c), (0x105c9, 0x105c9), (0x105e4, 0x105e4), (0x10d24, 0x10d27), (0x10d69, 0x10d6d),
         (0x10eab, 0x10eac), (0x10efd, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070), (0x1133b, 0x1133b),
         (0x11383, 0x11383), (0x11385, 0x11385), (0x1138e, 0x1138e), (0x11391, 0x11391), (0x113c5, 0x113c5), (0x113c7, 0x113c8),
         (0x113ce, 0x113d0), (0x1145e, 0x1145e), (0x11839, 0x1183a), (0x11938, 0x11938), (0x1193d, 0x1193e), (0x11943, 0x11943),
         (0x119e0, 0x119e0), (0x11a34, 0x11a34), (0x11a47, 0x11a47), (0x11a99, 0x11a99), (0x11d42, 0x11d42), (0x11d44, 0x11d45),
         (0x11d97, 0x11d97), (0x11f41, 0x11f42), (0x16121, 0x16128), (0x1612f, 0x1612f), (0x16d68, 0x16d6a), (0x16ff0, 0x16ff1),
         (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae), (0x1e2ec, 0x1e2ef), (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef))


def rows(values, per_line, form):
    lines = [', '.join(form(v) for v in values[i:i + per_line]) for i in range(0, len(values), per_line)]
    return ',\n    '.join(lines)


def is_later(c):
    return any(first <= ord(c) <= last for first, last in LATER)


def runs(value):
    """Where a value over all code points changes: (first, value)."""
    found = []
    for c in range(LAST):
        v = value(chr(c))
        if not found or found[-1][1] != v:
            found.append((c, v))
    return found


def main():
    classes = runs(lambda c: CLASSES.index(u.category(c)))
    order = runs(lambda c: 0 if is_later(c) else u.combining(c))
    made = []  # code, first, second (0: none), of canonical decompositions, without Hangul's
    for c in range(LAST):
        d = u.decomposition(chr(c))
        if d and not d.startswith('<') and not is_later(chr(c)):
            parts = [int(x, 16) for x in d.split()]
            made.append((c, parts[0], parts[1] if len(parts) > 1 else 0))
    composed = [i for i, (c, a, b) in enumerate(made) if b and u.normalize('NFC', chr(a) + chr(b)) == chr(c)]
    composed.sort(key=lambda i: made[i][1:])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tables.c')
    with open(path, 'w') as f:
        f.write(f'''/* tables.c - made by tables.py from Unicode {u.unidata_version}: general categories, canonical order and decompositions of characters. */
#include "tables.h"

/* First code << 5 | number of the category, as in blu_class_names. */
const uint32_t blu_class_runs[] = {{
    {rows(classes, 14, lambda r: f'0x{r[0] << 5 | r[1]:x}')}}};
const int blu_class_run_count = sizeof blu_class_runs / sizeof *blu_class_runs;

const char blu_class_names[30][3] = {{
    {rows(CLASSES, 15, lambda n: f'"{n}"')}}};

/* First code << 8 | canonical combining class. */
const uint32_t blu_order_runs[] = {{
    {rows(order, 14, lambda r: f'0x{r[0] << 8 | r[1]:x}')}}};
const int blu_order_run_count = sizeof blu_order_runs / sizeof *blu_order_runs;

/* A character and the one or two (0: one) that it decomposes to, by character. */
const uint32_t blu_decompositions[][3] = {{
    {rows(made, 5, lambda r: f'{{0x{r[0]:x}, 0x{r[1]:x}, {f"0x{r[2]:x}" if r[2] else "0"}}}')}}};
const int blu_decomposition_count = sizeof blu_decompositions / sizeof *blu_decompositions;

/* Which of these compose again, by the two. */
const uint16_t blu_compositions[] = {{
    {rows(composed, 24, str)}}};
const int blu_composition_count = sizeof blu_compositions / sizeof *blu_compositions;
''')


main()
