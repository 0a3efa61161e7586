/* device.h - what a program's tensors lie in, and what runs its launches: memory and threads of the host, or a device behind a driver.
 *
 * `base` is memory of the host. Without a driver it is the arena itself. With one the arena is the device's, and base mirrors it where the
 * host takes part: numbers of the run, DATA and INPUT lie at their offsets; the rest is never touched, and takes no memory. Behind the
 * arena lies room for a copy of the model's own state (blu_program_undo_bytes).
 * What fails says why in `err`; after that the device is of no more use. */
#ifndef BLU_RUNTIME_DEVICE_H
#define BLU_RUNTIME_DEVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "abi.h"
#include "safetensors.h"

typedef struct BluDriver BluDriver;
typedef struct BluPool BluPool;
typedef struct BluProfile BluProfile;

struct BluArena {
  char *base;            /* 2 MB-aligned, zeroed; resident unless it mirrors a device's */
  char *scratch;         /* of thread 0; that of thread t is t * scratch_stride further */
  int64_t scratch_stride;
  void *map;             /* of mmap */
  size_t map_bytes;
  int64_t loop_offsets, frame_offset; /* of the program */
  const BluDriver *driver; /* NULL: the host */
  void *device;          /* the driver's */
};

/* What a run on a device is told. */
typedef struct {
  int64_t number; /* which device of those that the system shows to this process, from 0; -1: not given */
  bool epilogues; /* a library may compute more beside products than has been measured to be good (option --epilogues) */
} BluDeviceWish;

/* One kind of device. Members are what the functions below say; each may be called only between open and close. */
struct BluDriver {
  bool (*open)(BluError *err, BluArena *arena, const BluProgram *program, const BluDeviceWish *wish);
  void (*close)(BluArena *arena);
  const char *(*look)(BluError *err, const BluArena *arena, int64_t offset, int64_t *bytes);
  char *(*place)(const BluArena *arena, int64_t offset, int64_t *bytes);
  bool (*put)(BluError *err, const BluArena *arena, int64_t offset, const char *from, int64_t bytes);
  bool (*copy)(BluError *err, const BluArena *arena, int64_t to, int64_t from, int64_t bytes);
  bool (*clear)(BluError *err, const BluArena *arena, int64_t offset, int64_t bytes);
  bool (*ready)(BluError *err, const BluArena *arena);
  bool (*send)(BluError *err, const BluArena *arena, const BluFunction *function);
  bool (*run)(BluError *err, const BluArena *arena, BluProfile *profile, const BluFunction *function, int64_t first, int64_t last);
  bool (*wait)(BluError *err, const BluArena *arena);
  const char *(*result)(const BluArena *arena, const BluSlot *slot);
  void (*print_settings)(FILE *file, const BluArena *arena);
  void (*compare_settings)(BluError *warning, const BluArena *arena, const char *text);
  void (*print_info)(FILE *file, const BluProgram *program, const BluDeviceWish *wish);
};

/* The driver that this runtime has; NULL in trainers for the processor alone. */
extern const BluDriver *const blu_device_driver;

/* Opens the device for a program that has code for one; else there is nothing to do. blu_device_close is fine for both, and twice. */
bool blu_device_open(BluError *err, BluArena *arena, const BluProgram *program, const BluDeviceWish *wish);
void blu_device_close(BluArena *arena);

/* --- tensors, for files --- */

/* The bytes of the arena from `offset` on; *bytes is lowered to how many are seen at once. Valid until the next call. NULL: an error. */
const char *blu_device_look(BluError *err, const BluArena *arena, int64_t offset, int64_t *bytes);
/* Where the host puts bytes that are for `offset`, as many as *bytes then says, before it calls put with that place. */
char *blu_device_place(const BluArena *arena, int64_t offset, int64_t *bytes);
bool blu_device_put(BluError *err, const BluArena *arena, int64_t offset, const char *from, int64_t bytes);

/* --- running: in the order of the calls --- */

/* Copies within the arena and the room behind it; no overlap. */
bool blu_device_copy(BluError *err, const BluArena *arena, int64_t to, int64_t from, int64_t bytes);
bool blu_device_clear(BluError *err, const BluArena *arena, int64_t offset, int64_t bytes); /* fills with zeros */
/* Waits until the host may write DATA again that it has sent. */
bool blu_device_ready(BluError *err, const BluArena *arena);
/* Sends the DATA that the host has put into the mirror; the next run of the function takes it. Doesn't wait. */
bool blu_device_send(BluError *err, const BluArena *arena, const BluFunction *function);
/* Runs the launches [first, last) of the function, with the numbers of the run as the host has them now. A device doesn't wait for their end. */
bool blu_device_run(BluError *err, const BluArena *arena, BluPool *pool, BluProfile *profile, const BluFunction *function, int64_t first,
                    int64_t last);
/* Waits for the end of the last run. */
bool blu_device_wait(BluError *err, const BluArena *arena);
/* A result of one number of the last run of its function, which was waited for. It isn't in the mirror: there its place may hold the next batch. */
const char *blu_device_result(const BluArena *arena, const BluSlot *slot);

/* What a checkpoint says of the device, as "key=value" lines. */
void blu_device_print_settings(FILE *file, const BluArena *arena);
/* `warning` is "" or says how the device of a checkpoint's text differs from this one, so that equal bits are not promised. */
void blu_device_compare_settings(BluError *warning, const BluArena *arena, const char *text);
#endif
