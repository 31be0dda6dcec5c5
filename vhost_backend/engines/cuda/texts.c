/* Programs and the control system: linking a program to the control area, and texts that its records name.
 *
 * A record has the device address of a format or name. The texts are constants of the program; the host keeps a copy of
 * them from the image, so that it never reads the GPU's memory. */
#include "cuda_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int keep_texts(struct vgc_cuda_program *program, uint64_t address, const void *texts, uint64_t bytes)
{
    struct cuda_control *control = &program->engine->control;
    if (bytes == 0)
        return 0;
    program->texts = malloc(bytes);
    if (program->texts == NULL)
        return -ENOMEM;
    memcpy(program->texts, texts, bytes);
    program->texts_address = address;
    program->texts_bytes = bytes;
    pthread_mutex_lock(&control->lock);
    program->next_texts = control->texts;
    control->texts = program;
    pthread_mutex_unlock(&control->lock);
    return 0;
}

int vgc_cuda_program_hook(struct vgc_cuda_program *program, uint64_t control, uint64_t address, const void *texts,
                          uint64_t bytes, char *why)
{
    struct cuda_engine *engine = program->engine;
    int error = 0;
    program->link_address = control;
    if (engine->control.area != 0)
        error = cuda_control_set(engine, control, &engine->control.link, sizeof(engine->control.link));
    if (error == 0)
        error = keep_texts(program, address, texts, bytes);
    if (error == 0 && engine->control.area != 0) {
        vgc_engine_enter(&engine->base);
        cuda_timer_learn(program);
        vgc_engine_leave(&engine->base);
    }
    if (error == 0)
        return 0;
    snprintf(why, VGC_CUDA_WHY, "the program cannot be linked to the control area: %s", strerror(-error));
    return -1;
}

bool cuda_texts_forget(struct vgc_cuda_program *program)
{
    struct cuda_control *control = &program->engine->control;
    bool may_go = program->link_address == 0 || cuda_link_forget(program->engine, program->link_address);
    pthread_mutex_lock(&control->lock);
    for (struct vgc_cuda_program **at = &control->texts; *at != NULL; at = &(*at)->next_texts)
        if (*at == program) {
            *at = program->next_texts;
            break;
        }
    pthread_mutex_unlock(&control->lock);
    return may_go;
}

/* Text at this address; *left: bytes of its program's constants from there on. */
static const char *find_text(const struct cuda_control *control, uint64_t address, uint64_t *left)
{
    for (const struct vgc_cuda_program *program = control->texts; program != NULL; program = program->next_texts)
        if (address - program->texts_address < program->texts_bytes) {
            *left = program->texts_bytes - (address - program->texts_address);
            return program->texts + (address - program->texts_address);
        }
    return NULL;
}

int cuda_control_text(struct vgc_engine *base, uint64_t address, char *text, uint32_t size)
{
    struct cuda_control *control = &cuda_engine_of(base)->control;
    uint64_t left = 0;
    int length = -EFAULT;
    pthread_mutex_lock(&control->lock);
    const char *found = size == 0 ? NULL : find_text(control, address, &left);
    if (found != NULL) {
        length = (int)strnlen(found, left < size - 1 ? left : size - 1);
        memcpy(text, found, (size_t)length);
        text[length] = '\0';
    }
    pthread_mutex_unlock(&control->lock);
    return length;
}
