/* The VM's memory quota: what is charged to it, and buffers that are kept for later requests until they must give way,
 * and the worker's own memory for the nodes of graphs. */
#include "internal.h"

#include <stdlib.h>

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
    if (bytes > vgc_memory_left(dp))
        vgc_temp_drop_all(dp);
    if (bytes > vgc_memory_left(dp))
        return -EDQUOT;
    dp->memory_used += bytes;
    vgc_count_memory(dp);
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
        dp->temp_bytes -= temp->size;
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
    enum { MOST_KEPT = 128 << 20 };
    bool fits = size <= MOST_KEPT && dp->temp_bytes <= MOST_KEPT - size;
    for (size_t i = 0; fits && i < sizeof(dp->temps) / sizeof(dp->temps[0]); i++) {
        if (dp->temps[i].address == 0) {
            dp->temps[i] = (struct vgc_temp){address, size};
            dp->temp_bytes += size;
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
    dp->temp_bytes = 0;
}

struct vgc_plan *vgc_plan_new(struct vgc_dp *dp, uint32_t num_nodes, uint32_t nodes_len)
{
    size_t nodes = num_nodes * sizeof(struct vgc_node);
    size_t bodies = num_nodes * sizeof(uint32_t);
    size_t params = (size_t)nodes_len + num_nodes * (size_t)VGC_PLAN_ALIGN;
    size_t head = (sizeof(struct vgc_plan) + nodes + bodies + VGC_PLAN_ALIGN - 1) & ~(size_t)(VGC_PLAN_ALIGN - 1);
    uint64_t charge = vgc_charge_of(dp, head + params + nodes_len);
    if (vgc_memory_charge(dp, charge) != 0)
        return NULL;
    uint8_t *memory =
        aligned_alloc(VGC_PLAN_ALIGN, (head + params + nodes_len + VGC_PLAN_ALIGN) & ~(size_t)(VGC_PLAN_ALIGN - 1));
    if (memory == NULL) {
        dp->memory_used -= charge;
        return NULL;
    }
    struct vgc_plan *plan = (struct vgc_plan *)(void *)memory;
    *plan =
        (struct vgc_plan){.refs = 1, .num_nodes = num_nodes, .nodes_len = nodes_len, .charged = charge, .is_raw = true};
    plan->nodes = (struct vgc_node *)(void *)(plan + 1);
    plan->bodies = (uint32_t *)(void *)(plan->nodes + num_nodes);
    plan->params = memory + head;
    plan->bytes = plan->params + params;
    dp->plan_bytes += charge;
    return plan;
}

void vgc_plan_release(struct vgc_dp *dp, struct vgc_plan *plan)
{
    if (--plan->refs != 0)
        return;
    dp->memory_used -= plan->charged;
    dp->plan_bytes -= plan->charged;
    free(plan);
}
