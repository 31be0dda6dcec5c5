/* Container that mynvcc embeds in an object file as its "fat binary": the source of a file's GPU part, and how to
 * compile it. The struct is followed by the name, the options (NUL-terminated) and the text, with nothing between or
 * behind. Little endian, aligned to 8 bytes. */
#ifndef VGC_CUDA_BLOB_H
#define VGC_CUDA_BLOB_H

#include <stdint.h>

#define VGC_CUDA_BLOB_MAGIC "VGCUDA1" /* with its NUL */

enum {
    VGC_CUDA_BLOB_RELOCATABLE = 1, /* of -rdc=true: linked with all others of its executable or library */
};

struct vgc_cuda_blob {
    char magic[8];
    uint32_t flags;
    uint32_t name_len; /* of the file, as the user named it */
    uint32_t options_len;
    uint32_t reserved; /* 0 */
    uint64_t text_len;
};

/* Argument of __cudaRegisterFatBinary(): `data` points to a vgc_cuda_blob, or to a fat binary of NVIDIA's. */
struct vgc_cuda_wrapper {
    int32_t magic; /* VGC_CUDA_WRAPPER_MAGIC */
    int32_t version;
    const void *data;
    void *unused;
};

enum { VGC_CUDA_WRAPPER_MAGIC = 0x466243b1 };

#endif
