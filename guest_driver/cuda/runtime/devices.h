/* Devices of the VM, and copies between them. */
#ifndef VGC_CUDART_DEVICES_H
#define VGC_CUDART_DEVICES_H

#include "base.h"
/* ---- devices.c --------------------------------------------------------------------------------------------------- */

/* Progress of a stream, for cudaStreamQuery(). */
struct rt_state {
    _Atomic uint64_t work;   /* stamp of the last operation issued */
    uint64_t done;           /* all up to this stamp is done; this and the next two under the device's mutex */
    uint64_t asked;          /* `work` when `event` was recorded */
    struct vgc_event *event; /* NULL: never asked */
};

struct rt_device {
    int ordinal;
    pthread_mutex_t mutex;
    pthread_mutex_t settling;            /* from taking what went wrong to making it sticky */
    _Atomic(struct vgc_device *) device; /* NULL until it is used */
    struct vgc_info info;                /* valid with `device`, as `told` is */
    struct vgc_device_limits told;       /* what the device tells of itself */
    uint32_t epoch;                      /* +1 at every reset */
    _Atomic uint32_t contexts;           /* +1 whenever libvgc has a new context: also when the program goes on */
    _Atomic uint32_t sharing;            /* threads that are about to share memory with other processes */
    _Atomic bool has_lost_work;          /* not all that was sent was done, or its results did not come back */
    _Atomic bool has_told_loss;          /* a call has returned cudaErrorDevicesUnavailable, or will: lost.c */
    _Atomic(const char *) only_there;    /* what the device alone has, but for memory; NULL: nothing */
    _Atomic cudaError_t sticky;          /* ends with cudaDeviceReset() */
    _Atomic cudaError_t late;            /* of work that was put off, until the next synchronisation */
    unsigned flags;                      /* of cudaSetDeviceFlags() */
    size_t limits[8];                    /* of cudaDeviceSetLimit() */

    /* streams.c */
    _Atomic uint64_t stamp; /* +1 for each operation issued */
    _Atomic uint64_t done;  /* all operations up to this stamp are done */
    _Atomic uint32_t num_streams;
    struct CUstream_st *streams;    /* all but the default ones */
    struct CUstream_st *per_thread; /* those of cudaStreamPerThread, among `streams` */
    struct rt_queue *legacy_queue;  /* deferred.c */
    struct rt_state legacy_state;
    struct vgc_event *legacy_event; /* last recording in the legacy stream */
    _Atomic uint64_t legacy_turn;   /* +1 for work in the legacy stream behind work in others */
    bool legacy_recorded;           /* legacy_event stands for this turn */
    uint32_t users[RT_MAX_STREAMS]; /* streams that share a stream of the device */
};

enum { RT_SOFTWARE_GPU = 1 }; /* engine_kind of struct vgc_info */

int rt_device_count(void);
/* The calling thread's current device, ready for use: opened if it was not. The sticky error, if it has one. */
cudaError_t rt_current(struct rt_device **device);
/* Likewise, for a given ordinal. */
cudaError_t rt_device(int ordinal, struct rt_device **device);
/* The current device's ordinal; does not open it. */
int rt_ordinal(void);
/* Makes a device that exists the calling thread's current one; does not open it. */
void rt_set_ordinal(int ordinal);
/* This thread has made calls of the runtime that need a device. */
extern _Thread_local bool rt_has_called;
/* Devices that have been looked for; 0 before any is used. */
int rt_opened_devices(void);
/* The device without opening it; NULL if it does not exist. */
struct rt_device *rt_device_at(int ordinal);
/* Opens a device that exists once more, for the caller alone, who closes it. Returns libvgc's result. */
int rt_open_handle(int ordinal, struct vgc_device **opened);
/* Takes what went wrong in detached work: makes it the sticky error. Returns the sticky error. */
cudaError_t rt_settle(struct rt_device *device);
/* Makes an error sticky if it is one of those that CUDA cannot go on from. Returns it. */
cudaError_t rt_fault(struct rt_device *device, cudaError_t error);
/* The sticky error. If another thread is about to go on without what was lost, waits until it has. */
cudaError_t rt_sticky(struct rt_device *device);
/* Notes that the program was told of a loss: it cannot go on as if there had been none. */
void rt_note_loss_told(void);
/* Waits for all work of the device, then rt_settle(), and prints what kernels printed. */
cudaError_t rt_synchronize(struct rt_device *device);
/* Copies what kernels printed to standard output. */
void rt_print(struct rt_device *device);
/* Called by streams.c and others when the device is reset. */
void rt_streams_forget(struct rt_device *device);
/* Called when the program goes on with a new context: all work of streams is done. */
void rt_streams_renew(struct rt_device *device);
void rt_programs_forget(struct rt_device *device);
void rt_addresses_forget(struct rt_device *device);

/* ---- peers.c ----------------------------------------------------------------------------------------------------- */

/* Copies from one device to another, through this process's memory; waits for it. Sides are those of libvgc. */
cudaError_t rt_copy_peer(struct rt_device *to, const struct vgc_side *dst, struct rt_device *from,
                         const struct vgc_side *src, const size_t extent[3]);
/* Device that memory lies on; `otherwise` for what this runtime did not give out. */
struct rt_device *rt_device_of(const void *pointer, struct rt_device *otherwise);
/* A copy of one dimension that another device than the stream's has a part in; waits for it. */
cudaError_t rt_copy_apart(struct rt_device *device, void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                          uint32_t stream, bool to_device, bool from_device);
/* Waits for a stream of the device, then takes what went wrong. */
cudaError_t rt_wait_stream(struct rt_device *device, uint32_t number);

#endif
