/* pattern.c - the regular expressions that tokenizers split words by, matched as a backtracking matcher does: leftmost, first alternative
 * that works, greedy counts. A pattern is nodes linked by `next`; only sets of characters repeat, so recursion is as deep as the pattern is
 * long, whatever the text. What a pattern asks for beyond that is refused by name.
 *
 * The meaning is that of Oniguruma's Ruby syntax and of Rust's regex, where both agree: \s is White_Space, \d is Nd, classes are general
 * categories; under (?i:) an ASCII letter stands for both cases, s also for U+017F and k for U+212A, as simple case folding has it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

enum { MOST_NODES = 512, MOST_RANGES = 64, MOST_NESTED = 16, MANY = INT32_MAX, ACCEPT = -1 };

typedef enum { NODE_SET, NODE_GROUP, NODE_LOOK } NodeKind;

typedef struct {
  uint64_t ascii[2];    /* what it says of ASCII, negation included */
  uint32_t classes;     /* of what isn't ASCII: */
  bool space, no_space, negated;
  int ranges;
  int32_t (*range)[2];
} Set;

typedef struct {
  NodeKind kind;
  int next;             /* ACCEPT: the end of the pattern, or of a lookahead */
  Set set;
  int32_t least, most;  /* SET: how often; GROUP: least 0: may be left out */
  bool possessive;      /* SET */
  bool negative;        /* LOOK */
  int *first, firsts;   /* GROUP, LOOK: first node of each alternative */
  int seen;             /* of find_starts */
  bool empty;
} Node;

struct BluPattern {
  Node node[MOST_NODES];
  int nodes;
  int *first, firsts;
  uint64_t start[129];  /* for each ASCII character, and in [128] for all else: which of the first 63 alternatives a match can begin with; the
                           last bit stands for all others */
  uint8_t class_of[0x10000]; /* blu_code_class */
};

/* --- compiling --- */

typedef struct {
  BluError *err;
  const char *at, *end;
  BluPattern *pattern;
  bool fold;
} Parser;

static bool refuse(const Parser *p, const char *what) { return blu_error_set(p->err, "%s", what); }

static bool take(Parser *p, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n)) return false;
  p->at += n;
  return true;
}

static bool set_range(Set *set, int32_t low, int32_t high) {
  if (set->ranges == MOST_RANGES) return false;
  if (!set->range) set->range = blu_new(MOST_RANGES, sizeof *set->range);
  set->range[set->ranges][0] = low;
  set->range[set->ranges++][1] = high;
  return true;
}

static bool set_slow(const BluPattern *p, const Set *set, int32_t code) {
  int class = (uint32_t)code < sizeof p->class_of ? p->class_of[code] : blu_code_class(code);
  bool in = (set->classes >> class & 1) || (set->space && blu_code_is_space(code)) || (set->no_space && !blu_code_is_space(code));
  for (int i = 0; i < set->ranges && !in; i++) in = code >= set->range[i][0] && code <= set->range[i][1];
  return in != set->negated;
}

static void set_finish(const BluPattern *p, Set *set) {
  for (int c = 0; c < 128; c++)
    if (set_slow(p, set, c)) set->ascii[c / 64] |= UINT64_C(1) << c % 64;
}

static inline bool set_has(const BluPattern *p, const Set *set, int32_t code) {
  if ((uint32_t)code < 128) return set->ascii[code / 64] >> code % 64 & 1;
  return set_slow(p, set, code);
}

/* One character of a pattern or class, which may be folded. */
static bool set_letter(Parser *p, Set *set, int32_t code) {
  bool good = set_range(set, code, code);
  if (p->fold && code >= 0x80) return refuse(p, "(?i:..) over characters beyond ASCII");
  int32_t other = code ^ 0x20, low = code | 0x20;
  if (p->fold && low >= 'a' && low <= 'z') {
    good = good && set_range(set, other, other);
    if (low == 's') good = good && set_range(set, 0x17f, 0x17f);
    if (low == 'k') good = good && set_range(set, 0x212a, 0x212a);
  }
  return good || refuse(p, "a class of more than 64 ranges");
}

static bool hex_code(Parser *p, int digits, int32_t *code) { /* digits 0: up to a } */
  *code = 0;
  for (int i = 0; p->at < p->end && (digits ? i < digits : *p->at != '}'); i++) {
    const char *hex = "0123456789abcdefABCDEF", *place = *p->at ? strchr(hex, *p->at) : NULL;
    if (!place || *code > 0x10ffff) return refuse(p, "a malformed code of a character");
    *code = *code << 4 | (int32_t)(place - hex < 16 ? place - hex : place - hex - 6);
    p->at++;
  }
  if (!digits && !take(p, "}")) return refuse(p, "a malformed code of a character");
  return *code <= 0x10ffff || refuse(p, "a malformed code of a character");
}

static bool property(Parser *p, Set *set, bool negated) {
  const char *name;
  int64_t bytes = 1;
  if (take(p, "{")) {
    name = p->at;
    while (p->at < p->end && *p->at != '}') p->at++;
    bytes = p->at - name;
    if (!take(p, "}")) return refuse(p, "a property without its '}'");
  } else {
    name = p->at;
    if (p->at < p->end) p->at++;
  }
  uint32_t mask = name + bytes <= p->end ? blu_code_classes(name, bytes) : 0;
  if (!mask) return blu_error_set(p->err, "the property '\\p{%.*s}'", bytes > 40 ? 40 : (int)bytes, name);
  set->classes |= negated ? ~mask : mask;
  return true;
}

/* What stands behind a backslash: into the set, or, if it is one character, into *code (else BLU_CODE_NONE). */
static bool escape(Parser *p, Set *set, int32_t *code) {
  static const char letters[] = "rntfvae0", meanings[] = "\r\n\t\f\v\a\033";
  *code = BLU_CODE_NONE;
  if (p->at == p->end) return refuse(p, "a backslash at the end");
  char c = *p->at++;
  const char *letter = c ? strchr(letters, c) : NULL;
  if (letter) return *code = meanings[letter - letters], true;
  switch (c) {
  case 's': return set->space = true;
  case 'S': return set->no_space = true;
  case 'd': set->classes |= blu_code_classes("Nd", 2); return true;
  case 'D': set->classes |= ~blu_code_classes("Nd", 2); return true;
  case 'p': return property(p, set, false);
  case 'P': return property(p, set, true);
  case 'u': return hex_code(p, take(p, "{") ? 0 : 4, code);
  case 'x': return hex_code(p, take(p, "{") ? 0 : 2, code);
  default: break;
  }
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80)
    return blu_error_set(p->err, "the escape '\\%c'", (unsigned char)c < 0x80 ? c : '?');
  return *code = c, true;
}

static bool plain(Parser *p, int32_t *code) {
  p->at += blu_code_at(p->at, p->end, code);
  return *code != BLU_CODE_NONE || refuse(p, "a byte that is no UTF-8");
}

static bool parse_class(Parser *p, Set *set) { /* behind [ */
  set->negated = take(p, "^");
  if (set->negated && p->fold) return refuse(p, "a negated class in (?i:..)");
  for (bool first = true; p->at < p->end && (first || *p->at != ']'); first = false) {
    int32_t low, high;
    if (*p->at == '[' || (p->end - p->at > 1 && p->at[0] == '&' && p->at[1] == '&')) return refuse(p, "a class within a class");
    if (take(p, "\\")) {
      if (!escape(p, set, &low)) return false;
      if (low == BLU_CODE_NONE) continue;
    } else if (!plain(p, &low)) return false;
    if (p->end - p->at < 2 || p->at[0] != '-' || p->at[1] == ']') {
      if (!set_letter(p, set, low)) return false;
      continue;
    }
    p->at++;
    Set none = {0};
    if (take(p, "\\") ? !escape(p, &none, &high) : !plain(p, &high)) return false;
    if (high < low) return refuse(p, "a range of characters that is empty or has no end");
    if (p->fold) return refuse(p, "a range of characters in (?i:..)");
    if (!set_range(set, low, high)) return refuse(p, "a class of more than 64 ranges");
  }
  return take(p, "]") || refuse(p, "a class without its ']'");
}

static int add_node(Parser *p, NodeKind kind) {
  if (p->pattern->nodes == MOST_NODES) return refuse(p, "more than 512 parts") - 1;
  p->pattern->node[p->pattern->nodes] = (Node){.kind = kind, .next = ACCEPT, .least = 1, .most = 1};
  return p->pattern->nodes++;
}

static bool parse_alternatives(Parser *p, int depth, int **first, int *firsts, int **last);

/* {3}, {1,3}, {2,} */
static bool parse_bounds(Parser *p, Node *node) {
  int64_t bound[2] = {0, MANY};
  int i = 0;
  for (; p->at < p->end && *p->at != '}'; p->at++) {
    if (*p->at == ',' && !i) i = 1, bound[1] = MANY;
    else if (*p->at < '0' || *p->at > '9') return refuse(p, "a count that is no number");
    else bound[i] = (bound[i] == MANY ? 0 : bound[i]) * 10 + (*p->at - '0');
    if (bound[i] > 100000 && bound[i] != MANY) return refuse(p, "a count of more than 100000");
  }
  if (!take(p, "}")) return refuse(p, "a count without its '}'");
  node->least = (int32_t)bound[0];
  node->most = (int32_t)(i ? bound[1] : bound[0]);
  return node->most >= node->least || refuse(p, "a count from more to fewer");
}

static bool parse_count(Parser *p, Node *node) {
  bool braces = false;
  if (take(p, "?")) node->least = 0;
  else if (take(p, "*")) node->least = 0, node->most = MANY;
  else if (take(p, "+")) node->most = MANY;
  else if (take(p, "{")) {
    if (!parse_bounds(p, node)) return false;
    braces = true;
  } else return true;
  if (node->kind == NODE_LOOK) return refuse(p, "a count behind a lookahead");
  if (node->kind == NODE_GROUP && !(node->most == 1)) return refuse(p, "a repeated group");
  if (take(p, "?")) return refuse(p, "a lazy count");
  if (!braces && take(p, "+")) node->possessive = true;
  if (node->possessive && node->kind == NODE_GROUP) return refuse(p, "a possessive group");
  return (p->at == p->end || !strchr("?*+{", *p->at) || !*p->at) || refuse(p, "a count of a count");
}

/* Lets the ends of a group's alternatives go on at `next`. They end in ACCEPT, and no others of theirs do. */
static void link_ends(Parser *p, const int *last, int n, int next) {
  for (int i = 0; i < n; i++)
    if (last[i] >= 0) p->pattern->node[last[i]].next = next;
}

/* One part: its node goes to *made. For groups the ends of the alternatives are linked when the next part is known. */
static bool parse_part(Parser *p, int depth, int *made, int **ends, int *nends) {
  *ends = NULL, *nends = 0;
  NodeKind kind = NODE_SET;
  bool fold = p->fold, negative = false;
  if (take(p, "(?!")) kind = NODE_LOOK, negative = true;
  else if (take(p, "(?=")) kind = NODE_LOOK;
  else if (take(p, "(?i:")) kind = NODE_GROUP, p->fold = true;
  else if (take(p, "(?:")) kind = NODE_GROUP;
  else if (take(p, "(?")) return blu_error_set(p->err, "the group '(?%.1s'", p->at < p->end && (unsigned char)*p->at < 0x80 ? p->at : "");
  else if (take(p, "(")) kind = NODE_GROUP;
  if ((*made = add_node(p, kind)) < 0) return false;
  Node *node = &p->pattern->node[*made];
  if (kind != NODE_SET) {
    if (depth == MOST_NESTED) return refuse(p, "groups nested too deeply");
    node->negative = negative;
    int *last;
    if (!parse_alternatives(p, depth + 1, &node->first, &node->firsts, &last)) return false;
    p->fold = fold;
    if (kind == NODE_GROUP) *ends = last, *nends = node->firsts;
    else free(last); /* a lookahead ends in ACCEPT */
    return take(p, ")") || refuse(p, "a group without its ')'");
  }
  int32_t code;
  bool good;
  if (take(p, "[")) good = parse_class(p, &node->set);
  else if (take(p, "\\")) good = escape(p, &node->set, &code) && (code == BLU_CODE_NONE || set_letter(p, &node->set, code));
  else if (p->at < p->end && *p->at && strchr(".^$?*+{}]", *p->at)) good = blu_error_set(p->err, "'%c' in this place", *p->at);
  else good = plain(p, &code) && set_letter(p, &node->set, code);
  set_finish(p->pattern, &node->set);
  return good;
}

/* A sequence: its first node, and the last, whose `next` is still to be set. An empty one is refused. */
static bool parse_sequence(Parser *p, int depth, int *first, int *last) {
  int *open = NULL, opens = 0, node = 0;
  *first = *last = ACCEPT;
  bool good = true;
  while (good && p->at < p->end && *p->at != '|' && *p->at != ')') {
    int *ends, nends;
    good = parse_part(p, depth, &node, &ends, &nends) && parse_count(p, &p->pattern->node[node]);
    if (good && *first == ACCEPT) *first = node;
    else if (good) p->pattern->node[*last].next = node, link_ends(p, open, opens, node);
    free(open);
    open = ends, opens = nends;
    *last = node;
  }
  /* A group at the end: what follows is not known here, so a node that matches nothing but the empty text stands behind it. */
  if (good && opens) {
    int tail = add_node(p, NODE_SET);
    good = tail >= 0;
    if (good) {
      p->pattern->node[tail].least = p->pattern->node[tail].most = 0;
      p->pattern->node[*last].next = tail;
      link_ends(p, open, opens, tail);
      *last = tail;
    }
  }
  free(open);
  return good && (*first != ACCEPT || refuse(p, "an alternative that is empty"));
}

static bool parse_alternatives(Parser *p, int depth, int **first, int *firsts, int **last) {
  *first = *last = NULL;
  *firsts = 0;
  bool good = true;
  do {
    int a, b;
    good = parse_sequence(p, depth, &a, &b);
    *first = blu_need(realloc(*first, (size_t)(*firsts + 1) * sizeof **first));
    *last = blu_need(realloc(*last, (size_t)(*firsts + 1) * sizeof **last));
    (*first)[*firsts] = a;
    (*last)[(*firsts)++] = b;
  } while (good && take(p, "|"));
  if (!good) free(*last), *last = NULL;
  return good;
}

/* --- matching --- */

typedef struct {
  const BluPattern *pattern;
  const char *end;
  int64_t steps; /* left */
} Matcher;

static const char *step_back(const char *start, const char *at) {
  for (int i = 2; i <= 4 && at - start >= i; i++) {
    int32_t code;
    if (((unsigned char)at[-i] & 0xc0) == 0x80) continue;
    if ((unsigned char)at[-1] >= 0x80 && blu_code_at(at - i, at, &code) == i) return at - i;
    break;
  }
  return at - 1;
}

static const char *match(Matcher *m, int n, const char *at);

static const char *match_any(Matcher *m, const int *first, int firsts, const char *at) {
  const char *end = NULL;
  for (int i = 0; i < firsts && !end; i++) end = match(m, first[i], at);
  return end;
}

static const char *match_set(Matcher *m, const Node *node, const char *at) {
  const char *from = at;
  int32_t count = 0, code;
  while (count < node->most && at < m->end) {
    int64_t bytes = blu_code_at(at, m->end, &code);
    if (!set_has(m->pattern, &node->set, code)) break;
    at += bytes;
    count++;
  }
  m->steps -= count + 1;
  if (count < node->least || m->steps < 0) return NULL;
  if (node->next == ACCEPT) return at;
  for (;; count--) {
    const char *end = match(m, node->next, at);
    if (end || count == node->least || node->possessive || m->steps < 0) return end;
    at = step_back(from, at);
    m->steps--;
  }
}

/* The end of a match of node n and what follows it; NULL: none. */
static const char *match(Matcher *m, int n, const char *at) {
  const char *end;
  if (n == ACCEPT) return at;
  const Node *node = &m->pattern->node[n];
  switch (node->kind) {
  case NODE_SET: return match_set(m, node, at);
  case NODE_GROUP:
    end = match_any(m, node->first, node->firsts, at);
    return end || node->least ? end : match(m, node->next, at);
  case NODE_LOOK: return !match_any(m, node->first, node->firsts, at) == node->negative ? match(m, node->next, at) : NULL;
  }
  return NULL;
}

/* --- what it can begin with, and how short it can be --- */

enum { LAST_BIT = 63 };

/* Notes what node n and those behind it can begin with, each node once in a round. True if they can match nothing. */
static bool find_starts(BluPattern *pattern, int n, int round) {
  if (n == ACCEPT) return true;
  Node *node = &pattern->node[n];
  if (node->seen == round) return node->empty;
  node->seen = round;
  uint64_t bit = UINT64_C(1) << (round - 1 < LAST_BIT ? round - 1 : LAST_BIT);
  for (int c = 0; node->kind == NODE_SET && node->most && c <= 128; c++)
    if (c == 128 || node->set.ascii[c / 64] >> c % 64 & 1) pattern->start[c] |= bit;
  for (int i = 0; node->kind == NODE_GROUP && i < node->firsts; i++) node->empty |= find_starts(pattern, node->first[i], round); /* with what follows */
  if (node->kind == NODE_LOOK || !node->least) node->empty |= find_starts(pattern, node->next, round);
  return node->empty;
}

static BluPattern *new_pattern(void) {
  BluPattern *pattern = blu_new(1, sizeof *pattern);
  blu_code_fill_classes(pattern->class_of, sizeof pattern->class_of);
  return pattern;
}

BluPattern *blu_pattern_compile(BluError *err, const char *text, int64_t bytes) {
  BluPattern *pattern = new_pattern();
  Parser p = {.err = err, .at = text, .end = text + bytes, .pattern = pattern};
  int *last = NULL;
  bool good = parse_alternatives(&p, 0, &pattern->first, &pattern->firsts, &last) && (p.at == p.end || refuse(&p, "a ')' too many"));
  free(last);
  bool empty = false;
  for (int i = 0; good && i < pattern->firsts; i++) empty |= find_starts(pattern, pattern->first[i], i + 1);
  if (good && empty) good = refuse(&p, "a match of nothing");
  if (!good) blu_pattern_free(pattern);
  return good ? pattern : NULL;
}

BluPattern *blu_pattern_literal(const char *text, int64_t bytes) {
  BluPattern *pattern = new_pattern();
  BluError err;
  Parser p = {.err = &err, .at = text, .end = text + bytes, .pattern = pattern};
  bool good = bytes > 0;
  for (int node = 0; good && p.at < p.end;) {
    int32_t code;
    good = plain(&p, &code) && (node = add_node(&p, NODE_SET)) >= 0 && set_letter(&p, &pattern->node[node].set, code);
    if (!good) break;
    set_finish(pattern, &pattern->node[node].set);
    if (node) pattern->node[node - 1].next = node;
  }
  pattern->first = blu_new(1, sizeof *pattern->first);
  pattern->firsts = 1;
  if (good) find_starts(pattern, 0, 1);
  else blu_pattern_free(pattern);
  return good ? pattern : NULL;
}

void blu_pattern_free(BluPattern *pattern) {
  if (!pattern) return;
  for (int i = 0; i < pattern->nodes; i++) free(pattern->node[i].set.range), free(pattern->node[i].first);
  free(pattern->first);
  free(pattern);
}

int blu_pattern_find(const BluPattern *pattern, const char *text, int64_t bytes, int64_t from, int64_t *first, int64_t *last) {
  enum { STEPS = 1000 }; /* for each byte: far more than a pattern takes that was made to split text */
  Matcher m = {.pattern = pattern, .end = text + bytes, .steps = INT64_MAX};
  if (bytes < INT64_MAX / STEPS / 2) m.steps = STEPS * (bytes + 1000);
  for (const char *at = text + from; at < m.end;) {
    unsigned char c = (unsigned char)*at;
    uint64_t starts = pattern->start[c < 128 ? c : 128];
    const char *end = NULL;
    for (int i; starts && !end; starts &= starts - 1) {
      i = __builtin_ctzll(starts);
      end = i < LAST_BIT ? match(&m, pattern->first[i], at) : match_any(&m, pattern->first + i, pattern->firsts - i, at);
    }
    if (m.steps < 0) return -1;
    if (end) return *first = at - text, *last = end - text, 1;
    int32_t code;
    at += blu_code_at(at, m.end, &code);
  }
  return 0;
}
