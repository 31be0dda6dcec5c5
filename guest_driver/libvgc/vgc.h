/* libvgc: compute on a virtio-gpu-compute device from user space, with no kernel module and only libc.
 *
 *     struct vgc_device *dev;
 *     if (vgc_open(NULL, &dev) != VGC_OK) { fprintf(stderr, "%s\n", vgc_last_error()); exit(1); }
 *
 * Results   Every function that returns int returns an enum vgc_result. When it is not VGC_OK, vgc_last_error()
 *           says what is wrong (and what the host said), per thread.
 * Jobs      A function with a `struct vgc_job **job` waits for its work when `job` is NULL. Otherwise it returns
 *           once the request is published and the caller owns *job: vgc_job_wait(), then vgc_job_release().
 *           Buffers of a job must stay as they are until it is done.
 * Threads   All functions may be called from any thread. Threads share one queue under a mutex until a thread
 *           claims one of its own with vgc_thread_claim_queue(). Work of one stream is ordered only among
 *           requests of one queue: a stream used from two threads needs a wait in between.
 * Processes Several processes use a device at once; each has queues, contexts and a part of the region of its
 *           own. What a killed process held is freed by the next process that opens the device or runs short.
 *           A handle does not survive fork(): open the device in the child.
 */
#ifndef VGC_H
#define VGC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef _WIN32
#define VGC_API __attribute__((visibility("default")))
#elif defined(VGC_BUILDS_DLL)
#define VGC_API __declspec(dllexport)
#else
#define VGC_API
#endif

/* [cdef] What follows up to the closing mark is also read by the Python binding. */

enum vgc_result {
    /* from the host */
    VGC_OK = 0,
    VGC_BAD_REQUEST = 1,
    VGC_UNSUPPORTED = 2,
    VGC_NO_CONTEXT = 3,
    VGC_NOT_FOUND = 4,
    VGC_INVALID_ARGUMENT = 5,
    VGC_INVALID_ADDRESS = 6,
    VGC_OUT_OF_MEMORY = 7,
    VGC_RESOURCES_EXHAUSTED = 8,
    VGC_COMPILE_FAILED = 9,
    VGC_LAUNCH_FAILED = 10,
    VGC_FAULT = 11,
    VGC_ASSERT = 12,
    VGC_TIMEOUT = 13,
    VGC_DEADLOCK = 14,
    VGC_DEVICE_LOST = 15, /* the host replaced the worker: memory and programs are gone; see vgc_reset() */
    VGC_CANCELLED = 16,
    VGC_INTERNAL = 17,
    /* from the driver */
    VGC_PENDING = 100,       /* not finished yet */
    VGC_NO_DEVICE = 101,     /* no such device in this machine */
    VGC_NO_PERMISSION = 102, /* the kernel does not let this process open it */
    VGC_INCOMPATIBLE = 103,  /* driver and device speak different wire formats */
    VGC_NO_ANSWER = 104,     /* the device did not answer in time */
    VGC_SYSTEM = 105,        /* a system call failed */
};

enum vgc_source_kind {
    VGC_SOURCE_CUDA = 1,
    VGC_SOURCE_PTX = 2,
    VGC_SOURCE_CUBIN = 3,
    VGC_SOURCE_FATBIN = 4,
    VGC_SOURCE_CUDA_UNITS = 5, /* as vgc_program_link packs them */
};

/* Source of a program of several. Its options follow those of the program. */
struct vgc_source_unit {
    const char *name; /* shown in errors; unique */
    const void *text;
    uint64_t size;
    const char *const *options;
    uint32_t num_options;
};

enum vgc_arg_direction {
    VGC_ARG_VALUE = 0, /* `size` bytes passed by value */
    VGC_ARG_IN = 1,    /* the kernel gets a pointer to a copy of the buffer */
    VGC_ARG_OUT = 2,   /* the kernel gets a pointer to zeroed memory that is copied back into the buffer */
    VGC_ARG_INOUT = 3,
};

enum { VGC_LAUNCH_COOPERATIVE = 1 }; /* all blocks run at once, so that the kernel may wait for its grid */

struct vgc_device;
struct vgc_program;
struct vgc_function;
struct vgc_event;
struct vgc_job;
struct vgc_array;
struct vgc_graph;
struct vgc_listing;

/* A device whose other side is in a process of this machine: file descriptors instead of PCI (tests,
 * benchmarks). The file descriptors stay the caller's and must outlive the device handle. */
struct vgc_memfd {
    const char *name;    /* of the state file: processes that share the device use the same name */
    int region_fd;       /* the VM's region */
    int config_fd;       /* the configuration space as a file, kept up to date by the other side */
    uint64_t region_gpa; /* guest-physical address of the region's first byte */
    uint64_t features;   /* acknowledged virtio feature bits */
    uint32_t num_queues;
    uint32_t ring_size;
    const int *kick_fds; /* eventfds, one per queue */
    const int *call_fds;
};

enum { VGC_OPEN_LOOK = 1 }; /* without a context: only the functions that ask about the device work */

struct vgc_options {
    const char *address; /* PCI address ("0000:00:04.0"); NULL: take the index-th device */
    uint32_t index;
    uint32_t flags;                /* VGC_OPEN_* */
    const char *region_address;    /* PCI address of the ivshmem function, or name of an NVDIMM in devdax mode
                                      ("dax0.0"); NULL: found by its size */
    const char *state_dir;         /* NULL: $VGC_STATE_DIR, else /run/vgc */
    uint64_t open_timeout_ns;      /* 0: 5 s */
    uint64_t request_timeout_ns;   /* 0: the device's launch deadline + 10 s */
    uint64_t spin_ns;              /* time to poll before sleeping; UINT64_MAX: never sleep; 0: 50 us */
    const struct vgc_memfd *memfd; /* NULL: $VGC_MEMFD (see memfd.c) or $VGC_BRIDGE (bridge.c) if set, else PCI */
};

enum {                      /* kinds of regions */
       VGC_REGION_FILE = 0, /* a descriptor, without a VM */
       VGC_REGION_BAR = 1,  /* of an ivshmem function */
       VGC_REGION_DAX = 2,  /* an NVDIMM in devdax mode */
};

struct vgc_info {
    char address[64];
    char region_address[64];
    char engine_name[65];
    char vm_name[65];
    uint8_t uuid[16];
    uint32_t engine_kind; /* 0 null, 1 cpu, 2 cuda */
    uint32_t health;      /* 0 starting, 1 ready, 2 recovering, 3 failed */
    uint32_t generation;
    uint32_t num_queues;
    uint32_t ring_size;
    uint32_t queue_depth; /* quota: requests in flight, all processes of the VM together */
    uint32_t num_pes;     /* quota: processing elements */
    uint32_t max_contexts;
    uint32_t max_streams;
    uint32_t context;
    uint64_t memory_bytes; /* quota */
    uint64_t deadline_ns;
    uint64_t device_features;
    uint64_t fingerprint;
    uint64_t region_bytes;
    uint64_t region_device_address; /* 0: kernels cannot use the region directly */
    double read_bytes_per_s;        /* measured once, reading the region */
    bool region_cached;             /* false: reads through the mapping are slow; prefer copies */
    bool interrupts;                /* false: waiting falls back to sleeping in growing steps */
    uint32_t region_kind;           /* VGC_REGION_* */
};

struct vgc_device_usage {
    uint64_t memory_used_bytes;
    uint64_t memory_quota_bytes;
    uint64_t requests_done;
    uint64_t requests_failed;
    uint64_t busy_ns;
    uint32_t num_contexts;
    uint32_t num_programs;
    uint32_t num_allocations;
    uint32_t num_pes;
    uint32_t in_flight;
    uint32_t generation;
};

/* Process that has a context on the device. */
struct vgc_process {
    uint32_t pid;
    uint32_t reserved;
    uint64_t memory_bytes; /* device memory that it has allocated */
};

/* Properties and limits that the device tells of itself. 0 where it has no such thing, or does not say. */
struct vgc_device_limits {
    uint32_t compute_capability; /* 10 * major + minor, as CUDA counts */
    uint32_t warp_threads;
    uint32_t pe_threads;      /* threads that a processing element holds at once */
    uint32_t pe_blocks;       /* likewise, as the next two */
    uint32_t pe_registers;    /* of 32 bits */
    uint32_t pe_shared_bytes; /* shared memory */
    uint32_t block_registers;
    uint32_t block_shared_bytes;    /* most shared memory of a block, static and dynamic */
    uint32_t reserved_shared_bytes; /* shared memory of a block that the device takes itself */
    uint32_t constant_bytes;
    uint32_t l2_bytes;
    uint32_t clock_khz;
    uint32_t memory_clock_khz;
    uint32_t memory_bus_bits;
    uint32_t copy_engines;   /* copies that go on beside kernels, and each other */
    uint32_t double_ratio;   /* operations in single precision in the time of one in double precision */
    uint32_t cluster_blocks; /* most blocks of a cluster; 0: no clusters */
    uint32_t ecc;            /* 1: memory corrects errors */
};

/* A PCI function that may be ours, as vgc_list() sees it; nothing is changed by looking. */
struct vgc_found {
    char address[32];
    char driver[32];         /* bound kernel driver, "" if none */
    char uio[32];            /* "/dev/uio0", "" if none */
    char region_address[32]; /* ivshmem candidate, "" if none */
    uint64_t region_bytes;   /* of that, 0 if none */
};

struct vgc_timing {
    uint64_t queued_ns; /* on the host, before the work began */
    uint64_t exec_ns;   /* on the engine */
    uint64_t total_ns;  /* from publishing to seeing the completion, in the guest */
};

struct vgc_geometry {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes; /* dynamic shared memory */
    uint32_t stream;
    uint32_t flags; /* VGC_LAUNCH_* */
};

struct vgc_arg {
    uint32_t direction; /* enum vgc_arg_direction */
    uint32_t reserved;
    uint64_t size;
    void *data; /* only read for VALUE and IN */
};

struct vgc_function_info {
    const char *name;       /* the linker's */
    const char *short_name; /* the source's */
    uint32_t num_params;
    uint32_t param_bytes;
    uint32_t shared_bytes;   /* static */
    uint32_t max_threads;    /* per block */
    uint32_t num_registers;  /* of a thread; 0: unknown */
    uint32_t local_bytes;    /* local memory of a thread, as far as it is known */
    uint32_t constant_bytes; /* of its program's variables in constant memory */
};

enum vgc_param_type {
    VGC_PARAM_UNKNOWN = 0, /* the device cannot tell */
    VGC_PARAM_INTEGER = 1,
    VGC_PARAM_FLOAT = 2,   /* IEEE 754, of 2, 4 or 8 bytes */
    VGC_PARAM_POINTER = 3, /* a device address */
    VGC_PARAM_OTHER = 4,   /* a struct, say */
};

struct vgc_param {
    uint32_t offset; /* into the parameter block */
    uint32_t size;
    uint32_t kind; /* enum vgc_param_type */
    uint32_t reserved;
};

/* Function in a list; strings and parameters are the list's. */
struct vgc_listed {
    const char *name; /* the linker's; "" if it is broken */
    const char *short_name;
    const char *problem; /* why it is broken; "" if it is not */
    const struct vgc_param *params;
    uint32_t num_params;
    uint32_t program; /* equal for all functions of a registered program; 0: it is the host's */
    bool is_of_host;
    bool is_kept;      /* when the guest is restarted */
    bool is_broken;    /* its program does not compile or load any more: it can only be unregistered */
    uint64_t launches; /* of all processes, since the host's worker has started */
    uint64_t busy_ns;
    uint64_t p99_ns; /* 99 of 100 launches took no longer; 0: none was timed */
};

enum vgc_channel_type { VGC_CHANNEL_SIGNED = 0, VGC_CHANNEL_UNSIGNED = 1, VGC_CHANNEL_FLOAT = 2 };

enum vgc_array_bits {
    VGC_ARRAY_LAYERED = 1, /* depth counts layers */
    VGC_ARRAY_SURFACE = 2, /* surfaces may be made of it */
    VGC_ARRAY_CUBEMAP = 4, /* depth counts faces: 6, or a multiple of 6 with LAYERED */
    VGC_ARRAY_GATHER = 8,
};

enum vgc_texture_bits {
    VGC_TEXTURE_NORMALISED = 1, /* coordinates run from 0 to 1 */
    VGC_TEXTURE_AS_FLOAT = 2,   /* integers of 8 and 16 bits are read as floats */
    VGC_TEXTURE_SRGB = 4,
    VGC_TEXTURE_LINEAR = 8,         /* filter between texels */
    VGC_TEXTURE_LINEAR_LEVELS = 16, /* filter between levels */
};

enum vgc_texture_edge { VGC_EDGE_WRAP = 0, VGC_EDGE_CLAMP = 1, VGC_EDGE_MIRROR = 2, VGC_EDGE_BORDER = 3 };

struct vgc_array_shape {
    uint32_t width;    /* texels */
    uint32_t height;   /* 0: one-dimensional */
    uint32_t depth;    /* slices, layers or faces; 0: neither */
    uint32_t levels;   /* of a mipmap; 1: no mipmap */
    uint32_t kind;     /* enum vgc_channel_type */
    uint32_t bits;     /* of a channel: 8, 16, 32 */
    uint32_t channels; /* 1, 2, 4 */
    uint32_t flags;    /* enum vgc_array_bits */
};

/* One side of a copy: a place in an array, device memory, or memory of this process. */
struct vgc_side {
    const struct vgc_array *array; /* NULL: memory */
    uint64_t address;              /* of device memory; 0 for the others */
    uint64_t pitch;                /* bytes from row to row; 0 for an array */
    uint64_t slice;                /* bytes from slice to slice; 0 for an array */
    uint32_t level;                /* of an array, as are the next three; 0 for memory */
    uint32_t x;                    /* bytes */
    uint32_t y;
    uint32_t z;
    void *host; /* memory of this process; NULL: none. It is only read where it is the source */
};

struct vgc_texture_form {
    const struct vgc_array *array; /* NULL: device memory */
    uint64_t address;              /* of device memory, as are the next three; 0 for an array */
    uint64_t pitch;                /* bytes from row to row; 0: linear memory, for fetches by index */
    uint32_t width;                /* texels */
    uint32_t height;
    uint32_t kind; /* enum vgc_channel_type */
    uint32_t bits; /* of a channel; 0: channels are those of the array, and kind is 0 */
    uint32_t channels;
    uint32_t flags;    /* enum vgc_texture_bits */
    uint32_t edges[3]; /* enum vgc_texture_edge, along x, y, z */
    uint32_t max_anisotropy;
    float border[4];
    float bias; /* of the level of detail; so are the next two */
    float min_level;
    float max_level;
    uint32_t first_level;
    uint32_t num_levels; /* 0: all from the first on; likewise layers */
    uint32_t first_layer;
    uint32_t num_layers;
};

enum vgc_node_kind {
    VGC_NODE_EMPTY = 0, /* does nothing */
    VGC_NODE_LAUNCH = 1,
    VGC_NODE_FILL = 2, /* as vgc_fill */
    VGC_NODE_COPY = 3, /* as vgc_copy_device */
};

/* Operation of a graph; fields that its kind does not use are 0. */
struct vgc_node {
    uint32_t kind; /* enum vgc_node_kind */
    uint32_t num_deps;
    const uint32_t *deps;          /* indices of nodes that end before this one starts: of nodes before it */
    struct vgc_function *function; /* LAUNCH, as are the next three */
    const void *params;            /* as for vgc_launch_packed */
    uint32_t param_bytes;
    struct vgc_geometry geometry; /* its stream is not used */
    uint32_t unit;                /* FILL, as is the next */
    uint64_t value;
    uint64_t dst; /* FILL and COPY, as is `size` */
    uint64_t src; /* COPY */
    uint64_t size;
};

/* Names memory or an event for other processes of the VM: whoever knows it may open that. */
struct vgc_key {
    uint64_t halves[2];
};

enum vgc_mark_type { VGC_MARK_INSTANT = 0, VGC_MARK_NESTED = 1, VGC_MARK_RANGE = 2 };
enum vgc_mark_payload { VGC_PAYLOAD_NONE = 0, VGC_PAYLOAD_UNSIGNED = 1, VGC_PAYLOAD_SIGNED = 2, VGC_PAYLOAD_FLOAT = 3 };

/* A range of this process, or an instant, for the time line of the control system. Times are of CLOCK_MONOTONIC. */
struct vgc_mark_info {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t payload;      /* the number's bits */
    uint32_t kind;         /* enum vgc_mark_type; NESTED: within those of its thread that were open when it began */
    uint32_t payload_kind; /* enum vgc_mark_payload */
    uint32_t thread;
    uint32_t category;
    uint32_t colour; /* alpha, red, green, blue; 0: none */
    uint32_t reserved;
    const char *text; /* cut to 255 bytes, as the next three to 63; others than UTF-8 become ? */
    const char *domain;
    const char *category_name;
    const char *thread_name;
};

enum vgc_call_side { VGC_SIDE_AUTO = 0, VGC_SIDE_CPU = 1, VGC_SIDE_HOST = 2 };

enum vgc_choice_reason {
    VGC_WHY_FORCED = 1, /* the call's options name the side */
    VGC_WHY_RULE = 2,   /* $VGC_SIDE or vgc_choice_rules() does */
    VGC_WHY_ONLY = 3,   /* the other side lacks the function, or is not there */
    VGC_WHY_FASTER = 4, /* by measured times */
    VGC_WHY_TRIED = 5,  /* to measure the side */
};

/* Function of this process: gets the arguments of the call, with VGC_ARG_OUT buffers zeroed, and returns 0 or an error
 * number of its own. It may call anything of libvgc. */
typedef int (*vgc_local_call)(void *user, const struct vgc_geometry *geometry, const struct vgc_arg *args,
                              uint32_t num_args);

struct vgc_choice_options {
    uint32_t side;   /* enum vgc_call_side; AUTO: by rules, then by measured times */
    bool falls_back; /* the call goes on on the CPU if the host has no room for it or is lost */
    bool reserved[3];
    uint64_t size;    /* by which rules and times go; 0: the bytes of all buffers */
    const char *type; /* of the elements, for rules ("float32"); NULL: unknown */
};

struct vgc_choice {
    uint32_t side; /* CPU or HOST; after a call: the one that did it */
    uint32_t why;  /* enum vgc_choice_reason */
    uint64_t size;
    uint64_t host_ns;     /* expected time, with copies; 0: unknown */
    uint64_t cpu_ns;      /* likewise */
    uint64_t took_ns;     /* on the side that did it */
    int32_t host_result;  /* not VGC_OK: the host refused or failed, and the call went on on the CPU */
    bool fell_back;       /* it did so because the options asked for it */
    bool is_forced;       /* by the options */
    bool has_local;       /* there is a local function */
    bool may_fall_back;   /* the options ask for it, and there is a local function */
    bool writes_in_place; /* the host writes into a buffer in the region */
    bool reserved[7];
};

/* Knowledge of a function for a class of sizes. */
struct vgc_choice_row {
    uint64_t size_from;
    uint64_t size_to; /* the next class */
    uint64_t host_ns; /* average, with copies */
    uint64_t cpu_ns;
    uint32_t host_samples;
    uint32_t cpu_samples;
    uint32_t side; /* of the next call */
    uint32_t why;
};

enum { VGC_MARKS_AT_ONCE = 1000 }; /* of a process, within a second; the host takes twice as many of a VM */

/* Marks that wait to be sent together; all zeroes: none. Callers may read `count` and add to `dropped`. */
struct vgc_marks {
    uint32_t count;
    uint32_t dropped; /* marks that were left out */
    uint32_t size;
    uint32_t reserved;
    uint8_t bytes[6144];
};

/* ---- errors --------------------------------------------------------------------------------- */

VGC_API const char *vgc_version(void);
VGC_API const char *vgc_result_name(int result);
VGC_API const char *vgc_last_error(void); /* of this thread; "" if none */
VGC_API const char *vgc_last_log(void);   /* compiler's log of this thread's last vgc_program_load */

/* ---- devices -------------------------------------------------------------------------------- */

VGC_API int vgc_list(struct vgc_found *found, size_t room, size_t *count);
/* Gives a group of this guest's users the device, until it is unplugged or the guest starts again: binds it to UIO, and
 * lets the group use its files. That is as much as root rights in the guest: who programs a PCI function can have it
 * write anywhere. Takes root rights. */
VGC_API int vgc_grant(const struct vgc_options *options, uint32_t group_id);
VGC_API void vgc_options_init(struct vgc_options *options);
VGC_API int vgc_open(const struct vgc_options *options, struct vgc_device **device); /* options may be NULL */
/* Waits for this process's jobs. Programs, events and arrays of the device end with it. NULL is allowed. */
VGC_API void vgc_close(struct vgc_device *device);
/* For the end of a process whose other threads may still be in calls: gives back what it has on the device and frees
 * nothing here. Calls fail from then on. NULL is allowed. */
VGC_API void vgc_end(struct vgc_device *device);
VGC_API int vgc_info(struct vgc_device *device, struct vgc_info *info);
/* Time-out in ns of waits that are given none: see vgc_options. */
VGC_API uint64_t vgc_request_timeout(const struct vgc_device *device);
VGC_API int vgc_device_usage(struct vgc_device *device, struct vgc_device_usage *usage);
VGC_API int vgc_device_limits(struct vgc_device *device, struct vgc_device_limits *limits);
/* Processes of this guest that compute on the device; *count of them, also those for which there is no room. */
VGC_API int vgc_processes(struct vgc_device *device, struct vgc_process *processes, size_t room, size_t *count);
/* True between a request that ended with VGC_DEVICE_LOST and the next vgc_reset() that succeeds. Sends nothing. */
VGC_API bool vgc_is_lost(const struct vgc_device *device);
/* After VGC_DEVICE_LOST: waits until the device is ready and makes a new context. Programs, functions, events and
 * device addresses created before the reset are invalid: calls with them return VGC_DEVICE_LOST. */
VGC_API int vgc_reset(struct vgc_device *device);
VGC_API int vgc_nop(struct vgc_device *device, uint32_t stream, struct vgc_job **job);
VGC_API int vgc_thread_claim_queue(struct vgc_device *device);
VGC_API void vgc_thread_release_queue(struct vgc_device *device);

/* ---- memory --------------------------------------------------------------------------------- */

VGC_API int vgc_alloc(struct vgc_device *device, uint64_t size, uint64_t *address);
VGC_API int vgc_free(struct vgc_device *device, uint64_t address);
/* Allocations that processes share. Another process opens one by its key, uses it at the same address, and closes it;
 * while one has it open, it outlives vgc_free() and the process that made it. VGC_NOT_FOUND: nothing has the key (any
 * more); VGC_INVALID_ARGUMENT: it is of this process. Opening it twice is as once. */
VGC_API int vgc_memory_export(struct vgc_device *device, uint64_t address, struct vgc_key *key);
VGC_API int vgc_memory_open(struct vgc_device *device, const struct vgc_key *key, uint64_t *address, uint64_t *size);
/* Returns when all work of this process that came before is done. */
VGC_API int vgc_memory_close(struct vgc_device *device, uint64_t address);
/* With the buffer inside the region the device reads and writes it in place; otherwise it is copied through, in pieces
 * if it is large. It may be larger than the region, and the region may be full. With a job they return at once if the
 * region has room for all of it, else when all but the last bytes are copied: the job is theirs. On an error the
 * contents of the destination are undefined. */
VGC_API int vgc_copy_in(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                        struct vgc_job **job);
VGC_API int vgc_copy_out(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                         struct vgc_job **job);
VGC_API int vgc_copy_device(struct vgc_device *device, uint64_t dst, uint64_t src, uint64_t size, uint32_t stream,
                            struct vgc_job **job);
VGC_API int vgc_fill(struct vgc_device *device, uint64_t dst, uint64_t value, uint32_t unit, uint64_t size,
                     uint32_t stream, struct vgc_job **job);
/* Memory that both sides map, 256-byte aligned: zero-copy source and target of copies and calls. */
VGC_API int vgc_region_alloc(struct vgc_device *device, uint64_t size, void **pointer);
VGC_API void vgc_region_free(struct vgc_device *device, void *pointer);
/* Where kernels see `pointer`, for engines that can reach the region (VGC_UNSUPPORTED otherwise). */
VGC_API int vgc_region_address(struct vgc_device *device, const void *pointer, uint64_t *address);

/* ---- arrays, textures, surfaces ------------------------------------------------------------- */

/* Arrays hold texels for textures and surfaces; a new one holds zeroes. VGC_UNSUPPORTED: this device has none. */
VGC_API int vgc_array_create(struct vgc_device *device, const struct vgc_array_shape *shape, struct vgc_array **array);
VGC_API int vgc_array_destroy(struct vgc_array *array);
/* Copies `depth` slices of `height` rows of `width` bytes. One side, at most, is memory of this process; `job` is then
 * NULL or VGC_DETACHED, unless that memory lies in the region. On an error the destination's contents are undefined. */
VGC_API int vgc_copy_box(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src,
                         uint32_t width, uint32_t height, uint32_t depth, uint32_t stream, struct vgc_job **job);
/* Objects are the 64 bits that kernels take as cudaTextureObject_t and cudaSurfaceObject_t. They must be destroyed
 * before their array or memory. */
VGC_API int vgc_texture_create(struct vgc_device *device, const struct vgc_texture_form *form, uint64_t *object);
VGC_API int vgc_surface_create(struct vgc_array *array, uint32_t level, uint64_t *object);
VGC_API int vgc_object_destroy(struct vgc_device *device, uint64_t object);
/* Binds a texture or surface reference of a program, a variable, to an object, in the stream's order. */
VGC_API int vgc_reference_bind(struct vgc_device *device, struct vgc_program *program, const char *name,
                               uint64_t object, uint32_t stream);

/* ---- programs ------------------------------------------------------------------------------- */

/* Options are nvcc's; the software GPU also has --memcheck, --initcheck, --racecheck (launches that access memory
 * wrongly fail with VGC_FAULT and a text that names line, array and thread) and --lockstep (warps go in step). */
VGC_API int vgc_program_load(struct vgc_device *device, int kind, const void *source, uint64_t size,
                             const char *const *options, uint32_t num_options, struct vgc_program **program);
/* Compiles several sources and links them, as nvcc -rdc=true does: they may use each other's __device__ functions and
 * variables, and launch each other's kernels. Static kernels and variables whose name several units have get the name
 * "NAME@UNIT". */
VGC_API int vgc_program_link(struct vgc_device *device, const struct vgc_source_unit *units, uint32_t num_units,
                             const char *const *options, uint32_t num_options, struct vgc_program **program);
/* Packs sources into one that vgc_program_load() takes with VGC_SOURCE_CUDA_UNITS. End it with free(). */
VGC_API int vgc_units_pack(const struct vgc_source_unit *units, uint32_t num_units, void **packed, uint64_t *size);
/* Registers a program for the VM: all processes find its functions, behind those that they have loaded themselves,
 * until it is unregistered; with `keep` also when the guest, or the host's daemon, has been restarted. Its variables
 * are shared. A program that is registered already is not loaded again. The handle is a view of it, and ends with
 * vgc_program_unload(). VGC_INVALID_ARGUMENT: another registered program has a function of the same name. */
VGC_API int vgc_program_register(struct vgc_device *device, int kind, const void *source, uint64_t size,
                                 const char *const *options, uint32_t num_options, bool keep,
                                 struct vgc_program **program);
/* Unregisters the program that has a function of this name, once its launches have ended; others of its functions are
 * gone, too. VGC_NOT_FOUND: no program has one. */
VGC_API int vgc_unregister(struct vgc_device *device, const char *name);
/* Finds a function of the VM, or the host, by its name; vgc_function_release() ends the handle. Launches fail with
 * VGC_NOT_FOUND once it is unregistered. */
VGC_API int vgc_function_find(struct vgc_device *device, const char *name, struct vgc_function **function);
VGC_API void vgc_function_release(struct vgc_function *function); /* of vgc_function_find(); NULL is allowed */
/* Functions of the VM, and those that come with the host. */
VGC_API int vgc_functions(struct vgc_device *device, struct vgc_listing **listing);
VGC_API uint32_t vgc_listing_size(const struct vgc_listing *listing);
VGC_API const struct vgc_listed *vgc_listing_at(const struct vgc_listing *listing, uint32_t index); /* the list's */
VGC_API void vgc_listing_free(struct vgc_listing *listing);
VGC_API int vgc_program_unload(struct vgc_program *program);
VGC_API const char *vgc_program_log(const struct vgc_program *program); /* warnings */
VGC_API uint32_t vgc_program_num_functions(const struct vgc_program *program);
VGC_API struct vgc_function *vgc_program_function_at(struct vgc_program *program, uint32_t index);
/* By the source's name or the linker's; a short name that several functions share is refused. */
VGC_API int vgc_program_function(struct vgc_program *program, const char *name, struct vgc_function **function);
VGC_API int vgc_program_global(struct vgc_program *program, const char *name, uint64_t *address, uint64_t *size);
VGC_API void vgc_function_info(const struct vgc_function *function, struct vgc_function_info *info);
VGC_API int vgc_function_param(const struct vgc_function *function, uint32_t index, struct vgc_param *param);

/* ---- running -------------------------------------------------------------------------------- */

/* args[i] points to the value of the i-th parameter, as for cuLaunchKernel. On big-endian machines integers, floats and
 * pointers are converted, and parameters whose type the device does not tell are VGC_INVALID_ARGUMENT; all other bytes
 * that reach kernels are the caller's, here and in the functions below, and little-endian. */
VGC_API int vgc_launch(struct vgc_function *function, const struct vgc_geometry *geometry, void *const *args,
                       uint32_t num_args, struct vgc_job **job);
VGC_API int vgc_launch_packed(struct vgc_function *function, const struct vgc_geometry *geometry, const void *params,
                              uint32_t param_bytes, struct vgc_job **job);
/* A whole offloaded call in one round trip: inputs, launch by name, outputs. If the region has no room for the buffers,
 * it takes several: they are copied to device memory and back, in pieces. That is waited for, also with VGC_DETACHED;
 * with a job it is VGC_RESOURCES_EXHAUSTED. */
VGC_API int vgc_call(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                     const struct vgc_arg *args, uint32_t num_args, struct vgc_job **job);

/* Graphs: operations that the device keeps, so that one request launches them all. The arrays and parameters are
 * copied. Nodes are in an order in which they can be carried out. A graph keeps nothing alive: once a program or memory
 * that a node uses is gone, launches are refused until the graph is updated. VGC_UNSUPPORTED: this device has none. */
VGC_API int vgc_graph_create(struct vgc_device *device, const struct vgc_node *nodes, uint32_t num_nodes,
                             struct vgc_graph **graph);
/* Replaces all nodes, for later launches; those before it run with the old nodes. On an error the graph stays as it is.
 */
VGC_API int vgc_graph_update(struct vgc_graph *graph, const struct vgc_node *nodes, uint32_t num_nodes);
/* Runs all nodes as one step of a stream; the error is that of the first node that fails, and no later one runs. A
 * graph may be launched again before it has ended. */
VGC_API int vgc_graph_launch(struct vgc_graph *graph, uint32_t stream, struct vgc_job **job);
/* Launches that were published before go on. The handle is gone, whatever the result; NULL is allowed. */
VGC_API int vgc_graph_destroy(struct vgc_graph *graph);

/* Text that kernels print with printf. After a wait for a launch or call that printed, vgc_output_waits() is true. It
 * may be called at any time, and only loads a flag. */
VGC_API bool vgc_output_waits(struct vgc_device *device);
/* Takes up to `room` bytes of it, the oldest first: *len of them, perhaps in the middle of a line, without a NUL; call
 * it again while vgc_output_waits(). *lost: bytes that the host had no room to keep since the last call. */
VGC_API int vgc_output_read(struct vgc_device *device, char *text, uint64_t room, uint64_t *len, uint64_t *lost);

/* ---- functions by name, on either side ------------------------------------------------------ */

/* Functions of this process and of the host are in one table by their names; a name may be on both sides. `device` may
 * be NULL, which is a table of its own: calls then run in this process, as in a VM that has no device. Names have 1 to
 * 1024 bytes. No lock is held while a function runs.
 *
 * VGC_INVALID_ARGUMENT: a local function has the name already. `function` may be NULL, for a caller that runs the
 * function itself between vgc_choose() and vgc_choice_end(). */
VGC_API int vgc_local_register(struct vgc_device *device, const char *name, vgc_local_call function, void *user);
/* Calls that are under way in other threads go on. What was measured is kept. VGC_NOT_FOUND: it is not registered. */
VGC_API int vgc_local_unregister(struct vgc_device *device, const char *name);
/* Calls a function by its name on the side that the options, a rule, or measured times choose. `geometry` (NULL: one
 * block of one thread), `options` and `choice` (what was chosen, and why) may be NULL. A side that lacks the function
 * is not chosen unless it is forced. A local function that fails ends the call with VGC_LAUNCH_FAILED.
 *
 * With `falls_back`, a call for which the host has no room (VGC_RESOURCES_EXHAUSTED, VGC_OUT_OF_MEMORY) or that it
 * cannot do (VGC_DEVICE_LOST, VGC_NO_CONTEXT, VGC_NO_ANSWER, VGC_UNSUPPORTED) runs on the CPU, on the buffers as they
 * were before. What kernels do wrong is not such a case; nor is a missing answer if the host may still write into a
 * buffer in the region. */
VGC_API int vgc_call_named(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                           const struct vgc_arg *args, uint32_t num_args, const struct vgc_choice_options *options,
                           struct vgc_choice *choice);
/* Chooses and calls nothing; only buffers among the arguments count. The caller runs the function on choice->side and
 * tells how it went: vgc_choice_end() notes the time (`took_ns`, with copies) of VGC_OK. If it returns true, the host's
 * failure is not the call's: it goes on on the CPU, and *choice says so. */
VGC_API int vgc_choose(struct vgc_device *device, const char *name, const struct vgc_arg *args, uint32_t num_args,
                       const struct vgc_choice_options *options, struct vgc_choice *choice);
VGC_API bool vgc_choice_end(struct vgc_device *device, const char *name, struct vgc_choice *choice, int result,
                            uint64_t took_ns);
/* Replaces the program's rules; those of $VGC_SIDE come first. Rules have commas between, and the first that applies
 * counts: SIDE, PATTERN=SIDE or PATTERN=SIDE:CONDITION, with cpu, gpu (or host) and auto as sides, patterns as file
 * names have, and the conditions bytes>=N, bytes<N (with K, M or G) and type=NAME, several with colons between. At most
 * 48 rules. */
VGC_API int vgc_choice_rules(struct vgc_device *device, const char *rules);
/* The side that rules name for a function; VGC_SIDE_AUTO: none. */
VGC_API int vgc_choice_rule(const char *rules, const char *name, uint64_t size, const char *type, uint32_t *side);
/* Measured times of a function: up to `room` rows, in ascending order; *count: how many there are. */
VGC_API int vgc_choice_rows(struct vgc_device *device, const char *name, struct vgc_choice_row *rows, uint32_t room,
                            uint32_t *count);
/* The side of the next call of this size by measured times alone, of which `rows` are all: `size_from`, times and
 * samples count. In *choice are side, why and the expected times. */
VGC_API int vgc_choice_pick(const struct vgc_choice_row *rows, uint32_t num_rows, uint64_t size,
                            struct vgc_choice *choice);
/* Writes measured times to the file that keeps them, as closing the device and the end of the process do. */
VGC_API void vgc_choice_keep(struct vgc_device *device);
/* That file: $VGC_CHOICE_FILE, or one in the user's folder for caches. VGC_NOT_FOUND: none. */
VGC_API int vgc_choice_file(char *path, size_t room);
/* Names a device whose times are kept: other engines and numbers of processing elements have times of their own. */
VGC_API uint64_t vgc_choice_owner(const struct vgc_device *device);

/* ---- streams and events --------------------------------------------------------------------- */

VGC_API int vgc_stream_create(struct vgc_device *device, uint32_t *stream); /* never 0, the default stream */
VGC_API int vgc_stream_destroy(struct vgc_device *device, uint32_t stream);
VGC_API int vgc_stream_synchronize(struct vgc_device *device, uint32_t stream);
VGC_API int vgc_synchronize(struct vgc_device *device); /* all jobs of this process */
VGC_API int vgc_event_create(struct vgc_device *device, struct vgc_event **event);
VGC_API int vgc_event_destroy(struct vgc_event *event);
VGC_API int vgc_event_record(struct vgc_event *event, uint32_t stream);
VGC_API int vgc_event_synchronize(struct vgc_event *event);
VGC_API int vgc_event_query(struct vgc_event *event); /* VGC_OK or VGC_PENDING */
VGC_API int vgc_stream_wait_event(struct vgc_event *event, uint32_t stream);
/* Events that processes share: each records them, and waits for what any of them has recorded last. Recording one takes
 * a round trip. They are destroyed in each process. Only the process that records one learns if the work failed. */
VGC_API int vgc_event_export(struct vgc_event *event, struct vgc_key *key);
VGC_API int vgc_event_open(struct vgc_device *device, const struct vgc_key *key, struct vgc_event **event);
VGC_API int vgc_event_elapsed(struct vgc_event *start, struct vgc_event *end, int64_t *elapsed_ns);

/* ---- marks ---------------------------------------------------------------------------------- */

/* False: there is no room for one more, send them first. */
VGC_API bool vgc_marks_add(struct vgc_marks *marks, const struct vgc_mark_info *mark);
/* Sends them and empties `marks`. Waits for nothing: VGC_RESOURCES_EXHAUSTED if there is no room for a request now. The
 * host leaves out what exceeds its rate. */
VGC_API int vgc_marks_send(struct vgc_device *device, struct vgc_marks *marks);

/* ---- jobs ----------------------------------------------------------------------------------- */

/* VGC_PENDING when time ran out: the job goes on. UINT64_MAX: the device's request time-out (VGC_NO_ANSWER). */
VGC_API int vgc_job_wait(struct vgc_job *job, uint64_t timeout_ns);
VGC_API int vgc_job_poll(struct vgc_job *job);
VGC_API int vgc_job_timing(struct vgc_job *job, struct vgc_timing *timing);
VGC_API void vgc_job_release(struct vgc_job *job);       /* a job that still runs is freed when it ends */
VGC_API void vgc_last_timing(struct vgc_timing *timing); /* of this thread's last finished job */

/* Adds a call of an interface above this library, from `start_ns` of CLOCK_MONOTONIC until now, to what `vgc trace`
 * shows; without that it does nothing. */
VGC_API void vgc_trace_call(const char *name, uint64_t start_ns);

/* First failure of a detached job since the last call, or VGC_OK; vgc_last_error() is then what the host said. */
VGC_API int vgc_detached_failure(struct vgc_device *device);

/* [/cdef] */

/* In place of `job`, for work that nobody waits for by itself: the function returns once the request is published, and
 * waits for room if the queue is full. What goes wrong later is kept for vgc_detached_failure(). A copy out that does
 * not go to the region, and a large copy in that does not come from there, are waited for nevertheless. */
#define VGC_DETACHED ((struct vgc_job **)1)

#ifdef __cplusplus
}
#endif
#endif
