/* Linkers that programs call as they run: the driver's cuLink..., and nvJitLink. What they make is an image for
 * cuModuleLoadData(); the host links when that is loaded, and once before, for the log. */
#ifndef VGC_CUDART_LINKS_H
#define VGC_CUDART_LINKS_H

#include "base.h"
#include "driver.h"
#include "rtc.h"

/* ---- inputs.c ---------------------------------------------------------------------------------------------------- */

/* An image with several inputs, as vgc_units_pack() makes them; their bytes follow. */
struct rt_linked {
    char magic[8]; /* RT_LINKED_MAGIC, with its NUL */
    uint64_t size; /* of the bytes behind this */
};
#define RT_LINKED_MAGIC "VGCLINK"

struct rt_link_input {
    char *name;
    char *bytes; /* with NULs behind them */
    size_t size;
};

struct rt_link {
    struct rt_link_input *inputs;
    size_t num_inputs;
    void *image; /* once it is complete */
    size_t image_size;
};

/* Adds a copy of an input. CUDA_ERROR_INVALID_IMAGE: it is of a kind that nothing here links. */
CUresult rt_link_add(struct rt_link *link, const char *name, const void *bytes, size_t size);
/* Likewise, of a file. */
CUresult rt_link_add_file(struct rt_link *link, const char *path);
/* Writes why an input was refused, if its code alone says too little. */
void rt_link_explain(CUresult result, const char *name, struct rt_text *words);
/* Makes the image, and has the device load it once: what it says is written to the logs of `jit`, and to `words` unless
 * that is NULL. Without a device, errors are found when the image is loaded. */
CUresult rt_link_complete(struct rt_link *link, struct rt_device *device, const struct rt_jit *jit,
                          struct rt_text *words);
void rt_link_free(struct rt_link *link);

/* ---- names.c ----------------------------------------------------------------------------------------------------- */

/* Written by table.awk. */
extern const struct rt_named_function RT_LINK_NAMES[];
extern const size_t RT_NUM_LINK_NAMES;

/* nvJitLink's function with that name; NULL: it has no such function. */
RT_API void *vgc_nvjitlink_function(const char *name);

#endif
