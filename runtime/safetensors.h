/* safetensors.h - files of named tensors, and errors: what the compiler uses of the runtime, which embeds such a file in a trainer. */
#ifndef BLU_RUNTIME_SAFETENSORS_H
#define BLU_RUNTIME_SAFETENSORS_H
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* --- text.c: errors ----------------------------------------------------------------------------------------------- */

typedef struct BluError {
  char text[2000]; /* what went wrong, without a final newline */
} BluError;

/* Fills `err` and returns false, so that a caller can `return blu_error_set(...)`. */
bool blu_error_set(BluError *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to `err`; what doesn't fit is cut. */
void blu_error_add(BluError *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- safetensors.c ------------------------------------------------------------------------------------------------ */

#define BLU_SAFETENSORS_HEADER_MAX 100000000 /* bytes */

/* Which tensors of a program. A state of the optimizer is named PARAMETER:STATE; one of the model has no colon. */
typedef enum {
  BLU_PICK_PARAMS,
  BLU_PICK_STATES,       /* of optimizer and model */
  BLU_PICK_MODEL_STATES,
  BLU_PICK_MODEL,        /* parameters and states of the model: what it takes to run it */
  BLU_PICK_BASE          /* these without adapters */
} BluPick;

/* Is it a tensor of an adapter, PATH.lora_A, PATH.lora_B or PATH.lora_scale (nn.LoRALinear and its likes)? */
bool blu_adapter_is(const char *name);
bool blu_slot_picked(const BluSlot *slot, BluPick pick);
enum { BLU_DTYPE_AS_IT_IS = -1 };
/* Writes the picked tensors to a new file and syncs it; parameters of f32, bf16 or f16 as dtype. The bytes depend on names, types and
 * values alone. */
bool blu_safetensors_write(BluError *err, const char *path, const BluProgram *program, BluPick pick, int32_t dtype, const char *arena);

typedef struct {
  BluSlot *tensor;   /* name, dtype, rank, dim; offset from the start of the file's data; bytes. In order of offset. */
  int64_t tensors;
  int64_t data_start; /* in the file */
  char *names;        /* owns the names */
} BluSafetensors;

/* Parses a header of `bytes` bytes before `data_bytes` of data, strictly: every tensor of a known type, its shape
 * filling its span, the spans covering the data without hole or overlap. `path` is for messages. */
bool blu_safetensors_parse(BluError *err, BluSafetensors *file, const char *path, const char *header, int64_t bytes,
                           int64_t data_bytes);
/* Opens the file for reading: *fd is the caller's to close. */
bool blu_safetensors_open(BluError *err, BluSafetensors *file, const char *path, int *fd);
void blu_safetensors_close(BluSafetensors *file);
const BluSlot *blu_safetensors_find(const BluSafetensors *file, const char *name); /* NULL if there is none */
/* Adds a line to `err` for each picked tensor that differs between program and file, a few of them named, and returns how many do. Only
 * where states of the model are picked may the file hold more. `holder` is what the file is called: "the checkpoint". */
int64_t blu_safetensors_differences(BluError *err, const BluProgram *program, BluPick pick, const BluSafetensors *file, const char *holder);

/* The index of a checkpoint in several files: {"metadata": {...}, "weight_map": {"NAME": "FILE", ...}}. */
typedef struct {
  const char *name, *file;
} BluPlacement;

typedef struct {
  BluPlacement *place; /* in order of names, each once */
  int64_t places;
  char *names;         /* owns names and files */
} BluSafetensorsIndex;

bool blu_safetensors_index(BluError *err, BluSafetensorsIndex *index, const char *path, const char *text, int64_t bytes);
void blu_safetensors_index_close(BluSafetensorsIndex *index);

#endif
