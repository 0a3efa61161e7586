/* ahead.c - a thread that reads the examples of the next step while this one runs, so that a step on mapped files waits
 * for no disk. It only touches their pages: what a step sees never depends on it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data_internal.h"

struct BluAhead {
  const BluData *data;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t given;
  int64_t *next, *current; /* [batch] */
  int64_t rows;            /* of `next`; 0: nothing to do, -1: end */
  volatile int64_t sink;   /* keeps the reads alive */
};

static void *work(void *argument) {
  BluAhead *ahead = argument;
  pthread_mutex_lock(&ahead->lock);
  for (;;) {
    while (!ahead->rows) pthread_cond_wait(&ahead->given, &ahead->lock);
    int64_t rows = ahead->rows;
    if (rows < 0) break;
    memcpy(ahead->current, ahead->next, (size_t)rows * sizeof *ahead->next);
    ahead->rows = 0;
    pthread_mutex_unlock(&ahead->lock);
    ahead->sink += ahead->data->source->touch(ahead->data->state, ahead->current, rows);
    pthread_mutex_lock(&ahead->lock);
  }
  pthread_mutex_unlock(&ahead->lock);
  return NULL;
}

BluAhead *blu_ahead_open(const BluData *data, int64_t batch) {
  if (!data->mapped || !data->source->touch) return NULL;
  BluAhead *ahead = blu_new(1, sizeof *ahead);
  ahead->data = data;
  ahead->next = blu_new(2 * batch, sizeof *ahead->next);
  ahead->current = ahead->next + batch;
  pthread_mutex_init(&ahead->lock, NULL);
  pthread_cond_init(&ahead->given, NULL);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, BLU_AHEAD_STACK);
  bool refused = pthread_create(&ahead->thread, &attributes, work, ahead);
  pthread_attr_destroy(&attributes);
  if (!refused) return ahead;
  free(ahead->next);
  free(ahead);
  return NULL;
}

void blu_ahead_give(BluAhead *ahead, const int64_t *index, int64_t rows) {
  if (!ahead || rows < 1) return;
  pthread_mutex_lock(&ahead->lock);
  memcpy(ahead->next, index, (size_t)rows * sizeof *index);
  ahead->rows = rows;
  pthread_cond_signal(&ahead->given);
  pthread_mutex_unlock(&ahead->lock);
}

void blu_ahead_close(BluAhead *ahead) {
  if (!ahead) return;
  pthread_mutex_lock(&ahead->lock);
  ahead->rows = -1;
  pthread_cond_signal(&ahead->given);
  pthread_mutex_unlock(&ahead->lock);
  pthread_join(ahead->thread, NULL);
  free(ahead->next);
  free(ahead);
}
