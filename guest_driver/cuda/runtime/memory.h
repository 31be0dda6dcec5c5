/* Memory of devices, of the host, and of both. */
#ifndef VGC_CUDART_MEMORY_H
#define VGC_CUDART_MEMORY_H

#include "base.h"
/* ---- addresses.c: device memory of this process ------------------------------------------------------------------ */

enum rt_memory_kind { RT_DEVICE_MEMORY, RT_VARIABLE_MEMORY, RT_HOST_MEMORY, RT_MANAGED_MEMORY };

struct rt_range {
    uint64_t begin;
    uint64_t size;
    enum rt_memory_kind kind;
    struct rt_device *device;
    unsigned flags;
    bool is_reserved; /* in this process's address space, too */
    bool is_spare;    /* the process's own, in place of device memory: spare.c */
    bool is_kept;     /* likewise, in a block that has outlived the device's memory: lost.c */
    bool is_shared;   /* other processes may use it, too: process/sharing.c */
    uint32_t opened;  /* times that this process has opened it, of another process; 0: its own */
    void *owner;      /* NULL, or what knows more: struct rt_block, rt_piece, rt_mirror, rt_variable */
};

/* False: this runtime did not give out the address. */
bool rt_find_range(const void *pointer, struct rt_range *range);
cudaError_t rt_add_range(const struct rt_range *range);
bool rt_remove_range(uint64_t begin, struct rt_range *removed);
/* A variable of a program has an address on the device from now on, until its unit goes. */
cudaError_t rt_add_variable(struct rt_device *device, struct rt_variable *variable, uint64_t address);
void rt_remove_variables(const struct rt_unit *unit);
/* Calls `visit` for each range, which it may change but for its place, until it returns false; then false, too. It must
 * not call what is here. */
bool rt_visit_ranges(bool (*visit)(struct rt_range *range, void *data), void *data);
/* Takes the addresses out of use in this process. False: something of this process lies there. */
bool rt_reserve(uint64_t address, uint64_t size);
void rt_release(uint64_t address, uint64_t size);
/* Can the process have all device memory at its addresses, and does it belong to no other process? */
bool rt_is_all_reserved(const struct rt_device *device);

struct rt_cluster { /* allocations of a device that share pages */
    uint64_t begin; /* whole pages */
    uint64_t end;
    struct rt_range *ranges; /* to be freed */
    size_t num_ranges;
};

/* The allocations of the device around an address. False: it is in none. */
bool rt_find_cluster(const void *pointer, struct rt_cluster *cluster);

/* ---- adopted.c: device memory that CPU versions of kernels use --------------------------------------------------- */

/* Lets the host have the allocation at `address`, in whose pages nothing can be accessed. False: no allocation is
 * there. */
bool rt_managed_adopt(const void *address);
/* Gives all such memory back to the device. */
cudaError_t rt_adopted_release(struct rt_device *device);
/* Likewise, when the device's side is gone already. */
void rt_adopted_forget(struct rt_device *device);
/* With managed memory's lock: what lost.c has made the process's own is adopted no more; gives up all other. */
void rt_adopted_keep(struct rt_device *device);

/* ---- spare.c: memory of the process in place of the device's, with VGC_FALLBACK=cpu ------------------------------ */

/* Is $VGC_FALLBACK "cpu", and has the program kernels that can do with it? */
bool rt_falls_back(void);
/* Says once, on standard error, what is done without the device. */
void rt_tell_fallback(const char *why);
/* Device memory as of rt_allocate(), or the process's if the device has no more. */
cudaError_t rt_allocate_anywhere(struct rt_device *device, size_t size, void **pointer);
/* Pages of the process, for use in place of the device's. NULL: the program does not fall back, or the guest has no
 * memory. */
void *rt_spare_map(size_t size);
void rt_spare_unmap(void *memory, size_t size);
/* Notes that memory has become such: rt_spare_unmap() is called for it once. */
void rt_spare_note(void);
/* If a program that falls back has this error for lack of memory: names, on standard error, what must be the device's.
 */
void rt_tell_no_fallback(cudaError_t error, const char *what);
bool rt_has_spare(void);
bool rt_is_spare(const void *pointer);
/* To be called before a kernel is sent to the device: an error if it is given such memory. */
cudaError_t rt_check_spare(const struct rt_launch *launch);

/* ---- lost.c: going on without a device's memory that was lost, with VGC_FALLBACK=cpu ------------------------------
 */

/* To be called when work has failed with cudaErrorDevicesUnavailable; `contexts` are the device's before the work was
 * sent. If all that was sent before is done, and all data are in this process, too: makes these the process's own, and
 * the device usable again. Then true: the work may be sent again. */
bool rt_go_on(struct rt_device *device, uint32_t contexts);
/* Frees such memory. */
void rt_free_kept(const struct rt_range *range);

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* Device memory whose addresses are reserved, and known to rt_find_range(). */
cudaError_t rt_allocate(struct rt_device *device, size_t size, void **pointer);
cudaError_t rt_free(const struct rt_range *range);
/* Does the pointer lie in device memory? For an address that this runtime does not know, `otherwise`. */
bool rt_is_device_pointer(const void *pointer, bool otherwise);
/* Checks a copy, and finds which of its sides are on a device. */
cudaError_t rt_check_copy(const struct rt_copy *copy, bool *to_device, bool *from_device);
/* One copy in a stream of the device, `kind` as in cudaMemcpy(). Waits for it, unless `detached`. */
cudaError_t rt_copy(struct rt_device *device, void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                    uint32_t stream, bool detached);

/* ---- boxes.c ----------------------------------------------------------------------------------------------------- */

/* Checks a copy between any two sides, and does it in the order of a stream. */
cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *copy, cudaStream_t stream, bool waits);
cudaError_t rt_issue_copy_3d(struct rt_device *device, const struct cudaMemcpy3DParms *copy, uint32_t number,
                             bool detached);

/* ---- fills.c ----------------------------------------------------------------------------------------------------- */

/* Rows of `xsize` bytes, `ysize` of them, filled with units of 1, 2 or 4 bytes. */
cudaError_t rt_fill_units(struct cudaPitchedPtr memory, uint32_t value, uint32_t unit, cudaStream_t stream, bool waits);
cudaError_t rt_fill(struct rt_device *device, const struct rt_fill *fill, uint32_t number);
/* Is it memory that this process fills by itself: page-locked, or beyond the allotment? */
bool rt_is_of_process(const void *pointer);

/* ---- managed.c: memory that host and device use at the same address, moved between them -------------------------- */

enum { RT_ALL_STREAMS = -1 };

cudaError_t rt_managed_allocate(struct rt_device *device, size_t size, unsigned flags, void **pointer);
cudaError_t rt_managed_free(const struct rt_range *range);
/* Is it a __managed__ variable, which cannot be freed? */
bool rt_managed_is_variable(const struct rt_range *range);
/* Around sending work that may use all managed memory: what the host has written goes to the device, and the host gets
 * nothing back before rt_managed_leave(). */
cudaError_t rt_managed_enter(struct rt_device *device, uint32_t stream);
/* Likewise, for work that only uses these bytes, such as a copy. Other memory than managed is allowed, and ignored. */
cudaError_t rt_managed_enter_span(struct rt_device *device, const void *memory, size_t size, bool writes,
                                  uint32_t stream);
/* Once for each enter, even if that failed. */
void rt_managed_leave(void);
/* Work and frees are counted: each takes a turn; what has a turn up to the mark was sent before. */
uint64_t rt_next_turn(void);
uint64_t rt_mark(void);
/* After waiting for a stream, or all, up to the mark taken before: gives the host what it will probably look at. */
void rt_managed_settle(struct rt_device *device, int stream, uint64_t mark);
/* Gives or takes [memory, memory + size), without waiting for the host to touch it. */
cudaError_t rt_managed_prefetch(struct rt_device *device, const void *memory, size_t size, bool to_device,
                                uint32_t stream);
/* Has touches of memory that is on the device resolved from now on. */
void rt_managed_watch(void);
void rt_managed_forget(struct rt_device *device);

/* ---- managed_variables.c: __managed__ variables ------------------------------------------------------------------ */

/* Notes that host code uses the variable through the pointer at `host`, which is at `initial` for now. */
void rt_managed_variable(struct rt_variable *variable, void **host, void *initial);
/* Once the device is open: variables are where its program has them. */
void rt_managed_variables_place(struct rt_device *device);
/* Do some wait for a device to be open? */
bool rt_managed_variables_wait(void);
/* The variable's address for one that host code took before a device was open; else `memory`. */
const void *rt_managed_variable_now(const void *memory);
void rt_managed_variables_forget(struct rt_device *device);
/* The unit, and all of its program, is about to go. */
void rt_managed_variables_unload(const struct rt_unit *unit);

/* ---- faults.c: touching managed memory that is on the device ----------------------------------------------------- */

/* Brings the memory at `address` to the host. False: it is not managed memory, or cannot be had. */
typedef bool rt_fault_function(void *address, bool writes);
/* Installs the handler of SIGSEGV, before the program's own; again, if the program has set another. */
void rt_faults_install(rt_fault_function *resolve);

/* ---- mirrors.c: page-locked host memory ------------------------------ */

/* Around sending a kernel, as rt_managed_enter(): registered memory that kernels may see. */
cudaError_t rt_mirrors_enter(struct rt_device *device, uint32_t stream);
void rt_mirrors_settle(struct rt_device *device);
bool rt_has_mirrors(void);
void rt_host_forget(struct rt_device *device);

/* ---- pools.c: memory in the order of streams --------------------------------------------------------------------- */

/* Is the memory at `begin` one of a pool's? Then it goes back there, as all work is done, or is an error if it has been
 * freed already. */
bool rt_pools_take_back(uint64_t begin, cudaError_t *error);
/* After waiting for a stream, or all: gives back to the device what pools hold beyond their thresholds. */
void rt_pools_settle(struct rt_device *device, int stream, uint64_t mark);
void rt_pools_forget(struct rt_device *device);

#endif
