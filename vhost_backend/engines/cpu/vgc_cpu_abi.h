/* Interface between compiled kernels and the CPU engine's runtime.
 *
 * The compiler (compiler/) cuts every kernel into *regions*: the code between two places where threads of a
 * block must wait for each other ("sites": barriers, shuffles, votes). A region is a function that runs a range
 * of threads of a block from a site to their next one; the runtime (schedule.c) decides which regions run next. A
 * kernel without sites is a single region, and its loop over the threads is vectorised.
 *
 * Included by C (runtime) and C++ (compiler); the compiler bakes offsets of struct vgc_cpu_ctx into code, so
 * any change here needs a new VGC_CPU_ABI.
 */
#ifndef VGC_CPU_ABI_H
#define VGC_CPU_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    VGC_CPU_ABI = 12,
    VGC_CPU_IMAGE_MAGIC = 0x43504756,
    VGC_CPU_MAX_THREADS = 1024,
    VGC_CPU_WARP = 32,
    VGC_CPU_MAX_SHARED = 96 * 1024, /* static + dynamic */
    VGC_CPU_MAX_PARAMS = 32764,     /* bytes */
    VGC_CPU_MAX_SITES = 4096,
    VGC_CPU_MAX_FRAME = 64 * 1024, /* bytes per thread that live across sites */
    VGC_CPU_MAX_CLUSTER = 16,      /* blocks */
    VGC_CPU_ROOM = 32,             /* words of a thread's room: its part of a product of matrices */
    VGC_CPU_ROOM_ALIGN = 64,       /* bytes, of the words of a warp */
};

/* Bytes of the heap of malloc(), whole pages and what describes them included. */
#define VGC_CPU_MIN_HEAP (UINT64_C(64) << 10)
#define VGC_CPU_MAX_HEAP (UINT64_C(1) << 30) /* code reaches variables behind it with 32 bits */

/* Operation that threads at a site wait for. 32- and 64-bit kinds differ in the arrays of their operands. */
enum vgc_cpu_site_kind {
    VGC_SITE_ENTRY = 0,
    VGC_SITE_BARRIER = 1,
    VGC_SITE_BARRIER_COUNT = 2,
    VGC_SITE_BARRIER_AND = 3,
    VGC_SITE_BARRIER_OR = 4,
    VGC_SITE_SYNCWARP = 5,
    VGC_SITE_SHFL_IDX = 6,
    VGC_SITE_SHFL_UP = 7,
    VGC_SITE_SHFL_DOWN = 8,
    VGC_SITE_SHFL_XOR = 9,
    VGC_SITE_BALLOT = 10,
    VGC_SITE_MATCH_ANY = 11,
    VGC_SITE_MATCH_ALL = 12, /* result: mask, or 0 */
    VGC_SITE_ACTIVEMASK = 13,
    VGC_SITE_BALLOT_ACTIVE = 14, /* over the lanes that are at the site, for the forms without _sync */
    VGC_SITE_GRID = 15,          /* a barrier of all blocks of the grid */
    VGC_SITE_PRODUCT = 16,       /* of matrices: work() on the rooms of the whole warp */
    VGC_SITE_STEP = 17,          /* between accesses to memory of a warp that goes in step, over the active lanes */
    VGC_SITE_YIELD = 18,         /* lets all other threads of the block go on first */
    VGC_SITE_CLUSTER = 19,       /* a barrier of all blocks of the cluster */
    VGC_SITE_KINDS = 20,
};

enum {
    VGC_SITE_WIDE = 1,
    VGC_SITE_CONST_MASK = 2,
    VGC_SITE_CONST_ARG = 4,
    /* the region behind the site keeps ctx->tid, exactly or to within a few neighbours */
    VGC_SITE_KEEPS_POSITION = 8,
    VGC_SITE_KEEPS_NEIGHBOUR = 16,
};

/* Flags of a kernel. */
enum {
    VGC_CPU_KERNEL_RESIDENT = 1,  /* has sites of kind GRID, or clusters: all blocks of a launch exist at once */
    VGC_CPU_KERNEL_LAUNCHES = 16, /* its image launches kernels */
    /* calls __vgc_check before accesses to memory (vgc_cpu_checks.h) */
    VGC_CPU_KERNEL_MEMCHECK = 2,
    VGC_CPU_KERNEL_INITCHECK = 4,
    VGC_CPU_KERNEL_RACECHECK = 8,
    VGC_CPU_KERNEL_LEAKCHECK = 64,
    VGC_CPU_KERNEL_CHECKS = 78,
    VGC_CPU_KERNEL_PROFILE = 32, /* launches are sampled, and print their lines */
    VGC_CPU_KERNEL_STRIPS = 128, /* neighbouring blocks may run as one: see row_threads */
};

enum { VGC_REGION_EXIT = 0, VGC_REGION_DIVERGED = -1 };

struct vgc_cpu_ctx;

/* Runs threads [first, last) of the block from a site to their next one. Returns the index of that (EXIT if they
 * ended), or DIVERGED after writing the index of each thread into ctx->next[]. `table` is the site's. */
typedef int32_t (*vgc_cpu_region_fn)(struct vgc_cpu_ctx *ctx, uint32_t first, uint32_t last, const uint64_t *table);

/* kernel->sites[0] is the kernel's entry. */
struct vgc_cpu_site {
    vgc_cpu_region_fn resume;
    uint32_t kind;  /* enum vgc_cpu_site_kind */
    uint32_t flags; /* VGC_SITE_* */
    uint32_t mask;  /* if CONST_MASK */
    uint32_t arg;   /* if CONST_ARG: lane | (width - 1) << 8; of PRODUCT: offset of the slots of the rooms' words */
    /* if PRODUCT: word i of the room of a lane is rooms[i * stride + lane] */
    void (*work)(uint32_t *rooms, uint32_t stride);
    const uint64_t *table; /* what differs between the sites that share resume() */
};

/* A struct vgc_param_entry of the wire format, with the kinds of its enum vgc_param_kind. */
enum vgc_cpu_param_kind {
    VGC_CPU_PARAM_UNKNOWN = 0,
    VGC_CPU_PARAM_INTEGER = 1,
    VGC_CPU_PARAM_FLOAT = 2,
    VGC_CPU_PARAM_POINTER = 3,
    VGC_CPU_PARAM_OTHER = 4,
};

struct vgc_cpu_param {
    uint32_t offset;
    uint32_t size;
    uint32_t kind;     /* enum vgc_cpu_param_kind */
    uint32_t reserved; /* 0 */
};

struct vgc_cpu_kernel_desc {
    const char *name;       /* mangled */
    const char *short_name; /* as in the source, unqualified, without template arguments */
    const struct vgc_cpu_site *sites;
    const struct vgc_cpu_param *params;
    uint32_t num_sites;
    uint32_t num_params;
    uint32_t param_bytes;
    uint32_t shared_bytes; /* static */
    uint32_t max_threads;  /* __launch_bounds__, or VGC_CPU_MAX_THREADS */
    uint32_t frame_bytes;  /* bytes per thread that live across sites */
    uint32_t flags;        /* VGC_CPU_KERNEL_* */
    uint32_t index;        /* in the image's table */
    uint32_t cluster[3];   /* blocks of a cluster */
    uint32_t block[3];     /* threads that a block must have; 0, 0, 0: any */
    uint32_t local_bytes;  /* local memory of a thread */
    uint32_t reserved;     /* 0 */
};

struct vgc_cpu_global_desc {
    const char *name;
    void *address;
    uint64_t size;
};

/* The image exports one symbol, vgc_cpu_image. */
struct vgc_cpu_image {
    uint32_t magic;
    uint32_t abi;
    uint32_t num_kernels;
    uint32_t num_globals;
    const struct vgc_cpu_kernel_desc *kernels;
    const struct vgc_cpu_global_desc *globals;
    uint32_t constant_bytes; /* of its variables in constant memory */
    uint32_t reserved;       /* 0 */
};

/* State of a processing element while it works on a block. */
struct vgc_cpu_ctx {
    uint8_t *shared;         /* static shared memory, 256-byte aligned; the dynamic part follows */
    uint8_t *dynamic_shared; /* 16-byte aligned */
    const uint8_t *params;
    uint8_t *frame;  /* slot at `offset`: array of `stride` elements from frame + offset * stride */
    uint32_t stride; /* threads of the block, rounded up to 64 */
    uint32_t pe;
    uint32_t tid[3]; /* of the running thread; only stored where the compiled code needs it */
    uint32_t block_idx[3];
    uint32_t block_dim[3];
    uint32_t grid_dim[3];
    uint32_t cluster_dim[3];
    uint32_t row_threads; /* block_dim[0]; of several blocks along x, from block_idx on, that run as one: their sum */
    uint64_t slot_bytes;  /* from a block's shared memory to that of the next one in its cluster */
    uint32_t next[VGC_CPU_MAX_THREADS]; /* next site of each thread: see DIVERGED */
    uint32_t mask[VGC_CPU_MAX_THREADS]; /* operands of the operation that a thread waits in */
    uint32_t arg[VGC_CPU_MAX_THREADS];
    uint32_t value32[VGC_CPU_MAX_THREADS];
    uint32_t result32[VGC_CPU_MAX_THREADS];
    uint64_t value64[VGC_CPU_MAX_THREADS];
    uint64_t result64[VGC_CPU_MAX_THREADS];
};

#endif
