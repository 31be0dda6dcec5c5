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
