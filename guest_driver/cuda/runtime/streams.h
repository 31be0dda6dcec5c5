/* Streams, events, and work that is put off. */
#ifndef VGC_CUDART_STREAMS_H
#define VGC_CUDART_STREAMS_H

#include "devices.h"
#include "graphs.h"
/* ---- streams.c --------------------------------------------------------------------------------------------------- */

struct CUstream_st {
    uint64_t magic;
    struct CUstream_st *next;
    struct rt_device *device;
    uint32_t epoch;
    uint32_t number; /* of the device's stream */
    unsigned flags;
    int priority;
    unsigned long long id;
    pthread_t thread;             /* of cudaStreamPerThread */
    _Atomic bool dirty;           /* has work that the legacy stream has not waited for */
    _Atomic uint64_t legacy_turn; /* last of the device's that this stream has waited for */
    struct vgc_event *event;      /* for the legacy stream to wait for */
    struct rt_queue *queue;       /* deferred.c */
    struct rt_state state;
    unsigned long long capture; /* its id; 0: none. With `tail`, for capture.c */
    struct rt_tail tail;
    enum cudaSynchronizationPolicy policy; /* of cudaStreamSetAttribute(); stored */
    struct cudaAccessPolicyWindow window;
};

/* The device's stream number for work that is about to be sent in `stream`, after what the order of the legacy default
 * stream asks for. */
cudaError_t rt_enter_stream(struct rt_device *device, cudaStream_t stream, uint32_t *number);
/* The stream, checked; NULL for the legacy one. */
cudaError_t rt_check_stream(struct rt_device *device, cudaStream_t stream, struct CUstream_st **checked);
/* Likewise, for a stream that was checked. */
cudaError_t rt_enter(struct rt_device *device, struct CUstream_st *stream, uint32_t *number);
/* Work in the legacy stream waits for blocking streams. */
cudaError_t rt_enter_legacy(struct rt_device *device);
int rt_clamp_priority(int priority);
/* Notes that all work of the stream up to a stamp is done. */
void rt_note_done(struct rt_device *device, struct CUstream_st *stream, uint64_t stamp);
/* To be called when the operation of rt_enter() has been issued: other threads may have entered meanwhile. */
void rt_leave(struct rt_device *device, struct CUstream_st *stream);
/* Takes a stream that has no work put off out of use, and frees it. */
void rt_close_stream(struct CUstream_st *stream);
/* Default streams of the calls that this thread makes are its own: set by the functions of per_thread.c. */
extern _Thread_local bool rt_default_is_per_thread;

/* ---- deferred.c: functions of the host in streams, and the work behind them -------------------------------------- */

/* Streams with work that is put off, and captures: while it is 0, work is issued without further questions. */
extern _Atomic uint32_t rt_num_special;
/* This thread is calling a function for a stream. */
extern _Thread_local bool rt_is_called_back;

/* Issues the operation, or puts it off until what it must follow has been issued. `stream` is NULL for the legacy
 * one. */
cudaError_t rt_issue_in_order(struct rt_device *device, struct CUstream_st *stream,
                              const struct rt_operation *operation);
/* Waits until all that was put off in the stream has been issued. */
void rt_drain_stream(struct rt_device *device, struct CUstream_st *stream);
void rt_drain_device(struct rt_device *device);
/* Is work put off in the stream? */
bool rt_is_put_off(struct rt_device *device, struct CUstream_st *stream);
/* Closes the stream behind the work that is put off in it. False: nothing is put off. */
bool rt_close_later(struct CUstream_st *stream);
/* The event's latest recording is put off. */
bool rt_event_is_put_off(cudaEvent_t event);
void rt_drain_event(cudaEvent_t event);

/* ---- events.c ---------------------------------------------------------------------------------------------------- */

struct CUevent_st {
    uint64_t magic;
    struct rt_device *device;
    uint32_t epoch;
    unsigned flags;
    pthread_mutex_t mutex; /* of `event`, which libvgc does not lock */
    struct vgc_event *event;
    uint32_t contexts; /* of `event` */
    bool is_recorded;
    bool is_shared;             /* with other processes, which may have recorded it */
    _Atomic uint32_t users;     /* the program, and operations that are put off */
    unsigned long long capture; /* that it was last recorded in, or 0. With `tail`, for capture.c */
    struct rt_tail tail;
    uint64_t wanted; /* recordings put off, and those of them issued: deferred.c */
    uint64_t issued;
};

cudaError_t rt_check_event(cudaEvent_t event);
/* A new event of the program's that is `event` on the device. */
cudaError_t rt_event_of(struct rt_device *device, struct vgc_event *event, unsigned flags, cudaEvent_t *made);
void rt_hold_event(cudaEvent_t event);
void rt_drop_event(cudaEvent_t event);

#endif
