/* Printed text of kernels: a ring in the GPU's memory, which the driver empties only in certain calls.
 *
 * These are [CUDA C++ programming guide, formatted output]: the start of a launch; cuCtxSynchronize,
 * cuStreamSynchronize and cuEventSynchronize; blocking copies; loading and unloading of modules; the end of a context.
 * Queries and copies in a stream do not empty it. Text that does not fit replaces the oldest text, which is lost. All
 * contexts of a device in a process share a ring (for green contexts this is assumed). */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct line {
    struct line *next;
    size_t size;
    char text[];
};

struct fake_output {
    struct line *oldest, *newest;
    size_t size;
    bool fixed;
};

static struct fake_output *output_of(struct fake_context *context)
{
    struct fake_context *primary = context->primary;
    if (!primary->output)
        primary->output = calloc(1, sizeof *primary->output);
    if (!primary->output)
        abort();
    return primary->output;
}

static void drop_oldest(struct fake_output *output)
{
    struct line *line = output->oldest;
    output->oldest = line->next;
    if (!output->oldest)
        output->newest = NULL;
    output->size -= line->size;
    free(line);
}

/* Appends the text of a call of printf, which is kept or lost as a whole. */
void fake_context_print(struct fake_context *context, const char *text)
{
    struct fake_output *output = output_of(context);
    size_t size = strlen(text), room = context->primary->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
    if (size > room)
        return;
    while (output->size + size > room)
        drop_oldest(output);
    struct line *line = malloc(sizeof *line + size);
    if (!line)
        abort();
    line->next = NULL;
    line->size = size;
    memcpy(line->text, text, size);
    if (output->newest)
        output->newest->next = line;
    else
        output->oldest = line;
    output->newest = line;
    output->size += size;
}

void fake_context_flush(struct fake_context *context)
{
    struct fake_output *output = output_of(context);
    while (output->oldest) {
        fwrite(output->oldest->text, 1, output->oldest->size, stdout);
        drop_oldest(output);
    }
}

void fake_context_report(struct fake_context *context)
{
    fake_context_flush(context);
    if (context->primary->assertion)
        fputs(context->primary->assertion, stderr);
    context->primary->assertion = NULL;
}

void fake_output_end(struct fake_context *context)
{
    fake_context_flush(context);
    free(context->output);
    context->output = NULL;
}

void fake_output_fix(struct fake_context *context)
{
    output_of(context)->fixed = true;
}

bool fake_output_is_fixed(const struct fake_context *context)
{
    return context->primary->output && context->primary->output->fixed;
}
