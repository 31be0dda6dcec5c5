/* The VM's memory quota: what is charged to it, and buffers that are kept for later requests until they must give way.
 */
#include "internal.h"

uint64_t vgc_charge_of(const struct vgc_dp *dp, uint64_t size)
{
    uint64_t granularity = dp->engine->alloc_granularity != 0 ? dp->engine->alloc_granularity : 1;
    uint64_t padded;
    if (__builtin_add_overflow(size, granularity - 1, &padded))
        return UINT64_MAX;
    return padded & ~(granularity - 1);
}

int vgc_memory_charge(struct vgc_dp *dp, uint64_t bytes)
{
    if (bytes > dp->config.memory_bytes - dp->memory_used)
        vgc_temp_drop_all(dp);
    if (bytes > dp->config.memory_bytes - dp->memory_used)
        return -EDQUOT;
    dp->memory_used += bytes;
    return 0;
}

int vgc_memory_take(struct vgc_dp *dp, uint64_t size, uint64_t charge, uint64_t *address)
{
    int error = vgc_memory_charge(dp, charge);
    if (error != 0)
        return error;
    error = dp->engine->ops->alloc(dp->engine, size, address);
    if (error != 0)
        dp->memory_used -= charge;
    return error;
}

int vgc_temp_get(struct vgc_dp *dp, uint64_t *size, uint64_t *address)
{
    enum { SMALLEST = 65536 };
    if (*size > UINT64_MAX / 4)
        return -ENOMEM;
    uint64_t rounded = SMALLEST;
    while (rounded < *size)
        rounded *= 2;
    for (size_t i = 0; i < sizeof(dp->temps) / sizeof(dp->temps[0]); i++) {
        struct vgc_temp *temp = &dp->temps[i];
        if (temp->address == 0 || temp->size != rounded)
            continue;
        *address = temp->address;
        *size = temp->size;
        *temp = (struct vgc_temp){0};
        return 0;
    }
    if (vgc_memory_take(dp, rounded, vgc_charge_of(dp, rounded), address) == 0) {
        *size = rounded;
        return 0;
    }
    return vgc_memory_take(dp, *size, vgc_charge_of(dp, *size), address);
}

void vgc_temp_free(struct vgc_dp *dp, uint64_t address, uint64_t size)
{
    dp->engine->ops->free(dp->engine, address, size);
    dp->memory_used -= vgc_charge_of(dp, size);
}

void vgc_temp_put(struct vgc_dp *dp, uint64_t address, uint64_t size)
{
    enum { LARGEST_KEPT = 16 << 20 };
    struct vgc_temp temp = {address, size};
    for (size_t i = 0; size <= LARGEST_KEPT && i < sizeof(dp->temps) / sizeof(dp->temps[0]); i++) {
        if (dp->temps[i].address == 0) {
            dp->temps[i] = temp;
            return;
        }
    }
    vgc_temp_free(dp, address, size);
}

void vgc_temp_drop_all(struct vgc_dp *dp)
{
    for (size_t i = 0; i < sizeof(dp->temps) / sizeof(dp->temps[0]); i++) {
        if (dp->temps[i].address != 0)
            vgc_temp_free(dp, dp->temps[i].address, dp->temps[i].size);
        dp->temps[i] = (struct vgc_temp){0};
    }
}
