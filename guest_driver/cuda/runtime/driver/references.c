/* Texture and surface references of modules: variables that say which texture or surface a kernel reads. The calls note
 * what is bound and how it is read, in any order; a launch of a kernel of the module then makes the object, and writes
 * it into the variable. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define MAGIC UINT64_C(0x7874634347560003)
enum { MAX_NAME = 256 };

struct reference {
    uint64_t magic;
    struct reference *next;
    bool is_surface;
    CUmodule module; /* NULL: of cuTexRefCreate(), which no kernel reads */
    char name[MAX_NAME];
    CUdeviceptr address; /* of the variable */
    bool is_bound;
    bool is_changed; /* since the variable was written */
    CUDA_RESOURCE_DESC resource;
    CUarray_format format; /* of memory */
    unsigned components;
    CUDA_TEXTURE_DESC sampling;
    unsigned long long object; /* that the variable has; 0: none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of all references */
static struct reference *references;
static atomic_uint num_changed; /* while it is 0, launches look for none */

/* ---- handles -------------------------------------------------------------------------------- */

/* With the lock. */
static bool is_reference(const void *handle, bool is_surface)
{
    const struct reference *reference = handle;
    return reference != NULL && reference->magic == MAGIC && reference->is_surface == is_surface;
}

/* With the lock. */
static void note_change(struct reference *reference)
{
    if (!reference->is_changed && reference->module != NULL)
        (void)atomic_fetch_add(&num_changed, 1);
    reference->is_changed = true;
}

/* With the lock. */
static void note_bound(struct reference *reference)
{
    if (reference->is_changed && reference->module != NULL)
        (void)atomic_fetch_sub(&num_changed, 1);
    reference->is_changed = false;
}

static struct reference *new_reference(bool is_surface)
{
    struct reference *made = rt_handle_new(sizeof(*made));
    if (made == NULL)
        return NULL;
    *made = (struct reference){.magic = MAGIC, .is_surface = is_surface, .format = CU_AD_FORMAT_FLOAT, .components = 1};
    return made;
}

/* The module's reference with that name. As a variable it begins with the object. */
static CUresult get_reference(CUmodule module, const char *name, bool is_surface, struct reference **out)
{
    CUdeviceptr address = 0;
    size_t size = 0;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result =
            out == NULL || name == NULL ? CUDA_ERROR_INVALID_VALUE : cuModuleGetGlobal(&address, &size, module, name);
    if (result != CUDA_SUCCESS)
        return result;
    if (size < sizeof(unsigned long long) || strlen(name) >= MAX_NAME)
        return RT_ASK(rt_explain(cudaErrorSymbolNotFound, "'%s' has %zu bytes and is no texture or surface reference",
                                 name, size));
    (void)pthread_mutex_lock(&lock);
    struct reference *found = references;
    while (found != NULL &&
           !(found->module == module && found->is_surface == is_surface && strcmp(found->name, name) == 0))
        found = found->next;
    if (found == NULL) {
        found = new_reference(is_surface);
        if (found != NULL) {
            found->module = module;
            (void)strcpy(found->name, name);
            found->address = address;
            found->next = references;
            references = found;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    *out = found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name)
{
    return get_reference(module, name, false, (struct reference **)reference);
}

CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name)
{
    return get_reference(module, name, true, (struct reference **)reference);
}

CUresult cuTexRefCreate(CUtexref *reference)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (reference == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct reference *made = new_reference(false);
    *reference = (CUtexref)made;
    return made != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* References of modules go with their module. */
CUresult cuTexRefDestroy(CUtexref handle)
{
    struct reference *reference = (struct reference *)handle;
    (void)pthread_mutex_lock(&lock);
    const bool is_own = is_reference(reference, false) && reference->module == NULL;
    if (is_own)
        rt_handle_free(reference, sizeof(*reference));
    (void)pthread_mutex_unlock(&lock);
    return is_own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- binding -------------------------------------------------------------------------------- */

static cudaError_t destroy_object(const struct reference *reference, unsigned long long object)
{
    return reference->is_surface ? cudaDestroySurfaceObject(object) : cudaDestroyTextureObject(object);
}

static CUresult make_object(const struct reference *reference, unsigned long long *object)
{
    struct cudaResourceDesc resource;
    struct cudaTextureDesc sampling;
    CUresult result = rt_resource_of(&reference->resource, &resource);
    if (result == CUDA_SUCCESS && reference->is_surface)
        return RT_ASK(cudaCreateSurfaceObject(object, &resource));
    if (result == CUDA_SUCCESS)
        result = rt_sampling_of(&reference->sampling, &sampling);
    return result == CUDA_SUCCESS ? RT_ASK(cudaCreateTextureObject(object, &resource, &sampling, NULL)) : result;
}

/* With the lock. Kernels that read the object before end first. */
static CUresult bind(struct reference *reference)
{
    unsigned long long made = 0;
    CUresult result = reference->is_bound ? make_object(reference, &made) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && reference->object != 0)
        result = RT_ASK(cudaDeviceSynchronize());
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaMemcpy((void *)(uintptr_t)reference->address, &made, sizeof(made), cudaMemcpyHostToDevice));
    if (result != CUDA_SUCCESS) {
        (void)RT_ASK(destroy_object(reference, made));
        return result;
    }
    (void)RT_ASK(destroy_object(reference, reference->object));
    reference->object = made;
    note_bound(reference);
    return CUDA_SUCCESS;
}

CUresult rt_bind_references(const struct rt_unit *unit)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&num_changed) == 0)
        return CUDA_SUCCESS;
    (void)pthread_mutex_lock(&lock);
    for (struct reference *at = references; at != NULL && result == CUDA_SUCCESS; at = at->next)
        if (at->is_changed && &at->module->unit == unit)
            result = bind(at);
    (void)pthread_mutex_unlock(&lock);
    return result == CUDA_SUCCESS ? result : CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING;
}

void rt_forget_references(CUmodule module)
{
    (void)pthread_mutex_lock(&lock);
    for (struct reference **at = &references; *at != NULL;) {
        struct reference *reference = *at;
        if (reference->module != module) {
            at = &reference->next;
            continue;
        }
        *at = reference->next;
        note_bound(reference);
        (void)RT_ASK(destroy_object(reference, reference->object));
        rt_handle_free(reference, sizeof(*reference));
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Does `change`, an expression that uses `of`, with a reference that is one and the lock held. */
#define CHANGE(handle, surface, is_allowed, change)                                                                    \
    ({                                                                                                                 \
        struct reference *of = (struct reference *)(handle);                                                           \
        CUresult changed_ = rt_enter_context(NULL, NULL);                                                              \
        (void)pthread_mutex_lock(&lock);                                                                               \
        if (changed_ == CUDA_SUCCESS && (!is_reference(of, surface) || !(is_allowed)))                                 \
            changed_ = CUDA_ERROR_INVALID_VALUE;                                                                       \
        if (changed_ == CUDA_SUCCESS) {                                                                                \
            (void)(change);                                                                                            \
            note_change(of);                                                                                           \
        }                                                                                                              \
        (void)pthread_mutex_unlock(&lock);                                                                             \
        changed_;                                                                                                      \
    })

static void set_resource(struct reference *reference, const CUDA_RESOURCE_DESC *resource)
{
    reference->resource = *resource;
    reference->is_bound = true;
}

CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned int flags)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_ARRAY3D_DESCRIPTOR description;
    resource.res.array.hArray = array;
    const CUresult result = cuArray3DGetDescriptor(&description, array);
    if (result != CUDA_SUCCESS)
        return result;
    return CHANGE(
        reference, false, flags == CU_TRSA_OVERRIDE_FORMAT,
        (set_resource(of, &resource), of->format = description.Format, of->components = description.NumChannels));
}

CUresult cuTexRefSetMipmappedArray(CUtexref reference, CUmipmappedArray mipmap, unsigned int flags)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    CUDA_ARRAY3D_DESCRIPTOR description;
    CUarray level;
    resource.res.mipmap.hMipmappedArray = mipmap;
    CUresult result = cuMipmappedArrayGetLevel(&level, mipmap, 0);
    if (result == CUDA_SUCCESS)
        result = cuArray3DGetDescriptor(&description, level);
    if (result != CUDA_SUCCESS)
        return result;
    return CHANGE(
        reference, false, flags == CU_TRSA_OVERRIDE_FORMAT,
        (set_resource(of, &resource), of->format = description.Format, of->components = description.NumChannels));
}

/* With the lock: memory is read by the format that was set last, before or after the memory was. */
static void set_format(struct reference *reference, CUarray_format format, unsigned components)
{
    reference->format = format;
    reference->components = components;
    if (reference->resource.resType == CU_RESOURCE_TYPE_LINEAR) {
        reference->resource.res.linear.format = format;
        reference->resource.res.linear.numChannels = components;
    }
    if (reference->resource.resType == CU_RESOURCE_TYPE_PITCH2D) {
        reference->resource.res.pitch2D.format = format;
        reference->resource.res.pitch2D.numChannels = components;
    }
}

/* Textures begin at any texel, so that the offset is always 0. */
CUresult cuTexRefSetAddress(size_t *offset, CUtexref reference, CUdeviceptr memory, size_t bytes)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    resource.res.linear.devPtr = memory;
    resource.res.linear.sizeInBytes = bytes;
    const CUresult result = CHANGE(reference, false, memory != 0 && bytes != 0,
                                   (set_resource(of, &resource), set_format(of, of->format, of->components)));
    if (result == CUDA_SUCCESS && offset != NULL)
        *offset = 0;
    return result;
}

CUresult cuTexRefSetAddress2D(CUtexref reference, const CUDA_ARRAY_DESCRIPTOR *description, CUdeviceptr memory,
                              size_t pitch)
{
    struct cudaChannelFormatDesc channels;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    if (description == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = rt_channels_of(description->Format, description->NumChannels, &channels);
    if (result != CUDA_SUCCESS)
        return result;
    resource.res.pitch2D.devPtr = memory;
    resource.res.pitch2D.width = description->Width;
    resource.res.pitch2D.height = description->Height;
    resource.res.pitch2D.pitchInBytes = pitch;
    return CHANGE(reference, false, memory != 0,
                  (set_resource(of, &resource), set_format(of, description->Format, description->NumChannels)));
}

CUresult cuTexRefSetFormat(CUtexref reference, CUarray_format format, int components)
{
    struct cudaChannelFormatDesc channels;
    const CUresult result = rt_channels_of(format, (unsigned)components, &channels);
    if (result != CUDA_SUCCESS)
        return result;
    return CHANGE(reference, false, true, set_format(of, format, (unsigned)components));
}

CUresult cuTexRefSetAddressMode(CUtexref reference, int dimension, CUaddress_mode mode)
{
    return CHANGE(reference, false,
                  dimension >= 0 && dimension < 3 && (unsigned)mode <= (unsigned)CU_TR_ADDRESS_MODE_BORDER,
                  of->sampling.addressMode[dimension] = mode);
}

CUresult cuTexRefSetFilterMode(CUtexref reference, CUfilter_mode mode)
{
    return CHANGE(reference, false, (unsigned)mode <= (unsigned)CU_TR_FILTER_MODE_LINEAR,
                  of->sampling.filterMode = mode);
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref reference, CUfilter_mode mode)
{
    return CHANGE(reference, false, (unsigned)mode <= (unsigned)CU_TR_FILTER_MODE_LINEAR,
                  of->sampling.mipmapFilterMode = mode);
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref reference, float bias)
{
    return CHANGE(reference, false, true, of->sampling.mipmapLevelBias = bias);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref reference, float min, float max)
{
    return CHANGE(reference, false, true,
                  (of->sampling.minMipmapLevelClamp = min, of->sampling.maxMipmapLevelClamp = max));
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref reference, unsigned int most)
{
    return CHANGE(reference, false, true, of->sampling.maxAnisotropy = most);
}

CUresult cuTexRefSetBorderColor(CUtexref reference, float *color)
{
    return CHANGE(reference, false, color != NULL,
                  memcpy(of->sampling.borderColor, color, sizeof(of->sampling.borderColor)));
}

CUresult cuTexRefSetFlags(CUtexref reference, unsigned int flags)
{
    struct cudaTextureDesc sampling;
    const CUresult result = rt_sampling_of(&(CUDA_TEXTURE_DESC){.flags = flags}, &sampling); /* are there such flags? */
    return result == CUDA_SUCCESS ? CHANGE(reference, false, true, of->sampling.flags = flags) : result;
}

CUresult cuSurfRefSetArray(CUsurfref reference, CUarray array, unsigned int flags)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = array;
    const CUresult result = RT_IN_CONTEXT(rt_check_array((cudaArray_t)array));
    return result == CUDA_SUCCESS ? CHANGE(reference, true, flags == 0, set_resource(of, &resource)) : result;
}

/* A launch takes along all references of its kernel's module: naming one does nothing. */
CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref reference)
{
    struct rt_function *found;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = rt_check_kernel(function, &found);
    if (result != CUDA_SUCCESS)
        return result;
    (void)pthread_mutex_lock(&lock);
    const bool is_right = unit == CU_PARAM_TR_DEFAULT && is_reference(reference, false);
    (void)pthread_mutex_unlock(&lock);
    return is_right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- questions ------------------------------------------------------------------------------ */

/* Does `answer` likewise. */
#define ASK(handle, surface, is_allowed, answer)                                                                       \
    ({                                                                                                                 \
        const struct reference *of = (const struct reference *)(handle);                                               \
        CUresult asked_ = rt_enter_context(NULL, NULL);                                                                \
        (void)pthread_mutex_lock(&lock);                                                                               \
        if (asked_ == CUDA_SUCCESS && (!is_reference(of, surface) || !(is_allowed)))                                   \
            asked_ = CUDA_ERROR_INVALID_VALUE;                                                                         \
        if (asked_ == CUDA_SUCCESS)                                                                                    \
            (void)(answer);                                                                                            \
        (void)pthread_mutex_unlock(&lock);                                                                             \
        asked_;                                                                                                        \
    })

static bool has(const struct reference *reference, CUresourcetype type)
{
    return reference->is_bound && reference->resource.resType == type;
}

CUresult cuTexRefGetAddress(CUdeviceptr *memory, CUtexref reference)
{
    return ASK(reference, false,
               memory != NULL && (has(of, CU_RESOURCE_TYPE_LINEAR) || has(of, CU_RESOURCE_TYPE_PITCH2D)),
               *memory = of->resource.resType == CU_RESOURCE_TYPE_LINEAR ? of->resource.res.linear.devPtr
                                                                         : of->resource.res.pitch2D.devPtr);
}

CUresult cuTexRefGetArray(CUarray *array, CUtexref reference)
{
    return ASK(reference, false, array != NULL && has(of, CU_RESOURCE_TYPE_ARRAY),
               *array = of->resource.res.array.hArray);
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *mipmap, CUtexref reference)
{
    return ASK(reference, false, mipmap != NULL && has(of, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY),
               *mipmap = of->resource.res.mipmap.hMipmappedArray);
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *mode, CUtexref reference, int dimension)
{
    return ASK(reference, false, mode != NULL && dimension >= 0 && dimension < 3,
               *mode = of->sampling.addressMode[dimension]);
}

CUresult cuTexRefGetFilterMode(CUfilter_mode *mode, CUtexref reference)
{
    return ASK(reference, false, mode != NULL, *mode = of->sampling.filterMode);
}

CUresult cuTexRefGetFormat(CUarray_format *format, int *components, CUtexref reference)
{
    return ASK(reference, false, format != NULL && components != NULL,
               (*format = of->format, *components = (int)of->components));
}

CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *mode, CUtexref reference)
{
    return ASK(reference, false, mode != NULL, *mode = of->sampling.mipmapFilterMode);
}

CUresult cuTexRefGetMipmapLevelBias(float *bias, CUtexref reference)
{
    return ASK(reference, false, bias != NULL, *bias = of->sampling.mipmapLevelBias);
}

CUresult cuTexRefGetMipmapLevelClamp(float *min, float *max, CUtexref reference)
{
    return ASK(reference, false, min != NULL && max != NULL,
               (*min = of->sampling.minMipmapLevelClamp, *max = of->sampling.maxMipmapLevelClamp));
}

CUresult cuTexRefGetMaxAnisotropy(int *most, CUtexref reference)
{
    return ASK(reference, false, most != NULL, *most = (int)of->sampling.maxAnisotropy);
}

CUresult cuTexRefGetBorderColor(float *color, CUtexref reference)
{
    return ASK(reference, false, color != NULL,
               memcpy(color, of->sampling.borderColor, sizeof(of->sampling.borderColor)));
}

CUresult cuTexRefGetFlags(unsigned int *flags, CUtexref reference)
{
    return ASK(reference, false, flags != NULL, *flags = of->sampling.flags);
}

CUresult cuSurfRefGetArray(CUarray *array, CUsurfref reference)
{
    return ASK(reference, true, array != NULL && of->is_bound, *array = of->resource.res.array.hArray);
}
