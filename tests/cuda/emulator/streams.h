/* streams.h - streams, events and graphs of the emulated driver: what is asked for waits in queues until somebody waits for it. */
#ifndef BLU_TESTS_EMULATOR_STREAMS_H
#define BLU_TESTS_EMULATOR_STREAMS_H
#include "emulator.h"

typedef struct EmuStream EmuStream;
typedef struct EmuEvent EmuEvent;
typedef struct EmuGraph EmuGraph;

/* Work on a stream: takes a copy of `data`. */
typedef void EmuWork(const void *data);

EmuStream *emu_stream_open(void);
int emu_stream_close(EmuStream *s);
int emu_stream_add(EmuStream *s, EmuWork *work, const void *data, size_t bytes); /* a code of the driver's */
int emu_stream_wait(EmuStream *s);
int emu_stream_after(EmuStream *s, EmuEvent *e);
bool emu_stream_records(const EmuStream *s);

EmuEvent *emu_event_open(bool timed);
void emu_event_close(EmuEvent *e);
int emu_event_record(EmuEvent *e, EmuStream *s);
int emu_event_wait(EmuEvent *e);
int emu_event_time(float *milliseconds, const EmuEvent *from, const EmuEvent *to);

int emu_capture_begin(EmuStream *s);
int emu_capture_end(EmuStream *s, EmuGraph **graph);
EmuGraph *emu_graph_copy(const EmuGraph *g); /* of one that is to be launched */
int emu_graph_launch(EmuGraph *g, EmuStream *s);
void emu_graph_close(EmuGraph *g);

int64_t emu_streams_left_behind(char *text, size_t size);
#endif
