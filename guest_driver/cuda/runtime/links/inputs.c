/* Inputs of a link, and the image that they become. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "runtime.h"

enum { MAX_NAME = 200, MAX_OPTIONS_BYTES = 16 << 10 };

/* The device's runtime has no code of its own here: kernels launch kernels without it. */
static bool is_device_runtime(const char *name)
{
    const char *slash = strrchr(name, '/');
    return strncmp(slash == NULL ? name : slash + 1, "libcudadevrt", strlen("libcudadevrt")) == 0;
}

static bool is_mynvccs(const char *bytes)
{
    return memcmp(bytes, VGC_CUDA_BLOB_MAGIC, sizeof(VGC_CUDA_BLOB_MAGIC)) == 0;
}

static bool can_be_linked(const char *bytes, size_t size)
{
    const int kind = rt_whole_image_kind(bytes, size);
    return kind >= 0 && kind != VGC_SOURCE_CUDA_UNITS;
}

void rt_link_explain(CUresult result, const char *name, struct rt_text *words)
{
    if (result == CUDA_ERROR_FILE_NOT_FOUND)
        rt_text_print(words, "error: cannot read '%s'\n", name);
    else if (result == CUDA_ERROR_INVALID_IMAGE)
        rt_text_print(words,
                      "error: '%s' is of no kind that can be linked (allowed: PTX, cubins, fat binaries, what this "
                      "toolkit's NVRTC and nvcc make)\n",
                      name == NULL ? "input" : name);
}

CUresult rt_link_add(struct rt_link *link, const char *name, const void *bytes, size_t size)
{
    struct rt_link_input *inputs = realloc(link->inputs, (link->num_inputs + 1) * sizeof(*inputs));
    if (inputs == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    link->inputs = inputs;
    if (name != NULL && is_device_runtime(name))
        return CUDA_SUCCESS;
    if (size > SIZE_MAX - RT_IMAGE_PADDING)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct rt_link_input input = {
        .name = strdup(name == NULL ? "input" : name), .bytes = calloc(1, size + RT_IMAGE_PADDING), .size = size};
    CUresult result = input.name == NULL || input.bytes == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        memcpy(input.bytes, bytes, size);
        result = can_be_linked(input.bytes, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
    }
    if (result != CUDA_SUCCESS) {
        free(input.name);
        free(input.bytes);
        return result;
    }
    inputs[link->num_inputs++] = input;
    return CUDA_SUCCESS;
}

CUresult rt_link_add_file(struct rt_link *link, const char *path)
{
    void *bytes;
    size_t size;
    if (is_device_runtime(path))
        return CUDA_SUCCESS;
    CUresult result = rt_read_image(path, &bytes, &size);
    if (result != CUDA_SUCCESS)
        return result;
    result = rt_link_add(link, path, bytes, size);
    free(bytes);
    return result;
}

/* ---- the image ------------------------------------------------------------------------------ */

/* A name that the linker takes, and no other input has. */
static void write_name(char name[MAX_NAME + 32], const struct rt_link_input *input, size_t index)
{
    (void)snprintf(name, MAX_NAME + 32, "%.*s#%zu", MAX_NAME, input->name, index);
    for (char *c = name; *c != '\0'; c++)
        if (!isprint((unsigned char)*c) || *c == '"' || *c == '\\' || (c == name && *c == '-'))
            *c = '_';
}

struct unit { /* what a unit's description points to */
    char name[MAX_NAME + 32];
    char options[MAX_OPTIONS_BYTES]; /* of a container */
    const char **list;
};

/* Finds the text and the options of what mynvcc has written. */
static const char *take_mynvccs(const struct rt_link_input *input, struct vgc_source_unit *source, uint32_t *count)
{
    struct vgc_cuda_blob blob;
    memcpy(&blob, input->bytes, sizeof(blob));
    const char *options = input->bytes + sizeof(blob) + blob.name_len;
    source->text = options + blob.options_len;
    source->size = blob.text_len;
    for (uint32_t i = 0; i < blob.options_len; i++)
        *count += options[i] == '\0';
    return options;
}

static bool describe(const struct rt_link_input *input, size_t index, struct unit *unit, struct vgc_source_unit *source)
{
    uint32_t count = 0;
    write_name(unit->name, input, index);
    const char *option = unit->options;
    *source = (struct vgc_source_unit){.name = unit->name, .text = input->bytes, .size = input->size};
    if (is_mynvccs(input->bytes)) {
        option = take_mynvccs(input, source, &count);
    } else if (rt_is_container(input->bytes)) {
        source->text = rt_read_container(input->bytes, unit->options, sizeof(unit->options), &count);
        source->size = source->text == NULL ? 0 : strlen(source->text);
    }
    unit->list = calloc(count + 1u, sizeof(*unit->list));
    if (unit->list == NULL || source->text == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        unit->list[i] = option;
        option += strlen(option) + 1;
    }
    source->options = unit->list;
    source->num_options = count;
    return true;
}

static CUresult pack(struct rt_link *link)
{
    void *packed = NULL;
    uint64_t size = 0;
    bool is_described = true;
    struct unit *units = calloc(link->num_inputs, sizeof(*units));
    struct vgc_source_unit *sources = calloc(link->num_inputs, sizeof(*sources));
    for (size_t i = 0; units != NULL && sources != NULL && i < link->num_inputs; i++)
        is_described = describe(&link->inputs[i], i, &units[i], &sources[i]) && is_described;
    CUresult result = units == NULL || sources == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                      : !is_described                  ? CUDA_ERROR_INVALID_IMAGE
                                                       : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && vgc_units_pack(sources, (uint32_t)link->num_inputs, &packed, &size) != VGC_OK)
        result = CUDA_ERROR_INVALID_VALUE;
    struct rt_linked head = {RT_LINKED_MAGIC, size};
    link->image = result == CUDA_SUCCESS ? malloc(sizeof(head) + size) : NULL;
    if (link->image != NULL) {
        memcpy(link->image, &head, sizeof(head));
        memcpy((char *)link->image + sizeof(head), packed, size);
        link->image_size = sizeof(head) + size;
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; units != NULL && i < link->num_inputs; i++)
        free(units[i].list);
    free(units);
    free(sources);
    free(packed);
    return result;
}

/* A single input is the image itself: it may be for all that loads PTX. */
static CUresult take_input(struct rt_link *link)
{
    const struct rt_link_input *input = &link->inputs[0];
    const size_t size = input->size + (input->size == 0 || input->bytes[input->size - 1] != '\0');
    link->image = malloc(size);
    if (link->image == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(link->image, input->bytes, size);
    link->image_size = size;
    return CUDA_SUCCESS;
}

CUresult rt_link_complete(struct rt_link *link, struct rt_device *device, const struct rt_jit *jit,
                          struct rt_text *words)
{
    free(link->image);
    link->image = NULL;
    CUresult result = link->num_inputs == 0   ? CUDA_ERROR_INVALID_VALUE
                      : link->num_inputs == 1 ? take_input(link)
                                              : pack(link);
    if (result == CUDA_SUCCESS && device != NULL)
        result = rt_try_image(device, link->image, jit, words);
    return result;
}

void rt_link_free(struct rt_link *link)
{
    for (size_t i = 0; i < link->num_inputs; i++) {
        free(link->inputs[i].name);
        free(link->inputs[i].bytes);
    }
    free(link->inputs);
    free(link->image);
    *link = (struct rt_link){.inputs = NULL};
}
