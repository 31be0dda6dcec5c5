/* The native side of the CUDA rows: the same kernels and copies through the driver's own API, from one thread that
 * spins, with everything pinned: what a careful programmer gets from the GPU without us.
 *
 * Functions return 0 on success and -1 on failure, when vgcb_gpu_error() says what the driver said.
 */
#ifndef VGCB_GPU_H
#define VGCB_GPU_H

#include <stdint.h>

enum { VGCB_GPU_WHY = 256 };

enum vgcb_gpu_kind { VGCB_GPU_COPY_IN, VGCB_GPU_COPY_OUT, VGCB_GPU_LAUNCH };

/* One asynchronous operation, prepared once and issued again and again. */
struct vgcb_gpu_op {
    enum vgcb_gpu_kind kind;
    uint64_t device; /* COPY_*: device address */
    void *host;      /* COPY_*: pinned memory */
    uint64_t size;
    void *function; /* LAUNCH */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    void **params; /* a pointer to each argument */
};

struct vgcb_gpu;

/* Takes the primary context of the GPU `ordinal` (in the order of the PCI bus), which then spins while it waits.
 * `driver`: path or name of libcuda. NULL: `why` (VGCB_GPU_WHY bytes) says what is missing. */
struct vgcb_gpu *vgcb_gpu_open(const char *driver, uint32_t ordinal, char *why);
void vgcb_gpu_close(struct vgcb_gpu *gpu);

/* The last failure of this GPU's functions. */
const char *vgcb_gpu_error(const struct vgcb_gpu *gpu);

int vgcb_gpu_load(struct vgcb_gpu *gpu, const void *image, void **module);
int vgcb_gpu_unload(struct vgcb_gpu *gpu, void *module);
int vgcb_gpu_function(struct vgcb_gpu *gpu, void *module, const char *name, void **function);

int vgcb_gpu_alloc(struct vgcb_gpu *gpu, uint64_t size, uint64_t *address);
int vgcb_gpu_free(struct vgcb_gpu *gpu, uint64_t address);
int vgcb_gpu_pinned(struct vgcb_gpu *gpu, uint64_t size, void **host);
int vgcb_gpu_free_pinned(struct vgcb_gpu *gpu, void *host);

/* `count` times: all `num_ops` operations into one stream, then cuStreamSynchronize. ns_out[i] is the time of each. */
int vgcb_gpu_round_trips(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops, uint32_t count,
                         uint64_t *ns_out);

/* All operations `count` times into one stream, and one cuStreamSynchronize at the end; *ns_out is the whole time. */
int vgcb_gpu_pipelined(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops, uint64_t count,
                       uint64_t *ns_out);

#endif
