/* The process that the runtime is in: its children, other copies of the runtime, shadow mode. */
#ifndef VGC_CUDART_PROCESS_H
#define VGC_CUDART_PROCESS_H

#include "base.h"
/* ---- fork.c ------------------------------------------------------------------------------------------------------ */

/* True in a child of a process that had opened a device: nothing may be touched there. */
extern bool rt_is_forked;
/* To be called when a device is opened. */
void rt_watch_forks(void);

/* ---- cancel.c ---------------------------------------------------------------------------------------------------- */

/* Waits like pthread_cond_wait(); pthread_cancel() does not end it. */
void rt_wait(pthread_cond_t *changed, pthread_mutex_t *mutex);

/* ---- mixed.c ----------------------------------------------------------------------------------------------------- */

/* Says on standard error, once, if NVIDIA's libcudart is loaded, too. */
void rt_look_for_others(void);
/* Likewise, if the library that `caller` is an address of has NVIDIA's runtime inside. */
void rt_tell_of_runtime_in(const void *caller);

/* ---- shadow.c: copies for `vgc shadow` --------------------------------------------------------------------------- */

bool rt_is_shadowed(void);
/* Has a kernel been launched since this was asked with the same `seen`? */
bool rt_shadow_is_due(uint64_t *seen);
void rt_shadow_launched(const char *name);
/* A copy from the device has ended: its bytes are at `host`. */
void rt_shadow_copied(const void *host, size_t size);

/* ---- sharing.c: memory and events of other processes ------------------------------------------------------------- */

/* Is a thread about to share memory of the device? Shared memory stays there. */
bool rt_is_sharing(const struct rt_device *device);
/* Can processes share events of the device? */
bool rt_has_shared_events(const struct rt_device *device);

/* ---- handles.c --------------------------------------------------------------------------------------------------- */

/* Memory of a handle, zeros; it begins with a `magic` that is not 0 while the handle lives. NULL: no memory. */
void *rt_handle_new(size_t size);
/* Takes the magic of a handle that is to be destroyed. False: another thread has done so. */
bool rt_handle_end(uint64_t *magic);
/* The handle is one no more; its memory stays readable, and its magic is 0. */
void rt_handle_free(void *handle, size_t size);

#endif
