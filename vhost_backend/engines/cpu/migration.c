/* Migration of the VM's work to or from another worker: contents of device memory, and printed text. */
#include "cpu_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int64_t cpu_save(struct vgc_engine *engine, uint64_t address, uint64_t size, uint8_t *to)
{
    (void)engine;
    return (int64_t)vgc_copy_without_zeroes(to, (const uint8_t *)(uintptr_t)address, size);
}

int cpu_restore(struct vgc_engine *engine, uint64_t address, uint64_t size, const uint8_t *from)
{
    (void)engine;
    memcpy((uint8_t *)(uintptr_t)address, from, size);
    return 0;
}

int cpu_put_output(struct vgc_engine *base, uint32_t context, const char *text, uint32_t size, uint64_t lost)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    struct cpu_output *output = &engine->outputs[context];
    int error = 0;
    pthread_mutex_lock(&engine->lock);
    output->lost += lost;
    if (size != 0 && output->text == NULL)
        output->text = malloc(VGC_MAX_OUTPUT_BYTES);
    if (size != 0 && output->text == NULL) {
        error = -ENOMEM;
    } else if (size > VGC_MAX_OUTPUT_BYTES - output->len) {
        error = -ENOSPC;
    } else if (size != 0) {
        memmove(output->text + size, output->text, output->len);
        memcpy(output->text, text, size);
        output->len += size;
    }
    pthread_mutex_unlock(&engine->lock);
    return error;
}
