/* optable.c - build tool: turns llvm-tblgen's JSON of BluOps.td into the C table that dialects/table.c includes.
 * usage: blu-optable ops.json optable.inc */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *text = malloc((size_t)n + 1);
  if (text && fread(text, 1, (size_t)n, f) == (size_t)n) text[n] = 0;
  fclose(f);
  return text;
}

static const cJSON *get(const cJSON *o, const char *key) { return cJSON_GetObjectItemCaseSensitive(o, key); }

static const char *text_of(const cJSON *o, const char *key) {
  const char *s = cJSON_GetStringValue(get(o, key));
  return s ? s : "";
}

static int is_a(const cJSON *record, const char *class) {
  const cJSON *s;
  cJSON_ArrayForEach(s, get(record, "!superclasses")) if (!strcmp(s->valuestring, class)) return 1;
  return 0;
}

static void print_string(FILE *out, const char *s) {
  fputc('"', out);
  for (int space = 0; *s; s++) { /* one line: runs of white space become one blank */
    if (*s == ' ' || *s == '\n') { space = 1; continue; }
    if (space) fputc(' ', out);
    space = 0;
    if (*s == '"' || *s == '\\') fputc('\\', out);
    fputc(*s, out);
  }
  fputc('"', out);
}

static const char *attr_kind(const char *def) {
  static const struct { const char *def, *kind; } kinds[] = {
    {"DenseI64ArrayAttr", "BLU_ATTR_INTS"}, {"I64Attr", "BLU_ATTR_INT"},   {"F64Attr", "BLU_ATTR_REAL"},
    {"BoolAttr", "BLU_ATTR_BOOL"},          {"TypeAttr", "BLU_ATTR_TYPE"}, {"StrAttr", "BLU_ATTR_STRING"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].def, def)) return kinds[i].kind;
  return NULL;
}

/* Writes one row of the table; returns 0 and says why if the record has something that the table can't hold. */
static int print_op(FILE *out, const cJSON *all, const char *def) {
  const cJSON *op = get(all, def), *arg;
  char operands[256] = "", attrs[1024] = "";
  int nin = 0, nattr = 0;
  cJSON_ArrayForEach(arg, get(get(op, "arguments"), "args")) {
    const char *type = text_of(cJSON_GetArrayItem(arg, 0), "def"), *name = cJSON_GetArrayItem(arg, 1)->valuestring;
    const cJSON *record = get(all, type);
    if (is_a(record, "Variadic")) { nin = -1; continue; }
    if (!is_a(record, "Attr")) {
      snprintf(operands + strlen(operands), sizeof operands - strlen(operands), "\"%s\", ", name);
      nin++;
      continue;
    }
    int optional = is_a(record, "OptionalAttr");
    const char *kind = attr_kind(optional ? text_of(get(record, "baseAttr"), "def") : type);
    if (!kind) return fprintf(stderr, "blu-optable: %s: attribute %s has a kind that the table doesn't know\n", def, name), 0;
    snprintf(attrs + strlen(attrs), sizeof attrs - strlen(attrs), "{\"%s\", %s, %s}, ", name, kind, optional ? "true" : "false");
    nattr++;
  }
  int pure = 0;
  cJSON_ArrayForEach(arg, get(op, "traits")) pure |= !strcmp(text_of(arg, "def"), "Pure");
  fprintf(out, "  {\"%s\", ", text_of(op, "opName"));
  print_string(out, text_of(op, "summary"));
  fputs(", ", out);
  print_string(out, text_of(op, "description"));
  fputs(", ", out);
  print_string(out, text_of(op, "gradient"));
  fprintf(out, ", %d, {%s}, %d, {%s}, %d, %s, %s, &blu_rule_%s},\n", nin, operands, nattr, attrs,
          cJSON_GetArraySize(get(get(op, "results"), "args")), pure ? "true" : "false",
          get(op, "builtin")->valueint ? "true" : "false", text_of(op, "opName"));
  return 1;
}

typedef struct { const char *name; int row; } Row;

static int by_name(const void *a, const void *b) { return strcmp(((const Row *)a)->name, ((const Row *)b)->name); }

/* The rows of blu_ops in the order of their names, to be searched. */
static void print_order(FILE *out, const cJSON *all, const cJSON *names) {
  enum { MOST = 1024 };
  static Row rows[MOST];
  int n = 0;
  const cJSON *name;
  cJSON_ArrayForEach(name, names) if (n < MOST) rows[n] = (Row){text_of(get(all, name->valuestring), "opName"), n}, n++;
  qsort(rows, (size_t)n, sizeof *rows, by_name);
  fputs("static const short blu_ops_by_name[] = {", out);
  for (int i = 0; i < n; i++) fprintf(out, "%d, ", rows[i].row);
  fputs("};\n", out);
}

int main(int argc, char **argv) {
  if (argc != 3) return fputs("usage: blu-optable ops.json optable.inc\n", stderr), 2;
  char *text = read_file(argv[1]);
  cJSON *all = text ? cJSON_Parse(text) : NULL;
  const cJSON *names = get(get(all, "!instanceof"), "Blu_Op"), *name;
  if (!names) return fprintf(stderr, "blu-optable: %s: no records of class Blu_Op\n", argv[1]), 1;
  FILE *out = fopen(argv[2], "w");
  if (!out) return fprintf(stderr, "blu-optable: %s: cannot write\n", argv[2]), 1;
  cJSON_ArrayForEach(name, names) fprintf(out, "extern const BluRule blu_rule_%s;\n", text_of(get(all, name->valuestring),
      "opName"));
  fputs("const BluOp blu_ops[] = {\n", out);
  int good = 1;
  cJSON_ArrayForEach(name, names) good &= print_op(out, all, name->valuestring);
  fputs("};\nconst int blu_nops = sizeof blu_ops / sizeof *blu_ops;\n", out);
  print_order(out, all, names);
  good &= !fclose(out);
  cJSON_Delete(all);
  free(text);
  if (!good) remove(argv[2]);
  return !good;
}
