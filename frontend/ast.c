/* ast.c - words of the syntax tree. */
#include "ast.h"

const char *blu_operator_text(BluOperator op) {
  static const char *const text[] = {
      [BLU_OP_NEG] = "-",   [BLU_OP_NOT] = "not", [BLU_OP_ADD] = "+", [BLU_OP_SUB] = "-",    [BLU_OP_MUL] = "*",
      [BLU_OP_DIV] = "/",   [BLU_OP_MOD] = "%",   [BLU_OP_POW] = "^", [BLU_OP_MATMUL] = "@", [BLU_OP_EQ] = "==",
      [BLU_OP_NE] = "!=",   [BLU_OP_LT] = "<",    [BLU_OP_LE] = "<=", [BLU_OP_GT] = ">",     [BLU_OP_GE] = ">=",
      [BLU_OP_AND] = "and", [BLU_OP_OR] = "or",
  };
  return text[op];
}

const char *blu_decl_word(BluDeclKind k) {
  static const char *const word[] = {
    [BLU_DECL_ERROR] = "error", [BLU_DECL_IMPORT] = "import", [BLU_DECL_CONST] = "const", [BLU_DECL_RUN] = "run",
    [BLU_DECL_LET] = "let", [BLU_DECL_FN] = "fn", [BLU_DECL_MODULE] = "module", [BLU_DECL_OPTIMIZER] = "optimizer",
    [BLU_DECL_TRAIN] = "train", [BLU_DECL_ENTRY] = "entry",
  };
  return word[k];
}

const char *blu_member_word(BluMemberKind k) {
  static const char *const word[] = {
    [BLU_MEMBER_ERROR] = "error", [BLU_MEMBER_LET] = "let", [BLU_MEMBER_PARAM] = "param", [BLU_MEMBER_STATE] = "state",
    [BLU_MEMBER_CACHE] = "cache", [BLU_MEMBER_FN] = "fn",
  };
  return word[k];
}
