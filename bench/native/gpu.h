/* Native side of the CUDA rows: kernels and copies through the driver's API, from one thread that spins, with pinned
 * memory, as a careful programmer would write them without our device.
 *
 * Functions return 0 on success and -1 on failure; vgcb_gpu_error() then returns the driver's error.
 */
#ifndef VGCB_GPU_H
#define VGCB_GPU_H

#include <stdint.h>

enum { VGCB_GPU_WHY = 256 };

enum vgcb_gpu_kind { VGCB_GPU_COPY_IN, VGCB_GPU_COPY_OUT, VGCB_GPU_LAUNCH };

/* Asynchronous operation, prepared once and issued repeatedly. */
struct vgcb_gpu_op {
    enum vgcb_gpu_kind kind;
    uint64_t device; /* COPY_*: device address */
    void *host;      /* COPY_*: pinned or registered memory */
    uint64_t size;
    void *function; /* LAUNCH */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    void **params; /* a pointer to each argument */
};

struct vgcb_gpu;

/* Retains the primary context of the device with this UUID ("GPU-..." or "MIG-..."), set to spin while it waits.
 * `driver`: path or name of libcuda. Returns NULL on failure; `why` (VGCB_GPU_WHY bytes) then has the reason. */
struct vgcb_gpu *vgcb_gpu_open(const char *driver, const char *uuid, char *why);
void vgcb_gpu_close(struct vgcb_gpu *gpu);

/* Error of the last failed function of this GPU. */
const char *vgcb_gpu_error(const struct vgcb_gpu *gpu);

int vgcb_gpu_load(struct vgcb_gpu *gpu, const void *image, void **module);
int vgcb_gpu_unload(struct vgcb_gpu *gpu, void *module);
int vgcb_gpu_function(struct vgcb_gpu *gpu, void *module, const char *name, void **function);

int vgcb_gpu_alloc(struct vgcb_gpu *gpu, uint64_t size, uint64_t *address);
int vgcb_gpu_free(struct vgcb_gpu *gpu, uint64_t address);
int vgcb_gpu_pinned(struct vgcb_gpu *gpu, uint64_t size, void **host);
int vgcb_gpu_free_pinned(struct vgcb_gpu *gpu, void *host);

/* Pins memory that the caller has mapped, as the worker pins a VM's region; its page size stays. */
int vgcb_gpu_register(struct vgcb_gpu *gpu, void *host, uint64_t size);
int vgcb_gpu_unregister(struct vgcb_gpu *gpu, void *host);

/* Issues all `num_ops` operations into one stream, then cuStreamSynchronize, `count` times. ns_out[i]: time of each. */
int vgcb_gpu_round_trips(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops, uint32_t count,
                         uint64_t *ns_out);

/* Issues all operations `count` times into one stream, with one cuStreamSynchronize at the end. *ns_out: whole time. */
int vgcb_gpu_pipelined(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops, uint64_t count,
                       uint64_t *ns_out);

#endif
