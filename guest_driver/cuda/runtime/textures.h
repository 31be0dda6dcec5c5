/* Arrays, mipmaps, and textures of them. */
#ifndef VGC_CUDART_TEXTURES_H
#define VGC_CUDART_TEXTURES_H

#include "base.h"
/* ---- arrays.c ---------------------------------------------------------------------------------------------------- */

/* Memory of an array, and of all levels of a mipmap; objects of textures and surfaces keep it, too. */
struct rt_texels {
    atomic_uint users;
    struct rt_device *device;
    uint32_t epoch;
    struct vgc_array *array;
    struct vgc_array_shape shape;
};

struct cudaArray {
    struct cudaArray *next;
    struct rt_texels *texels;
    struct cudaMipmappedArray *mipmap; /* NULL: none */
    uint32_t level;
    struct cudaExtent extent; /* of the level, as the program gave it */
};

struct cudaMipmappedArray {
    struct cudaMipmappedArray *next;
    struct rt_texels *texels;
    struct cudaArray *levels; /* texels->shape.levels of them */
};

struct rt_format {
    uint32_t kind;
    uint32_t bits;
    uint32_t channels;
};

cudaError_t rt_format_of(const struct cudaChannelFormatDesc *description, struct rt_format *format);
/* The array if it is one that lives; else cudaErrorInvalidResourceHandle. */
cudaError_t rt_check_array(cudaArray_const_t array);
cudaError_t rt_check_mipmap(cudaMipmappedArray_const_t mipmap);
uint32_t rt_texel_bytes(const struct rt_texels *texels);
struct rt_texels *rt_keep_texels(struct rt_texels *texels);
cudaError_t rt_drop_texels(struct rt_texels *texels);

/* ---- textures.c -------------------------------------------------------------------------------------------------- */

/* Makes libvgc's form of a texture. `texels` is those that it reads; NULL: memory. */
cudaError_t rt_texture_form(const struct cudaResourceDesc *resource, const struct cudaTextureDesc *sampling,
                            const struct cudaResourceViewDesc *view, struct vgc_texture_form *form,
                            struct rt_texels **texels);

#endif
