/* Memory for links: a buddy allocator, whose blocks are powers of two that are split and joined again, so that no
 * number of opens and closes fragments it. Its state is kept outside of the area. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX, FREE = 0x80, INSIDE = 0x7f };

static uint32_t units_of(uint32_t order)
{
    return UINT32_C(1) << order;
}

static void push(struct vgc_control_memory *memory, uint32_t unit, uint32_t order)
{
    memory->order[unit] = (uint8_t)(order | FREE);
    memory->previous[unit] = NONE;
    memory->next[unit] = memory->free[order];
    if (memory->free[order] != NONE)
        memory->previous[memory->free[order]] = unit;
    memory->free[order] = unit;
}

static void pull(struct vgc_control_memory *memory, uint32_t unit, uint32_t order)
{
    uint32_t previous = memory->previous[unit], next = memory->next[unit];
    if (previous == NONE)
        memory->free[order] = next;
    else
        memory->next[previous] = next;
    if (next != NONE)
        memory->previous[next] = previous;
    memory->order[unit] = INSIDE;
}

/* Divides all units into the largest aligned blocks that fit. */
static void fill(struct vgc_control_memory *memory)
{
    uint32_t unit = 0;
    while (unit < memory->num_units) {
        uint32_t order = VGC_CONTROL_ORDERS - 1;
        while ((unit & (units_of(order) - 1)) != 0 || units_of(order) > memory->num_units - unit)
            order--;
        push(memory, unit, order);
        unit += units_of(order);
    }
}

int vgc_control_memory_init(struct vgc_control_memory *memory, uint64_t base, uint64_t size)
{
    memory->base = base;
    memory->num_units = (uint32_t)(size / VGC_CONTROL_UNIT);
    memory->order = malloc(memory->num_units + 1);
    memory->next = malloc((memory->num_units + 1) * sizeof(*memory->next));
    memory->previous = malloc((memory->num_units + 1) * sizeof(*memory->previous));
    if (memory->order == NULL || memory->next == NULL || memory->previous == NULL)
        return -ENOMEM;
    memset(memory->order, INSIDE, memory->num_units);
    for (uint32_t order = 0; order < VGC_CONTROL_ORDERS; order++)
        memory->free[order] = NONE;
    fill(memory);
    return 0;
}

void vgc_control_memory_close(struct vgc_control_memory *memory)
{
    free(memory->order);
    free(memory->next);
    free(memory->previous);
}

static uint32_t order_of(uint64_t size)
{
    uint32_t order = 0;
    while ((uint64_t)VGC_CONTROL_UNIT << order < size)
        order++;
    return order;
}

uint64_t vgc_control_memory_take(struct vgc_control_memory *memory, uint64_t size)
{
    uint32_t order = order_of(size), from = order;
    while (from < VGC_CONTROL_ORDERS && memory->free[from] == NONE)
        from++;
    if (from >= VGC_CONTROL_ORDERS)
        return 0;
    uint32_t unit = memory->free[from];
    pull(memory, unit, from);
    for (; from > order; from--)
        push(memory, unit + units_of(from - 1), from - 1);
    memory->order[unit] = (uint8_t)order;
    memory->used += (uint64_t)VGC_CONTROL_UNIT << order;
    return memory->base + (uint64_t)unit * VGC_CONTROL_UNIT;
}

void vgc_control_memory_give(struct vgc_control_memory *memory, uint64_t offset)
{
    uint32_t unit = (uint32_t)((offset - memory->base) / VGC_CONTROL_UNIT);
    uint32_t order = memory->order[unit];
    memory->used -= (uint64_t)VGC_CONTROL_UNIT << order;
    memory->order[unit] = INSIDE;
    while (order + 1 < VGC_CONTROL_ORDERS) {
        uint32_t buddy = unit ^ units_of(order);
        if (buddy >= memory->num_units || memory->order[buddy] != (order | FREE))
            break;
        pull(memory, buddy, order);
        unit &= ~units_of(order);
        order++;
    }
    push(memory, unit, order);
}

/* ---- urgent memory ----------------------------------------------------------------------------------------------- */

static bool is_urgent(uint32_t function)
{
    return function == VGC_CTL_FAULT || function == VGC_CTL_STDIO;
}

uint64_t vgc_control_link_take(struct vgc_control *control, uint32_t function, uint64_t size)
{
    uint64_t offset = is_urgent(function) ? vgc_control_memory_take(&control->urgent, size) : 0;
    return offset != 0 ? offset : vgc_control_memory_take(&control->memory, size);
}

void vgc_control_link_give(struct vgc_control *control, uint64_t offset)
{
    bool urgent = offset < control->memory.base;
    vgc_control_memory_give(urgent ? &control->urgent : &control->memory, offset);
}
