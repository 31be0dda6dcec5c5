/* The fuzzer's bytes, taken one after another; zeros when they are used up. */
#ifndef VGC_FUZZ_INPUT_H
#define VGC_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct input {
    const uint8_t *data;
    size_t size;
};

static inline void take_bytes(struct input *input, void *to, size_t size)
{
    size_t given = size < input->size ? size : input->size;
    memset(to, 0, size);
    if (given > 0)
        memcpy(to, input->data, given);
    input->data += given;
    input->size -= given;
}

static inline uint8_t take8(struct input *input)
{
    uint8_t value;
    take_bytes(input, &value, sizeof(value));
    return value;
}

static inline uint16_t take16(struct input *input)
{
    uint16_t value;
    take_bytes(input, &value, sizeof(value));
    return value;
}

static inline uint32_t take32(struct input *input)
{
    uint32_t value;
    take_bytes(input, &value, sizeof(value));
    return value;
}

static inline uint64_t take64(struct input *input)
{
    uint64_t value;
    take_bytes(input, &value, sizeof(value));
    return value;
}

/* A promise of the code under test; the fuzzer reports a broken one as a crash. */
#define PROMISE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);                            \
            __builtin_trap();                                                                                          \
        }                                                                                                              \
    } while (0)

#endif
