/* Images of modules: PTX, and the containers of NVIDIA's compilers and of mynvcc; and the options of the compiler that
 * NVIDIA's driver has for them. */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "blob.h"
#include "programs/fatbins.h"
#include "runtime.h"

/* Header of a fat binary: programs/fatbins.c. */
struct fatbin {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t content_bytes;
};

/* Sums of lengths that a header tells; UINT64_MAX: more than there are addresses. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t fatbin_bytes(const void *image)
{
    struct fatbin header;
    memcpy(&header, image, sizeof(header));
    return header.header_bytes < sizeof(header) ? UINT64_MAX : sum(header.header_bytes, header.content_bytes);
}

/* To the end of the last section or segment. */
static uint64_t elf_bytes(const void *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof(header));
    const uint64_t sections = sum(header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize);
    const uint64_t segments = sum(header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize);
    return RT_MAX(RT_MAX(sections, segments), sizeof(header));
}

static uint64_t linked_bytes(const void *image)
{
    struct rt_linked header;
    memcpy(&header, image, sizeof(header));
    return sum(sizeof(header), header.size);
}

static uint64_t mynvccs_bytes(const void *image)
{
    struct vgc_cuda_blob header;
    memcpy(&header, image, sizeof(header));
    return sum(sizeof(header) + header.name_len + (uint64_t)header.options_len, header.text_len);
}

/* Is it PTX: a directive `.version` behind blanks and comments? */
static bool is_ptx(const char *text)
{
    for (;;) {
        while (isspace((unsigned char)*text))
            text++;
        if (strncmp(text, "//", 2) == 0) {
            text += strcspn(text, "\n");
        } else if (strncmp(text, "/*", 2) == 0) {
            const char *end = strstr(text + 2, "*/");
            if (end == NULL)
                return false;
            text = end + 2;
        } else {
            return strncmp(text, ".version", 8) == 0;
        }
    }
}

/* Kind and size of an image that is no wrapper. */
static int kind_of(const void *image, uint64_t *size)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof(magic));
    if (magic == RT_FATBIN_MAGIC) {
        *size = fatbin_bytes(image);
        return VGC_SOURCE_FATBIN;
    }
    if (memcmp(image, ELFMAG, SELFMAG) == 0) {
        *size = elf_bytes(image);
        return VGC_SOURCE_CUBIN;
    }
    if (memcmp(image, RT_LINKED_MAGIC, sizeof(RT_LINKED_MAGIC)) == 0) {
        *size = linked_bytes(image);
        return VGC_SOURCE_CUDA_UNITS;
    }
    if (memcmp(image, VGC_CUDA_BLOB_MAGIC, sizeof(VGC_CUDA_BLOB_MAGIC)) == 0) {
        *size = mynvccs_bytes(image);
        return 0;
    }
    *size = strlen(image);
    if (rt_is_container(image))
        return VGC_SOURCE_CUDA;
    return is_ptx(image) ? VGC_SOURCE_PTX : -1;
}

/* No magic has a NUL, and no text of PTX is as short. */
static bool has_magic(const char *image)
{
    return strnlen(image, sizeof(uint32_t)) == sizeof(uint32_t);
}

int rt_image_kind(const void **image, uint64_t *size)
{
    struct vgc_cuda_wrapper wrapper;
    if (!has_magic(*image))
        return -1;
    if (memcmp(*image, &(int32_t){VGC_CUDA_WRAPPER_MAGIC}, sizeof(int32_t)) == 0) {
        memcpy(&wrapper, *image, sizeof(wrapper));
        *image = wrapper.data;
    }
    const int kind = kind_of(*image, size);
    return *size == UINT64_MAX ? -1 : kind;
}

/* Options of what mynvcc has written end with a NUL. */
static bool has_whole_options(const char *image)
{
    struct vgc_cuda_blob header;
    memcpy(&header, image, sizeof(header));
    return header.options_len == 0 ||
           image[sizeof(header) + (uint64_t)header.name_len + header.options_len - 1] == '\0';
}

int rt_whole_image_kind(const void *image, uint64_t room)
{
    uint64_t size;
    if (!has_magic(image))
        return -1;
    const int kind = kind_of(image, &size);
    return size > room || (kind == 0 && !has_whole_options(image)) ? -1 : kind;
}

/* ---- options -------------------------------------------------------------------------------- */

static void add_option(struct rt_jit *jit, const char *format, unsigned value)
{
    size_t used = 0;
    for (uint32_t i = 0; i < jit->num_options; i++)
        used += strlen(jit->options + used) + 1;
    const int written = snprintf(jit->options + used, sizeof(jit->options) - used, format, value);
    if (written > 0 && (size_t)written < sizeof(jit->options) - used)
        jit->num_options++;
}

CUresult rt_take_jit_options(unsigned count, const CUjit_option *options, void **values, struct rt_jit *jit)
{
    *jit = (struct rt_jit){.num_options = 0};
    if (count > 0 && (options == NULL || values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const unsigned number = (unsigned)(uintptr_t)values[i]; /* values of numbers are in the pointer */
        switch ((int)options[i]) {
        case CU_JIT_MAX_REGISTERS:
            if (number > 0)
                add_option(jit, "--maxrregcount=%u", number);
            break;
        case CU_JIT_OPTIMIZATION_LEVEL:
            if (number > 4)
                return CUDA_ERROR_INVALID_VALUE;
            add_option(jit, "--opt-level=%u", RT_MIN(number, 3u));
            break;
        case CU_JIT_GENERATE_DEBUG_INFO:
        case CU_JIT_GENERATE_LINE_INFO:
            if (number != 0)
                add_option(jit, "-lineinfo", 0);
            break;
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER:
            jit->logs[options[i] == CU_JIT_ERROR_LOG_BUFFER] = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            jit->log_bytes[options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] = number;
            jit->log_sizes[options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] = &values[i];
            break;
        case CU_JIT_WALL_TIME:
            memcpy(&values[i], &(float){0}, sizeof(float));
            break;
        default: /* targets, fallbacks, caches: the host compiles for what it has */
            break;
        }
    }
    return CUDA_SUCCESS;
}

void rt_write_jit_log(const struct rt_jit *jit, bool is_error, const char *text)
{
    char *log = jit->logs[is_error];
    const size_t room = jit->log_bytes[is_error];
    size_t written = 0;
    if (log != NULL && room > 0) {
        (void)snprintf(log, room, "%s", text);
        written = strlen(log) + (*log != '\0');
    }
    if (jit->log_sizes[is_error] != NULL)
        *jit->log_sizes[is_error] = (void *)(uintptr_t)written;
}
