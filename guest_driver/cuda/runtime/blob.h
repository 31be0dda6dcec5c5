/* The GPU part of a compiled file, as mynvcc embeds it and libcudart reads it: source text. Little endian; whoever
 * embeds it aligns it to 8 bytes. Behind the header follow the name, the options and the text, with nothing between;
 * behind the text, if a flag says so, zeroes up to a multiple of 8 bytes from the header, the length of a shared
 * library with CPU versions of kernels (uint64_t), and that library. */
#pragma once
#include <stdint.h>

#define VGC_CUDA_BLOB_MAGIC "VGCUDA1" /* with its NUL, the eight bytes of `magic` */

enum vgc_cuda_blob_flag {
    VGC_CUDA_BLOB_RELOCATABLE = 1, /* -rdc=true: refers to functions and variables of other files */
    VGC_CUDA_BLOB_LOCAL = 2,       /* with CPU versions of kernels */
};

struct vgc_cuda_blob {
    char magic[8];
    uint32_t flags;
    uint32_t name_len;    /* of the file's name as its user wrote it */
    uint32_t options_len; /* of the options for the device's compiler, each with a NUL */
    uint32_t reserved;
    uint64_t text_len;
};
#ifdef __cplusplus
static_assert(sizeof(vgc_cuda_blob) == 32, "the layout is shared with programs that exist");
#else
_Static_assert(sizeof(struct vgc_cuda_blob) == 32, "the layout is shared with programs that exist");
#endif

/* Head of a container as a text, for programs that take it for PTX; NVRTC hands it out, too. A number of options
 * follows, then these, a line each, with \n and \\ for the end of a line and a backslash, then the source. */
#define VGC_CUDA_TEXT_HEAD                                                                                             \
    "// CUDA C, which virtio-gpu-compute has the host compile for its GPU.\n"                                          \
    "//# vgc cuda "

/* Argument of __cudaRegisterFatBinary(): `data` points to a vgc_cuda_blob, or to a fat binary of NVIDIA's. */
struct vgc_cuda_wrapper {
    int32_t magic; /* VGC_CUDA_WRAPPER_MAGIC */
    int32_t version;
    const void *data;
    void *unused;
};

enum { VGC_CUDA_WRAPPER_MAGIC = 0x466243b1 };
