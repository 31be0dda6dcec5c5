/* Between queue.c, message.c and job.c. With the queue's mutex held, unless they say that they take it. */
#ifndef VGC_QUEUE_H
#define VGC_QUEUE_H

#include "internal.h"

void vgc_queue_take_completions(struct vgc_queue *queue);
/* One step of waiting: returns after a bounded spin or sleep and taking completions; false at the deadline.
 * *since_ns is 0 at the first step of a wait. The mutex is released meanwhile. */
bool vgc_queue_pause(struct vgc_queue *queue, uint64_t *since_ns, uint64_t deadline_ns);

/* Frees abandoned jobs that have ended. Takes the queue's mutex, and the heap's and the state's: so not with these. */
void vgc_queue_sweep(struct vgc_queue *queue);
/* vgc_job_release without the sweep, for a job whose staging memory is freed or was never there. Takes the mutex. */
void vgc_job_drop(struct vgc_job *job);

struct vgc_job *vgc_job_new(struct vgc_queue *queue);
void vgc_job_recycle(struct vgc_job *job);
/* Copies the response out of the slot, once, and checks it. */
void vgc_job_read_response(struct vgc_job *job, const uint8_t *slot, uint32_t used_len);

/* output.c: remembers that kernels printed, if the job's response says so. */
void vgc_output_notice(struct vgc_job *job);

#endif
