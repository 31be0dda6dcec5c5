/* CPU versions of kernels: what mynvcc builds of a file's kernels (a shared library, embedded behind the GPU part), and
 * libcudart runs. */
#pragma once

#define VGC_LOCAL_TABLE "vgc_local_table" /* the library's one name */

enum vgc_local_constant {
    VGC_LOCAL_VERSION = 1,
    VGC_LOCAL_DYNAMIC_BYTES = 227 << 10, /* most dynamic shared memory of a block */
};

enum vgc_local_flag {
    VGC_LOCAL_WAITS = 1,  /* threads wait for one another: each needs a stack of its own */
    VGC_LOCAL_MARKED = 2, /* __vgc_either__ in the source; else chosen by mynvcc --either */
};

enum vgc_local_failure { VGC_LOCAL_TRAP, VGC_LOCAL_ASSERT };

/* Functions of the runtime that the library calls, for the running thread. */
struct vgc_local_calls {
    void (*barrier)(void);
    int (*reduce)(int kind, int predicate);
    unsigned long long (*warp)(int kind, unsigned mask, unsigned long long value, unsigned arg);
    void (*yield)(void);
    void (*fail)(int failure); /* does not return */
};

/* The running thread of the kernel. */
struct vgc_local_here {
    unsigned tid[3], ntid[3], ctaid[3], nctaid[3];
    unsigned linear; /* number of the thread in its block */
    const struct vgc_local_calls *calls;
};

/* A device variable that a kernel reaches, and the library's copy of it. */
struct vgc_local_variable {
    const char *name; /* the linker's */
    void *address;
    const unsigned long long *size;
};

struct vgc_local_kernel {
    const char *name;              /* the linker's */
    const char *source_name;       /* without namespaces and arguments */
    void (*run)(void **arguments); /* one thread of it */
    unsigned flags;
    unsigned num_parameters;
    const unsigned *sizes; /* of the parameters */
    unsigned num_variables;
    const struct vgc_local_variable *variables;
};

/* A __host__ __device__ function, as compiled for the CPU. */
struct vgc_local_function {
    const char *name;
    const char *source_name;
    void (*address)(void); /* to be called as what it is */
};

struct vgc_local_table {
    unsigned version;
    unsigned num_kernels;
    const struct vgc_local_kernel *kernels;
    unsigned num_functions;
    const struct vgc_local_function *functions;
    void (*enter)(struct vgc_local_here *here); /* for this thread of the process */
};
