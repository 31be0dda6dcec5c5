/* Types and limits that all headers of the runtime use. */
#ifndef VGC_CUDART_BASE_H
#define VGC_CUDART_BASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_runtime_api.h"
#include "libvgc/vgc.h"

#define RT_API __attribute__((visibility("default")))
#define RT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RT_MAX(a, b) ((a) > (b) ? (a) : (b))

enum { RT_MAX_DEVICES = 16, RT_MAX_STREAMS = 64 };

/* Function of an interface that programs find by its name; table.awk writes the tables. */
struct rt_named_function {
    const char *name;
    const void *function;
};

/* NULL: the table does not have it. */
static inline void *rt_find_function(const struct rt_named_function *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (__builtin_strcmp(table[i].name, name) == 0)
            return (void *)(uintptr_t)table[i].function;
    return NULL;
}

struct rt_copy;
struct rt_device;
struct rt_fill;
struct rt_launch;
struct rt_operation;
struct rt_program;
struct rt_queue;
struct rt_range;
struct rt_sent_graph;
struct rt_variable;

#endif
