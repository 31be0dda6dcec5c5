/* What kernels call in the runtime. Guest code calls these: they believe nothing but the calling PE. */
#include "cpu_engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

__thread struct vgc_cpu_ctx *vgc_cpu_current __attribute__((tls_model("initial-exec")));

uint64_t cpu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t __vgc_globaltimer(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The first failure is the launch's. */
static void set_error(struct cpu_pe *pe, enum vgc_status status, const char *format, va_list arguments)
{
    struct cpu_launch *launch = atomic_load(&pe->launch);
    pthread_mutex_lock(&pe->engine->lock);
    if (launch->op->status == VGC_STATUS_OK) {
        launch->op->status = status;
        vsnprintf(launch->op->error, sizeof(launch->op->error), format, arguments);
    }
    pthread_mutex_unlock(&pe->engine->lock);
    atomic_store(&launch->stop, true);
}

void cpu_fail_launch(struct cpu_pe *pe, enum vgc_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_error(pe, status, format, arguments);
    va_end(arguments);
    _longjmp(pe->leave_block, 1);
}

void __vgc_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
{
    struct cpu_pe *pe = cpu_current_pe();
    char where[160];
    cpu_describe(pe, where, sizeof(where));
    cpu_fail_launch(pe, VGC_STATUS_ASSERT, "%s:%u: %s: assertion `%s' failed in %s", file, line, function, expression,
                    where);
}

void __vgc_trap(void)
{
    struct cpu_pe *pe = cpu_current_pe();
    char where[160];
    cpu_describe(pe, where, sizeof(where));
    cpu_fail_launch(pe, VGC_STATUS_FAULT, "__trap() in %s", where);
}

static int append_output(struct cpu_engine *engine, const char *text, int len)
{
    pthread_mutex_lock(&engine->lock);
    uint32_t room = CPU_OUTPUT_BYTES - engine->output_len;
    uint32_t kept = (uint32_t)len <= room ? (uint32_t)len : 0;
    memcpy(engine->output + engine->output_len, text, kept);
    engine->output_len += kept;
    engine->output_lost += (uint32_t)len - kept;
    pthread_mutex_unlock(&engine->lock);
    return kept != 0 || len == 0 ? len : -1;
}

int __vgc_printf(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (len < 0)
        return -1;
    return append_output(cpu_current_pe()->engine, text, len < (int)sizeof(text) ? len : (int)sizeof(text) - 1);
}

uint32_t vgc_cpu_take_output(struct vgc_engine *base, char *to, uint32_t size, uint64_t *lost)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    pthread_mutex_lock(&engine->lock);
    uint32_t taken = engine->output_len < size ? engine->output_len : size;
    memcpy(to, engine->output, taken);
    memmove(engine->output, engine->output + taken, engine->output_len - taken);
    engine->output_len -= taken;
    *lost = engine->output_lost;
    engine->output_lost = 0;
    pthread_mutex_unlock(&engine->lock);
    return taken;
}
