/* Text that kernels print. The driver keeps it in a buffer on the GPU and writes it to stdout when a stream is
 * synchronised; stdout is a file that only this process reads. */
#include "cuda_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of text that fit: all, or whole lines. */
static uint32_t fitting(const char *text, uint32_t len, uint32_t room)
{
    if (len <= room)
        return len;
    while (room > 0 && text[room - 1] != '\n')
        room--;
    return room;
}

/* Takes text from the file, as much as fits. */
static void read_file(struct cuda_output *output, int fd, uint64_t size)
{
    uint32_t room = VGC_MAX_OUTPUT_BYTES - output->len;
    uint32_t wanted = size < room ? (uint32_t)size : room;
    ssize_t got = pread(fd, output->text + output->len, wanted, 0);
    uint32_t len = got < 0 ? 0 : (uint32_t)got;
    uint32_t kept = size > len ? fitting(output->text + output->len, len + (len < size), len) : len;
    output->len += kept;
    output->lost += size - kept;
}

static void empty_file(struct cuda_output *output, int fd)
{
    struct stat file;
    fflush(stdout);
    if (fstat(fd, &file) != 0 || file.st_size == 0)
        return;
    if (output->text == NULL)
        output->text = malloc(VGC_MAX_OUTPUT_BYTES);
    if (output->text == NULL)
        output->lost += (uint64_t)file.st_size;
    else
        read_file(output, fd, (uint64_t)file.st_size);
    if (ftruncate(fd, 0) != 0)
        output->lost++; /* the text will be read again, which is better than losing it */
}

drv_result cuda_output_collect(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op)
{
    struct cuda_output *output = &engine->outputs[op->context];
    if (engine->setup.output_fd < 0)
        return DRV_SUCCESS;
    drv_result error = engine->driver.cuStreamSynchronize(stream->handle);
    if (error == DRV_SUCCESS)
        empty_file(output, engine->setup.output_fd);
    op->output_bytes = output->len + output->lost;
    return error;
}

/* Reads the driver's text of an assertion, which it writes at a synchronisation; that returns at once, as the context
 * is lost. */
void cuda_output_assertion(struct cuda_engine *engine, const struct cuda_lane *lane, char *text, uint32_t size)
{
    text[0] = '\0';
    if (engine->setup.errors_fd <= 0 || lane->stream == NULL)
        return;
    engine->driver.cuStreamSynchronize(lane->stream->handle);
    fflush(stderr);
    ssize_t got = pread(engine->setup.errors_fd, text, size - 1, 0);
    text[got < 0 ? 0 : got] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static void drop_front(struct cuda_output *output, uint32_t count)
{
    output->len -= count;
    if (count != 0)
        memmove(output->text, output->text + count, output->len);
    if (output->len == 0) {
        free(output->text);
        output->text = NULL;
    }
}

uint32_t cuda_take_output(struct vgc_engine *base, uint32_t context, char *to, uint32_t size, uint32_t *left,
                          uint64_t *lost)
{
    struct cuda_output *output = &cuda_engine_of(base)->outputs[context];
    uint32_t taken = to != NULL && size < output->len ? size : output->len;
    if (to != NULL && taken != 0)
        memcpy(to, output->text, taken);
    drop_front(output, taken);
    *left = output->len;
    *lost = output->lost;
    output->lost = 0;
    return taken;
}
