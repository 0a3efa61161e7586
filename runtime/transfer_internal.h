/* transfer_internal.h - parameters in files that other programs write and read: sets of named tensors, whatever holds them (weights.c,
 * llmc.c, peft.c), how they answer a program's (match.c), and adapters that go into the weights which they adapt (merge.c). */
#ifndef BLU_TRANSFER_INTERNAL_H
#define BLU_TRANSFER_INTERNAL_H
#include "data_internal.h"

/* --- weights.c: tensors in files ---------------------------------------------------------------------------------- */

typedef struct {
  BluSlot slot;     /* name; type and shape as a program would have them; offset: in the file; bytes */
  int64_t file;     /* which of the files */
  bool transposed;  /* a matrix that the file has as [dim[1], dim[0]] */
} BluWeight;

typedef struct {
  char *path;
  int fd;              /* -1: none */
  BluSafetensors table; /* owns names; empty for other formats */
} BluWeightFile;

typedef struct {
  const char *path; /* as given; borrowed */
  BluWeight *weight;
  int64_t weights;
  BluWeightFile *file;
  int64_t files;
  char *names;      /* owns the names that no table does */
  int64_t heads;    /* of attention; 0: the file doesn't say */
  bool adapter;     /* PEFT's files of an adapter are among them */
  double scale;     /* of its matrices' products */
} BluWeights;

/* Opens FILE.safetensors, FILE.index.json with the files that it names, a folder with model.safetensors or model.safetensors.index.json,
 * or llm.c's FILE.bin. After an error there is nothing to close. */
bool blu_weights_open(BluError *err, BluWeights *weights, const char *path);
void blu_weights_close(BluWeights *weights);
/* Adds the tensors of one more safetensors file, whose path it takes over. */
bool blu_weights_add(BluError *err, BluWeights *weights, char *path);
/* Copies bytes to `offset` of the arena, wherever it lies. */
bool blu_weights_put(BluError *err, const BluArena *arena, int64_t offset, const char *values, int64_t bytes);
/* Reads one tensor to `offset` of the arena, as dtype: of f32, bf16 and f16 each becomes the others. */
bool blu_weights_read(BluError *err, const BluWeights *weights, const BluWeight *weight, const BluArena *arena, int64_t offset, int32_t dtype);
/* Are the bytes of two tensors the same? */
bool blu_weights_equal(BluError *err, const BluWeights *weights, const BluWeight *a, const BluWeight *b, bool *equal);

/* --- match.c: which tensor of the files is which of the program ----------------------------------------------------- */

/* Are two names the same, but for a prefix `transformer.` or `model.`? */
bool blu_weights_same_name(const char *a, const char *b);
/* Fills from[program->tensors] with what each parameter and state of the model is read from, else NULL. Names agree as they are, or but for
 * a prefix `transformer.` or `model.`. A file may lack all adapters (blu_adapter_is), and PEFT's both matrices of some. It may hold, beside
 * what `ignore` matches (NULL: none), GPT-2's attention masks and an lm_head equal to the embedding that the program uses in its place;
 * `notes` gets a line for each kind of them. Error: all differences go to `faults`, a line each, and their numbers to `err`. */
bool blu_weights_match(BluError *err, const BluProgram *program, const BluWeights *weights, const char *ignore, const BluWeight **from,
                       FILE *notes, FILE *faults);

/* --- llmc.c: checkpoints of llm.c ---------------------------------------------------------------------------------- */

enum { BLU_LLMC_HEADER = 1024 }; /* bytes */

/* Makes the table of a file of `size` bytes from its header; its tensors have GPT-2's names and lie within the file. `path` is for
 * messages. weights->names is the caller's to free, as weights->weight is. */
bool blu_llmc_parse(BluError *err, BluWeights *weights, const char *path, const void *header, int64_t size);
/* Writes a program's parameters, which must be GPT-2's, as f32 (version 3) or bf16 (version 5), the vocabulary padded with zeros to a
 * multiple of 128. `heads`: 0, or what the program can't tell. */
bool blu_llmc_write(BluError *err, const char *path, const BluProgram *program, const BluArena *arena, int32_t dtype, int64_t heads);
/* Heads of attention that the caches of the program have; 0: it has none. */
int64_t blu_llmc_heads(const BluProgram *program);

/* --- adapters ------------------------------------------------------------------------------------------------------ */

/* What can be done with the adapters of a program; BluProgram.adapters, which is NULL where there are none. */
struct BluAdapters {
  /* Adds to every PATH.weight that has an adapter the product of its matrices times PATH.lora_scale, computed in double and rounded once;
   * what is left of the adapters is theirs. Error: one whose parts don't fit. *merged: how many. */
  bool (*merge)(BluError *err, const BluProgram *program, const BluArena *arena, int64_t *merged);
  /* Adds the tensors of PEFT's adapter_model.safetensors in `folder`, named and laid out as the program has them, and the scale that
   * adapter_config.json gives. Error: among others, a setting there that isn't understood. */
  bool (*open)(BluError *err, BluWeights *weights, const BluProgram *program, const char *folder);
  /* Puts that scale to each PATH.lora_scale that no file holds, also where PATH has no adapter in the files: its product is 0 at first. */
  bool (*put_scales)(BluError *err, const BluProgram *program, const BluWeights *weights, const BluWeight *const *from, const BluArena *arena);
  /* Writes the adapters to both files in `folder`, which it makes. They must have one rank and one scale. Names get the prefix
   * `transformer.` or `model.` if the program's embedding, wte or embed_tokens, has none. */
  bool (*write)(BluError *err, const BluProgram *program, const BluArena *arena, int32_t dtype, const char *folder);
};
extern const struct BluAdapters blu_adapters; /* peft.c; only programs with adapters contain it */

/* peft.c: the scale that the text of an adapter_config.json gives. Error: a setting there that isn't understood, or one that is missing. */
bool blu_peft_config(BluError *err, const char *path, const char *text, int64_t bytes, double *scale);

/* merge.c: one of them, as nn's LoRA modules name its parts. */
typedef struct {
  const BluSlot *a, *b, *scale, *weight; /* of the program */
  bool in_out;                           /* the weight is [in, out], A [in, r] and B [r, out]; else [out, in], [r, in] and [out, r] */
} BluAdapter;

bool blu_adapter_starts(const BluSlot *slot); /* is it a parameter PATH.lora_A? */
/* The adapter whose A this is. Error: its parts are not there, or don't fit. */
bool blu_adapter_find(BluError *err, const BluProgram *program, const BluSlot *a, BluAdapter *adapter);
bool blu_adapter_merge(BluError *err, const BluProgram *program, const BluArena *arena, int64_t *merged);

#endif
