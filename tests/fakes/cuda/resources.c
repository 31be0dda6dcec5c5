/* Parts of a device's multiprocessors, for green contexts. [cuda.h, Green Contexts] */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { COSCHEDULING_IGNORED = 1, LARGEST_CLUSTERS = 2, PAIR = 2 };

/* Origin of a resource: only resources that the driver filled in are accepted. */
struct stamp {
    char magic[4];
    int device;
    unsigned int split; /* number of the split that made it; 0: none */
    unsigned int group; /* group in that split */
};

struct fake_resource { /* the object of a descriptor; exists until the process ends */
    int device;
    unsigned int sms;
};

static void fill(CUdevResource *resource, int number, unsigned int sms)
{
    const struct fake_device *device = &fake.settings.devices[number];
    const struct stamp stamp = {.magic = "fake", .device = number};
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = sms;
    resource->sm.minSmPartitionSize = (unsigned int)device->min_partition;
    resource->sm.smCoscheduledAlignment = (unsigned int)device->granularity;
    memcpy(resource->_internal_padding, &stamp, sizeof stamp);
}

static struct stamp stamp_of(const CUdevResource *resource)
{
    struct stamp stamp;
    memcpy(&stamp, resource->_internal_padding, sizeof stamp);
    return stamp;
}

static CUresult check(const CUdevResource *resource)
{
    if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (memcmp(resource->_internal_padding, "fake", 4) == 0)
        return CUDA_SUCCESS;
    fake_misuse("a CUdevResource that the driver did not fill in");
    return CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && (device < 0 || device >= fake.settings.num_devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result && type != CU_DEV_RESOURCE_TYPE_SM)
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!result)
        fill(resource, device, (unsigned int)fake.settings.devices[device].sms);
    FAKE_LEAVE("%d, %d", device, (int)type);
}

/* The multiprocessors of a context, green or not. */
static CUresult sms_of(const struct fake_context *context, CUdevResource *resource, CUdevResourceType type)
{
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    fill(resource, context->device, context->sms);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource, CUdevResourceType type)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        result = sms_of(fake_handle_get(handle, FAKE_CONTEXT), resource, type);
    FAKE_LEAVE("%p, %d", (void *)handle, (int)type);
}

FAKE_API CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *resource, CUdevResourceType type)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        result = sms_of(fake_handle_get(handle, FAKE_GREEN), resource, type);
    FAKE_LEAVE("%p, %d", (void *)handle, (int)type);
}

/* ---- splitting ---------------------------------------------------------------------------------------------- */

/* Size of each group that the device can form. Without regard to clusters, pairs that share a TPC are not separated;
 * that is assumed, as the documentation only says "lower". */
static unsigned int size_of_groups(const CUdevResource *input, unsigned int flags, unsigned int wanted)
{
    bool pairs = flags & COSCHEDULING_IGNORED;
    unsigned int unit = pairs ? PAIR : input->sm.smCoscheduledAlignment;
    unsigned int least = pairs ? PAIR : input->sm.minSmPartitionSize;
    unsigned int size = wanted < least ? least : wanted;
    return (size + unit - 1) / unit * unit;
}

static void derive(CUdevResource *part, const CUdevResource *input, unsigned int sms, struct stamp stamp)
{
    *part = *input;
    part->type = sms ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
    part->sm.smCount = sms;
    memcpy(part->_internal_padding, &stamp, sizeof stamp);
}

static CUresult split(CUdevResource *groups, unsigned int *num_groups, const CUdevResource *input,
                      CUdevResource *remaining, unsigned int size)
{
    static unsigned int splits;
    const unsigned int sms = input->sm.smCount, possible = sms / size;
    struct stamp stamp = stamp_of(input);
    if (!groups) {
        *num_groups = possible;
        return CUDA_SUCCESS;
    }
    if (!possible)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (*num_groups > possible)
        *num_groups = possible;
    stamp.split = ++splits;
    for (unsigned int i = 0; i < *num_groups; i++) {
        stamp.group = i;
        derive(&groups[i], input, size, stamp);
    }
    stamp.group = *num_groups;
    if (remaining)
        derive(remaining, input, sms - size * *num_groups, stamp);
    return CUDA_SUCCESS;
}

static CUresult check_split(const CUdevResource *groups, const unsigned int *num_groups, const CUdevResource *input,
                            unsigned int flags, unsigned int wanted)
{
    if (!num_groups || !input || flags > (COSCHEDULING_IGNORED | LARGEST_CLUSTERS) || (groups && !*num_groups))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check(input);
    if (result)
        return result;
    if (stamp_of(input).split) {
        fake_misuse("what came out of a split was split again, without a green context made of it");
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    bool has_clusters = fake.settings.devices[stamp_of(input).device].major >= 9;
    if (wanted > input->sm.smCount || ((flags & LARGEST_CLUSTERS) && !has_clusters))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned int *num_groups,
                                              const CUdevResource *input, CUdevResource *remaining, unsigned int flags,
                                              unsigned int wanted)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        result = check_split(groups, num_groups, input, flags, wanted);
    if (!result)
        result = split(groups, num_groups, input, remaining, size_of_groups(input, flags, wanted));
    FAKE_LEAVE("groups=%u, flags=%u, wanted=%u", num_groups ? *num_groups : 0, flags, wanted);
}

/* ---- descriptors -------------------------------------------------------------------------------------------- */

/* Several parts must be different groups of one split. */
static CUresult check_parts(const CUdevResource *parts, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        CUresult result = check(&parts[i]);
        struct stamp first = stamp_of(&parts[0]), stamp = stamp_of(&parts[i]);
        if (result)
            return result;
        if (i && (stamp.device != first.device || !stamp.split || stamp.split != first.split))
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        for (unsigned int j = 0; j < i; j++)
            if (stamp_of(&parts[j]).group == stamp.group)
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *parts, unsigned int count)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        result = desc && parts && count ? check_parts(parts, count) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        struct fake_resource *resource = calloc(1, sizeof *resource);
        if (!resource)
            abort();
        resource->device = stamp_of(&parts[0]).device;
        for (unsigned int i = 0; i < count; i++)
            resource->sms += parts[i].sm.smCount;
        *desc = fake_handle_new(FAKE_RESOURCE, resource);
    }
    FAKE_LEAVE("%u", count);
}

CUresult fake_resource_get(CUdevResourceDesc desc, CUdevice device, unsigned int *sms)
{
    const struct fake_resource *resource = fake_handle_get(desc, FAKE_RESOURCE);
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    *sms = resource->sms;
    if (resource->device == device)
        return CUDA_SUCCESS;
    fake_misuse("a green context of device %d with multiprocessors of device %d", device, resource->device);
    return CUDA_ERROR_INVALID_VALUE;
}
