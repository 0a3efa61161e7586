/* peft.c - low-rank adapters as the library PEFT keeps them, a folder with two files. adapter_model.safetensors has
 * base_model.model.PATH.lora_A.weight [r, in] and base_model.model.PATH.lora_B.weight [out, r] for a layer PATH, whichever way its weight
 * lies. adapter_config.json says how the product counts: lora_alpha / r, or lora_alpha / sqrt(r) where use_rslora is set. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer/tokenizer_internal.h"
#include "transfer_internal.h"

static const char before[] = "base_model.model.", behind[] = ".weight", config_name[] = "adapter_config.json", model_name[] = "adapter_model.safetensors";

/* --- the configuration --- */

typedef struct {
  int64_t rank;    /* 0: not seen */
  double alpha;    /* NaN: not seen */
  bool root, lora; /* use_rslora; peft_type is LORA */
} Config;

/* Settings that say where an adapter came from, which layers were chosen, or how training went: its tensors have all of that. */
static bool says_nothing(const BluJsonNode *name) {
  static const char *const names[] = {"auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "eva_config", "exclude_modules", "fan_in_fan_out",
                                      "inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "peft_version",
                                      "qalora_group_size", "revision", "runtime_config", "target_modules", "task_type"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (blu_json_is(name, names[i])) return true;
  return false;
}

static bool is_off(const BluJsonNode *value) {
  bool list = value->kind == BLU_JSON_ARRAY || value->kind == BLU_JSON_OBJECT;
  return value->kind == BLU_JSON_NULL || value->kind == BLU_JSON_FALSE || (list && !value->count);
}

static bool read_number(const BluJsonNode *value, double *number) {
  char text[40];
  if (value->kind != BLU_JSON_NUMBER || value->bytes >= (int64_t)sizeof text) return false;
  memcpy(text, value->text, (size_t)value->bytes);
  text[value->bytes] = 0;
  return blu_text_double(text, number);
}

/* One setting; false: it has a value that isn't understood. */
static bool read_setting(Config *c, const BluJsonNode *name, const BluJsonNode *value) {
  bool flag = value->kind == BLU_JSON_TRUE || value->kind == BLU_JSON_FALSE;
  if (blu_json_is(name, "peft_type")) return c->lora = blu_json_is(value, "LORA");
  if (blu_json_is(name, "r")) return blu_json_int(value, &c->rank) && c->rank > 0;
  if (blu_json_is(name, "lora_alpha")) return read_number(value, &c->alpha);
  if (blu_json_is(name, "use_rslora")) return c->root = value->kind == BLU_JSON_TRUE, flag;
  if (blu_json_is(name, "bias")) return blu_json_is(value, "none");
  if (blu_json_is(name, "init_lora_weights")) /* others begin by changing the model itself */
    return flag || blu_json_is(value, "gaussian") || blu_json_is(value, "orthogonal") || blu_json_is(value, "eva");
  return says_nothing(name) || is_off(value);
}

bool blu_peft_config(BluError *err, const char *path, const char *text, int64_t bytes, double *scale) {
  BluJson json;
  Config c = {.alpha = NAN};
  if (!blu_json_parse(err, &json, path, text, bytes)) return false;
  bool good = json.node[0].kind == BLU_JSON_OBJECT || blu_error_set(err, "%s: not a configuration of an adapter: not an object", path);
  const BluJsonNode *name = blu_json_child(json.node);
  for (int64_t i = 0; good && i < json.node[0].count; i++) {
    const BluJsonNode *value = blu_json_next(&json, name);
    good = read_setting(&c, name, value) || blu_error_set(err, "%s: this value of '%.100s' is not understood", path, name->text);
    name = blu_json_next(&json, value);
  }
  if (good && (!c.lora || !c.rank || isnan(c.alpha)))
    good = blu_error_set(err, "%s: not a configuration of a LoRA adapter: it lacks %s", path, !c.lora ? "peft_type" : !c.rank ? "r" : "lora_alpha");
  *scale = c.alpha / (c.root ? sqrt((double)c.rank) : (double)c.rank);
  blu_json_free(&json);
  return good;
}

/* --- reading --- */

/* base_model.model.PATH.lora_A.weight becomes PATH.lora_A, in the table's own memory; other names stay, and answer no tensor. */
static void rename_tensor(BluWeight *weight, BluSafetensors *table) {
  char *name = table->names + (weight->slot.name - table->names);
  size_t length = strlen(name), start = strlen(before), end = strlen(behind);
  if (length < start + end || strncmp(name, before, start) || strcmp(name + length - end, behind)) return;
  name[length - end] = 0;
  if (blu_text_ends(name + start, ".lora_A") || blu_text_ends(name + start, ".lora_B")) weight->slot.name = name + start;
  else name[length - end] = behind[0];
}

/* The program has this adapter's matrices the other way round. */
static void turn(BluWeight *weight, const BluAdapter *adapter) {
  bool is = blu_weights_same_name(weight->slot.name, adapter->a->name) || blu_weights_same_name(weight->slot.name, adapter->b->name);
  if (!is || weight->slot.rank != 2) return;
  int64_t rows = weight->slot.dim[0];
  weight->slot.dim[0] = weight->slot.dim[1], weight->slot.dim[1] = rows;
  weight->transposed = true;
}

static bool open_folder(BluError *err, BluWeights *w, const BluProgram *program, const char *folder) {
  char *config = blu_text_path(folder, config_name), *text = blu_file_text(err, config);
  int64_t first = w->weights;
  bool good = text && blu_peft_config(err, config, text, (int64_t)strlen(text), &w->scale) && blu_weights_add(err, w, blu_text_path(folder, model_name));
  for (int64_t i = first; good && i < w->weights; i++) rename_tensor(&w->weight[i], &w->file[w->files - 1].table);
  for (int64_t i = 0; good && i < program->tensors; i++) {
    BluAdapter adapter;
    if (!blu_adapter_starts(&program->tensor[i])) continue;
    good = blu_adapter_find(err, program, &program->tensor[i], &adapter);
    for (int64_t k = first; good && adapter.in_out && k < w->weights; k++) turn(&w->weight[k], &adapter);
  }
  w->adapter = true;
  free(text);
  free(config);
  return good;
}

static bool put_scales(BluError *err, const BluProgram *program, const BluWeights *w, const BluWeight *const *from, const BluArena *arena) {
  bool good = true;
  for (int64_t i = 0; good && w->adapter && i < program->tensors; i++) {
    BluAdapter adapter;
    if (!blu_adapter_starts(&program->tensor[i])) continue;
    good = blu_adapter_find(err, program, &program->tensor[i], &adapter);
    if (!good || from[adapter.scale - program->tensor]) continue;
    char value[8];
    blu_raw_convert(&w->scale, BLU_RAW_F64, 1, value, adapter.scale->dtype, 0);
    good = blu_weights_put(err, arena, adapter.scale->offset, value, blu_dtype_bytes(adapter.scale->dtype));
  }
  return good;
}

/* --- writing --- */

typedef struct {
  const BluProgram *program;
  const BluArena *arena;
  BluAdapter *adapter;
  int64_t adapters, rank;
  double scale;
  const char *family; /* what Hugging Face's class for text puts before the names that the program has */
} Writer;

static bool has_tensor(const BluProgram *program, const char *name) {
  for (int64_t i = 0; i < program->tensors; i++)
    if (!strcmp(program->tensor[i].name, name)) return true;
  return false;
}

static double scale_of(const Writer *w, const BluAdapter *adapter) {
  double scale;
  blu_raw_convert(w->arena->base + adapter->scale->offset, blu_raw_of(adapter->scale->dtype), 1, &scale, BLU_DTYPE_F64, 0);
  return scale;
}

static int path_length(const BluAdapter *adapter) { return (int)(strlen(adapter->a->name) - strlen(BLU_ADAPTER_FIRST)); }

/* All adapters of the program, which must have one rank and one scale, as a configuration has. */
static bool collect(BluError *err, Writer *w) {
  const BluProgram *program = w->program;
  w->adapter = blu_new(program->tensors + 1, sizeof *w->adapter);
  w->family = has_tensor(program, "wte.weight") ? "transformer." : has_tensor(program, "embed_tokens.weight") ? "model." : "";
  for (int64_t i = 0; i < program->tensors; i++) {
    BluAdapter *adapter = &w->adapter[w->adapters];
    if (!blu_adapter_starts(&program->tensor[i])) continue;
    if (!blu_adapter_find(err, program, &program->tensor[i], adapter)) return false;
    int64_t rank = adapter->in_out ? adapter->b->dim[0] : adapter->a->dim[0];
    double scale = scale_of(w, adapter);
    if (!w->adapters) w->rank = rank, w->scale = scale;
    if (rank != w->rank || !(scale == w->scale))
      return blu_error_set(err, "--format peft: a file has one rank and one scale, but those of %.*s are %" PRId64 " and %g, those of %.*s %" PRId64
                           " and %g", path_length(adapter), adapter->a->name, rank, scale, path_length(w->adapter), w->adapter->a->name, w->rank, w->scale);
    w->adapters++;
  }
  return true;
}

/* Copies one matrix to `to` as PEFT has it, and describes it. */
static void copy_matrix(const Writer *w, const BluAdapter *adapter, bool second, char *to, BluSlot *slot) {
  const BluSlot *from = second ? adapter->b : adapter->a;
  int64_t rows = from->dim[0], columns = from->dim[1], wide = blu_dtype_bytes(from->dtype);
  const char *values = w->arena->base + from->offset;
  *slot = *from;
  slot->name = blu_text_print("%s%s%.*s.lora_%c%s", before, w->family, path_length(adapter), adapter->a->name, second ? 'B' : 'A', behind);
  if (!adapter->in_out) {
    memcpy(to, values, (size_t)(rows * columns * wide));
    return;
  }
  slot->dim[0] = columns, slot->dim[1] = rows;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) memcpy(to + (j * rows + i) * wide, values + (i * columns + j) * wide, (size_t)wide);
}

static bool write_model(BluError *err, const Writer *w, const char *path, int32_t dtype) {
  int64_t bytes = 0;
  BluSlot *slot = blu_new(2 * w->adapters, sizeof *slot);
  for (int64_t i = 0; i < 2 * w->adapters; i++) {
    const BluSlot *part = i % 2 ? w->adapter[i / 2].b : w->adapter[i / 2].a;
    bytes += blu_slot_count(part) * blu_dtype_bytes(part->dtype);
  }
  BluArena arena = {.base = blu_new(bytes + 1, 1)};
  BluProgram program = {.tensor = slot, .tensors = 2 * w->adapters};
  for (int64_t i = 0, at = 0; i < program.tensors; i++) {
    copy_matrix(w, &w->adapter[i / 2], i % 2, arena.base + at, &slot[i]);
    slot[i].offset = at;
    at += blu_slot_count(&slot[i]) * blu_dtype_bytes(slot[i].dtype);
  }
  bool good = blu_safetensors_write(err, path, &program, BLU_PICK_MODEL, dtype, &arena);
  for (int64_t i = 0; i < program.tensors; i++) free((char *)(uintptr_t)slot[i].name);
  free(arena.base);
  free(slot);
  return good;
}

static bool write_config(BluError *err, const Writer *w, const char *path) {
  char *text = NULL;
  size_t bytes;
  int fd;
  bool in_out = false;
  FILE *file = open_memstream(&text, &bytes);
  blu_need(file);
  for (int64_t i = 0; i < w->adapters; i++) in_out |= w->adapter[i].in_out;
  fprintf(file, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": null,\n  \"base_model_name_or_path\": null,\n  \"inference_mode\": true,\n");
  fprintf(file, "  \"r\": %" PRId64 ",\n  \"lora_alpha\": %.9g,\n  \"use_rslora\": false,\n", w->rank, (double)(float)(w->scale * (double)w->rank));
  fprintf(file, "  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"target_modules\": [", in_out ? "true" : "false");
  for (int64_t i = 0; i < w->adapters; i++)
    fprintf(file, "%s\n    \"%s%.*s\"", i ? "," : "", w->family, path_length(&w->adapter[i]), w->adapter[i].a->name);
  fprintf(file, "\n  ]\n}\n");
  fclose(file);
  bool good = blu_file_create(err, path, &fd);
  if (good) {
    good = blu_file_write(err, fd, path, text, (int64_t)bytes);
    if (good) good = blu_file_close(err, fd, path);
    else close(fd);
  }
  free(text);
  return good;
}

static bool move(BluError *err, const char *from, const char *to) {
  return !rename(from, to) || blu_error_set(err, "cannot rename %s to %s: %s", from, to, strerror(errno));
}

static bool write_folder(BluError *err, const BluProgram *program, const BluArena *arena, int32_t dtype, const char *folder) {
  Writer w = {.program = program, .arena = arena};
  char *config = blu_text_path(folder, config_name), *model = blu_text_path(folder, model_name);
  char *new_config = blu_text_print("%s.tmp", config), *new_model = blu_text_print("%s.tmp", model);
  bool good = collect(err, &w) && blu_file_folder(err, folder);
  bool written = good && write_model(err, &w, new_model, dtype) && write_config(err, &w, new_config);
  bool moved = written && move(err, new_model, model) && move(err, new_config, config);
  if (good && !moved) unlink(new_config), unlink(new_model);
  free(w.adapter);
  free(new_config), free(new_model);
  free(config), free(model);
  return moved;
}

const struct BluAdapters blu_adapters = {.merge = blu_adapter_merge, .open = open_folder, .put_scales = put_scales, .write = write_folder};
