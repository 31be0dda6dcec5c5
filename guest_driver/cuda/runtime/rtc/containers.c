/* Containers as texts (blob.h), which NVRTC hands out in the place of PTX, cubins and LTO-IR: the source itself, with
 * its options, for the loaders of images (driver/images.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "runtime.h"

void rt_write_container(struct rt_text *out, const struct rt_words *options, const char *source)
{
    rt_text_print(out, VGC_CUDA_TEXT_HEAD "%zu\n", options->count);
    for (size_t i = 0; i < options->count; i++) {
        for (const char *c = options->words[i]; *c != '\0'; c++) {
            if (*c == '\n' || *c == '\\')
                rt_text_add(out, "\\", 1);
            rt_text_add(out, *c == '\n' ? "n" : c, 1);
        }
        rt_text_add(out, "\n", 1);
    }
    rt_text_add(out, source, strlen(source));
}

bool rt_is_container(const char *image)
{
    return strncmp(image, VGC_CUDA_TEXT_HEAD, strlen(VGC_CUDA_TEXT_HEAD)) == 0;
}

/* Takes a line with an option off the text; NULL: it is damaged. */
static const char *read_option(const char *text, char **into, const char *end)
{
    char *to = *into;
    for (; *text != '\n'; text++) {
        const bool is_escaped = *text == '\\';
        text += is_escaped;
        if (*text == '\0' || to + 1 >= end)
            return NULL;
        *to++ = is_escaped && *text == 'n' ? '\n' : *text;
    }
    *to++ = '\0';
    *into = to;
    return text + 1;
}

const char *rt_read_container(const char *image, char *options, size_t room, uint32_t *num_options)
{
    const char *text = image + strlen(VGC_CUDA_TEXT_HEAD);
    char *after, *into = options;
    const unsigned long count = strtoul(text, &after, 10);
    if (*after != '\n' || count > room)
        return NULL;
    text = after + 1;
    for (unsigned long i = 0; i < count && text != NULL; i++)
        text = into < options + room ? read_option(text, &into, options + room) : NULL;
    *num_options = (uint32_t)count;
    return text;
}
