/* Settings that make the fake as slow and limited as a GPU, and counts of their effects. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

bool fake_hardware_set(struct fake_hardware *hardware, const char *key, const char *value)
{
    const struct {
        const char *key;
        int *place;
    } numbers[] = {
        {"start_ms", &hardware->start_ms},         {"slice_ms", &hardware->slice_ms},
        {"stack_growth", &hardware->stack_growth}, {"smid_base", &hardware->smid_base},
        {"smid_stride", &hardware->smid_stride},
    };
    if (strcmp(key, "connections") == 0) {
        hardware->connections = strcmp(value, "env") == 0 ? -1 : atoi(value);
        return true;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(numbers[i].key, key) == 0) {
            *numbers[i].place = (int)strtol(value, NULL, 0);
            return true;
        }
    return false;
}

bool fake_hardware_number(const struct fake_hardware *hardware, const char *name, unsigned long *value)
{
    const struct {
        const char *name;
        unsigned long value;
    } numbers[] = {
        {"starts", hardware->starts},
        {"turns", hardware->turns},
        {"behind", hardware->behind},
        {"stack_waits", hardware->stack_waits},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(numbers[i].name, name) == 0) {
            *value = numbers[i].value;
            return true;
        }
    return false;
}

unsigned int fake_smid(unsigned int index)
{
    const struct fake_hardware *hardware = &fake.settings.hardware;
    unsigned int stride = hardware->smid_stride ? (unsigned int)hardware->smid_stride : 1;
    return (unsigned int)hardware->smid_base + index * stride;
}
