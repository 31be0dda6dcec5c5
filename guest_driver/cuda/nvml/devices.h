/* Devices of the VM, and questions to the host about them. */
#pragma once
#include <stdbool.h>

#include "api.h"
#include "libvgc/vgc.h"

enum { NV_MAX_DEVICES = 32, NV_MAX_PROCESSES = 64 };

/* Answers of a device to all that it can be asked. */
struct nv_look {
    struct vgc_info info;
    struct vgc_device_limits limits;
    struct vgc_device_usage usage;
    struct vgc_process processes[NV_MAX_PROCESSES];
    size_t num_processes;
};

/* The engine's work up to a time, for utilization.c. */
struct nv_sample {
    uint64_t time_ns; /* 0: none was taken */
    uint64_t busy_ns;
    uint32_t generation;
};

struct nvmlDevice_st {
    unsigned index;
    char address[32];                /* PCI address; "" for a device of $VGC_MEMFD */
    bool is_known;                   /* `info` and `limits` have been read; under the mutex of devices.c */
    struct vgc_info info;            /* names and UUID do not change */
    struct vgc_device_limits limits; /* nor do properties of the hardware */
    struct nv_sample sample;         /* under the mutex of utilization.c, as is the next */
    unsigned percent;
};

/* Counts nvmlInit(); the first finds the devices. */
nvmlReturn_t nv_begin(bool needs_device);
nvmlReturn_t nv_end(void);
/* NVML_ERROR_UNINITIALIZED unless there is an nvmlInit() without its nvmlShutdown(). */
nvmlReturn_t nv_check(void);
/* Likewise, and NVML_ERROR_INVALID_ARGUMENT if it is no device's handle. */
nvmlReturn_t nv_check_device(const struct nvmlDevice_st *device);
unsigned nv_count(void);
/* NULL: there is no device of this index. */
struct nvmlDevice_st *nv_device_at(unsigned index);
/* Asks the host. A device is open, without a context, only while it is asked: it takes a queue of the VM, which
 * programs that compute need. */
nvmlReturn_t nv_look(const struct nvmlDevice_st *device, struct nv_look *look);
/* Has what does not change read once. Checks the handle first. */
nvmlReturn_t nv_know(struct nvmlDevice_st *device);
