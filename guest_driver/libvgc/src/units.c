/* Programs of several sources, which the device links. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t options_size(const struct vgc_source_unit *unit)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < unit->num_options; i++)
        size += strlen(unit->options[i]) + 1;
    return size;
}

/* Describes a unit as the wire does, and adds its bytes to *size. */
static int describe(const struct vgc_source_unit *unit, uint32_t index, struct vgc_unit *entry, uint64_t *size)
{
    uint64_t name = strlen(unit->name), options = options_size(unit);
    if (name == 0 || name > VGC_MAX_UNIT_NAME)
        return vgc_fail(VGC_INVALID_ARGUMENT, "unit %u has a name of %llu bytes; allowed: 1 to %d", index,
                        (unsigned long long)name, VGC_MAX_UNIT_NAME);
    if (options > VGC_MAX_OPTIONS_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "compiler options of %llu bytes for unit '%s'; allowed: %d",
                        (unsigned long long)options, unit->name, VGC_MAX_OPTIONS_BYTES);
    if (unit->size > VGC_MAX_SOURCE_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "unit '%s' has %llu bytes; allowed: %d", unit->name,
                        (unsigned long long)unit->size, VGC_MAX_SOURCE_BYTES);
    *entry = (struct vgc_unit){(uint32_t)name, (uint32_t)options, unit->size};
    *size += sizeof(*entry) + name + options + unit->size;
    return VGC_OK;
}

static uint8_t *append(uint8_t *to, const void *from, size_t size)
{
    if (size != 0)
        memcpy(to, from, size);
    return to + size;
}

static void pack(uint8_t *to, const struct vgc_source_unit *units, const struct vgc_unit *entries, uint32_t num_units)
{
    struct vgc_units head = {.num_units = num_units};
    to = append(to, VGC_BYTES(head), sizeof(head));
    to = append(to, VGC_BYTES(*entries), num_units * sizeof(*entries));
    for (uint32_t i = 0; i < num_units; i++) {
        to = append(to, units[i].name, entries[i].name_len);
        for (uint32_t k = 0; k < units[i].num_options; k++)
            to = append(to, units[i].options[k], strlen(units[i].options[k]) + 1);
        to = append(to, units[i].text, units[i].size);
    }
}

int vgc_units_pack(const struct vgc_source_unit *units, uint32_t num_units, void **packed, uint64_t *size)
{
    struct vgc_unit entries[VGC_MAX_UNITS];
    *packed = NULL;
    *size = sizeof(struct vgc_units);
    if (num_units == 0 || num_units > VGC_MAX_UNITS)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a program of %u units; allowed: 1 to %d", num_units, VGC_MAX_UNITS);
    for (uint32_t i = 0; i < num_units; i++) {
        int result = describe(&units[i], i, &entries[i], size);
        if (result != VGC_OK)
            return result;
    }
    if (*size > VGC_MAX_SOURCE_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a program of %llu bytes; allowed: 1 to %d", (unsigned long long)*size,
                        VGC_MAX_SOURCE_BYTES);
    *packed = malloc(*size);
    if (*packed == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    pack(*packed, units, entries, num_units);
    return VGC_OK;
}

int vgc_program_link(struct vgc_device *device, const struct vgc_source_unit *units, uint32_t num_units,
                     const char *const *options, uint32_t num_options, struct vgc_program **program)
{
    void *packed;
    uint64_t size;
    *program = NULL;
    int result = vgc_units_pack(units, num_units, &packed, &size);
    if (result == VGC_OK)
        result = vgc_program_load(device, VGC_SOURCE_CUDA_UNITS, packed, size, options, num_options, program);
    free(packed);
    return result;
}
