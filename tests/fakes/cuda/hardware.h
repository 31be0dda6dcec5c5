/* Delays and limits of a real GPU and its driver, each enabled by a setting; see README.md. */
#ifndef FAKE_CUDA_HARDWARE_H
#define FAKE_CUDA_HARDWARE_H

#include <stdbool.h>

#include "abi.h"

struct fake_context;
struct fake_function;
struct fake_op;
struct fake_stream;

enum {
    FAKE_MAX_CONNECTIONS = 32,   /* maximum of CUDA_DEVICE_MAX_CONNECTIONS */
    FAKE_CONNECTIONS = 8,        /* default */
    FAKE_GREATEST_PRIORITY = -5, /* of GPUs since sm_70; the least is 0 */
    FAKE_PRIORITIES = 1 - FAKE_GREATEST_PRIORITY,
};

/* Settings of the process; 0: off. */
struct fake_hardware {
    int start_ms;              /* start time of the GPU if no process has it open */
    int slice_ms;              /* length of a process's turn on the GPU */
    int connections;           /* hardware queues that streams of a priority share; -1: as in the environment */
    int stack_growth;          /* a larger stack waits for all work of the context */
    int smid_base;             /* number of the first SM */
    int smid_stride;           /* difference of consecutive SMs' numbers; 0 means 1 */
    unsigned long starts;      /* starts of the GPU by this process */
    unsigned long turns;       /* turns of this process so far */
    unsigned long behind;      /* operations that waited for another stream's in their connection */
    unsigned long stack_waits; /* launches and cuCtxSetLimit that waited for a larger stack */
};

/* Applies a setting; false if it is not one of these. */
bool fake_hardware_set(struct fake_hardware *hardware, const char *key, const char *value);
/* Gets a count by name, for `fake_cuda_number`; false: unknown name. */
bool fake_hardware_number(const struct fake_hardware *hardware, const char *name, unsigned long *value);
unsigned int fake_smid(unsigned int index);

/* ---- node.c: the file in place of the GPU's device node; processes lock parts of it ---- */

enum fake_node_lock { FAKE_NODE_STARTING, FAKE_NODE_OPEN, FAKE_NODE_QUEUE, FAKE_NODE_TURN };

bool fake_node_open(void);
void fake_node_close(void);
/* Waits for the lock; except at the start, the caller must not hold the fake's lock. */
void fake_node_lock(enum fake_node_lock what);
void fake_node_unlock(enum fake_node_lock what);
/* Opens the GPU, and starts it if no other process has it open; false if the node cannot be opened. */
bool fake_gpu_open(void);

/* ---- turns.c: time slices; lock held. Without the setting these do nothing ---- */

void fake_turn_begin(void); /* waits for this process's turn, which `leave` or `end` ends */
void fake_turn_leave(void); /* lets the running operation be interrupted */
void fake_turn_enter(void); /* continues it in this process's next turn */
void fake_turn_end(void);
void fake_turns_end(void); /* waits until nothing requests turns */

/* ---- connections.c: lock held ---- */

/* Chooses the connection of a new stream. */
void fake_connection_assign(struct fake_stream *stream);
void fake_connection_join(struct fake_stream *stream, struct fake_op *op);
/* True if all operations before it in its connection have begun. */
bool fake_connection_is_first(const struct fake_op *op);
void fake_connection_leave(struct fake_op *op);

/* ---- stack.c: lock held ---- */

/* Grows the stacks for a function that is to be launched. */
CUresult fake_stack_fit(struct fake_context *context, const struct fake_function *function);
/* Sets the size of the threads' stacks. */
CUresult fake_stack_set(struct fake_context *context, size_t bytes);
/* Waits until nothing runs in a context, nor, if it is primary, in its green ones. */
CUresult fake_context_wait(struct fake_context *context);

#endif
