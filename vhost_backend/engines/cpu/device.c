/* Functions of the runtime that kernels call. Their arguments come from guest code and are not trusted. */
#include "cpu_control.h"
#include "cpu_profile.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__thread struct vgc_cpu_ctx *vgc_cpu_current __attribute__((tls_model("initial-exec")));

uint64_t __vgc_globaltimer(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint32_t __vgc_dynamic_shared_bytes(void)
{
    return cpu_current_pe()->inner->what.shared_bytes;
}

uint32_t __vgc_shared_bytes(void)
{
    return cpu_dynamic_offset(cpu_current_pe()->inner->kernel) + __vgc_dynamic_shared_bytes();
}

bool cpu_note_error(struct cpu_pe *pe, enum vgc_status status, const char *text)
{
    struct cpu_launch *launch = atomic_load(&pe->launch);
    pthread_mutex_lock(&pe->engine->lock);
    bool is_first = launch->op->status == VGC_STATUS_OK;
    if (is_first) {
        launch->op->status = status;
        memcpy(launch->op->error, text, strlen(text) + 1);
    }
    pthread_mutex_unlock(&pe->engine->lock);
    return is_first;
}

static enum vgc_ctl_fault fault_of(enum vgc_status status)
{
    switch (status) {
    case VGC_STATUS_ASSERT:
        return VGC_CTL_FAULT_ASSERT;
    case VGC_STATUS_DEADLOCK:
        return VGC_CTL_FAULT_DEADLOCK;
    default:
        return VGC_CTL_FAULT_TRAP;
    }
}

void cpu_fail_launch(struct cpu_pe *pe, enum vgc_status status, const char *format, ...)
{
    char text[VGC_MAX_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    cpu_note_error(pe, status, text);
    atomic_store(&atomic_load(&pe->launch)->stop, true);
    cpu_hook_fault(pe, fault_of(status), text);
    _longjmp(pe->leave_block, 1);
}

/* The text is that of CUDA: programs and their users look for it. */
void __vgc_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
{
    struct cpu_pe *pe = cpu_current_pe();
    uint32_t block[3], thread[3];
    cpu_locate(pe, block, thread);
    cpu_fail_launch(pe, VGC_STATUS_ASSERT, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.",
                    file, line, function, block[0], block[1], block[2], thread[0], thread[1], thread[2], expression);
}

void __vgc_trap(void)
{
    struct cpu_pe *pe = cpu_current_pe();
    char where[160], place[CPU_PLACE_TEXT];
    cpu_describe(pe, where, sizeof(where));
    cpu_describe_place(pe, (uint64_t)(uintptr_t)__builtin_return_address(0) - 1, place);
    cpu_fail_launch(pe, VGC_STATUS_FAULT, "__trap()%s in %s", place, where);
}

/* Appends a whole text or nothing, so that no line is cut. */
int cpu_append_output(struct cpu_engine *engine, uint32_t context, const char *text, int len)
{
    struct cpu_output *output = &engine->outputs[context];
    if (output->text == NULL)
        output->text = malloc(VGC_MAX_OUTPUT_BYTES);
    bool fits = output->text != NULL && (uint32_t)len <= VGC_MAX_OUTPUT_BYTES - output->len;
    if (fits) {
        memcpy(output->text + output->len, text, (size_t)len);
        output->len += (uint32_t)len;
    } else {
        output->lost += (uint32_t)len;
    }
    return fits ? len : -1;
}

int cpu_print(struct cpu_pe *pe, const char *text, uint32_t length)
{
    cpu_hook_print(pe, text, length);
    pthread_mutex_lock(&pe->engine->lock);
    int printed = cpu_append_output(pe->engine, atomic_load(&pe->launch)->op->context, text, (int)length);
    pthread_mutex_unlock(&pe->engine->lock);
    return printed;
}

enum { MAX_FIELD = 1 << 20 }; /* width and precision of printf(): the C library takes time and memory for them */

/* Arguments of a call of printf(), which are taken as the C library will take them. */
struct arguments {
    va_list left;
    int taken;
};

/* Takes a width or a precision off the format; LONG_MAX: too much, or the number of an argument. */
static long take_number(const char **format, struct arguments *arguments)
{
    if (**format != '*')
        return isdigit((unsigned char)**format) ? strtol(*format, (char **)format, 10) : 0;
    (*format)++;
    arguments->taken++;
    return isdigit((unsigned char)**format) ? LONG_MAX : labs((long)va_arg(arguments->left, int));
}

/* Takes the argument of a conversion, whose length modifier has been read; what is no conversion has none. */
static void take_value(char conversion, bool is_long_double, struct arguments *arguments)
{
    arguments->taken++;
    if (strchr("fFeEgGaA", conversion) != NULL && is_long_double)
        (void)va_arg(arguments->left, long double);
    else if (strchr("fFeEgGaA", conversion) != NULL)
        (void)va_arg(arguments->left, double);
    else if (strchr("dibBouxXcCsSpn", conversion) != NULL)
        (void)va_arg(arguments->left, long); /* numbers and pointers take as much */
    else
        arguments->taken--;
}

/* True if all fields of the format are of a size that can be printed. Formats that are wrong are read as the C library
 * reads them, too: a width that is an argument would otherwise be another. */
static bool has_small_fields(const char *format, struct arguments *arguments)
{
    while ((format = strchr(format, '%')) != NULL) {
        format += 1 + strspn(format + 1, "-+ #0'I");
        long width = take_number(&format, arguments), precision = 0;
        if (*format == '.') {
            format++;
            precision = take_number(&format, arguments);
        }
        if (width > MAX_FIELD || precision > MAX_FIELD || *format == '$')
            return false;
        bool is_double = (*format == 'h' || *format == 'l') && format[1] == *format; /* hh, ll */
        bool is_long_double = *format == 'L' || *format == 'q' || (is_double && *format == 'l');
        format += is_double ? 2 : *format != '\0' && strchr("hlLqjzZt", *format) != NULL;
        if (*format == '\0')
            return true;
        take_value(*format, is_long_double, arguments);
        format++;
    }
    return true;
}

/* Returns the number of arguments, as CUDA's printf() does, -1 without a format, -2 if nothing was printed. */
static int print(const char *format, va_list given)
{
    struct cpu_pe *pe = cpu_current_pe();
    struct arguments arguments = {.taken = 0};
    char text[1024];
    va_copy(arguments.left, given);
    bool is_small = has_small_fields(format, &arguments);
    va_end(arguments.left);
    if (!is_small)
        return -2;
    int len = vsnprintf(text, sizeof(text), format, given);
    if (len < 0)
        return -2;
    len = len < (int)sizeof(text) ? len : (int)sizeof(text) - 1;
    return cpu_print(pe, text, (uint32_t)len) < 0 ? -2 : arguments.taken;
}

int __vgc_printf(const char *format, ...)
{
    va_list given;
    if (format == NULL)
        return -1;
    va_start(given, format);
    int printed = print(format, given);
    va_end(given);
    return printed;
}

/* Conversions that vprintf() takes, as CUDA's, and the slots that they may need: for width, precision and a value of
 * two slots. */
enum { MAX_CONVERSIONS = 32, MAX_SLOTS = 4 * MAX_CONVERSIONS, MAX_TEXT = 1023 };

/* Reads one argument of vprintf(): of 4 or 8 bytes, at a multiple of its size. */
static uint64_t unpack_one(const char **packed, bool is_wide)
{
    uintptr_t size = is_wide ? 8 : 4;
    const char *at = (const char *)(((uintptr_t)*packed + size - 1) & ~(size - 1));
    uint64_t value = 0;
    memcpy(&value, at, size);
    *packed = at + size;
    return value;
}

/* Copies the packed arguments of vprintf() to slots of eight bytes, as functions find them on the stack. False: there
 * are too many. */
static bool unpack(const char *format, const char *packed, uint64_t *slots)
{
    int conversions = 0;
    while ((format = strchr(format, '%')) != NULL) {
        if (format[1] == '%') {
            format += 2;
            continue;
        }
        if (++conversions > MAX_CONVERSIONS)
            return false;
        bool is_wide = false;
        int stars = 0;
        for (format++; *format != '\0' && strchr("-+ #0'I.*123456789hlLqjzZt", *format) != NULL; format++) {
            is_wide |= strchr("lLqjzZt", *format) != NULL;
            if (*format != '*')
                continue;
            if (++stars > 2)
                return false;
            *slots++ = unpack_one(&packed, false);
        }
        if (*format == '\0')
            return true;
        if (*format != '%')
            *slots++ = unpack_one(&packed, is_wide || strchr("dibBouxXcC", *format) == NULL);
        format++;
    }
    return true;
}

/* printf() of a PTX module, whose arguments are in memory. As in CUDA, a format with more than it takes is printed as
 * it is. */
int __vgc_vprintf(const char *format, const void *packed)
{
    uint64_t slots[MAX_SLOTS] = {0};
    va_list given;
    if (format == NULL)
        return -1;
    if (!unpack(format, packed, slots)) {
        const size_t len = strnlen(format, MAX_TEXT);
        return cpu_print(cpu_current_pe(), format, (uint32_t)len) < 0 ? -2 : 0;
    }
    /* all arguments on the stack [System V ABI for x86-64, 3.5.7] */
    given[0].gp_offset = 48;
    given[0].fp_offset = 176;
    given[0].overflow_arg_area = slots;
    given[0].reg_save_area = NULL;
    return print(format, given);
}

uint32_t cpu_take_output(struct vgc_engine *base, uint32_t context, char *to, uint32_t size, uint32_t *left,
                         uint64_t *lost)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    struct cpu_output *output = &engine->outputs[context];
    pthread_mutex_lock(&engine->lock);
    uint32_t taken = to != NULL && size < output->len ? size : output->len;
    if (to != NULL && taken != 0)
        memcpy(to, output->text, taken);
    if (taken != 0)
        memmove(output->text, output->text + taken, output->len - taken);
    *lost = output->lost;
    *left = output->len -= taken;
    output->lost = 0;
    if (output->len == 0) {
        free(output->text);
        output->text = NULL;
    }
    pthread_mutex_unlock(&engine->lock);
    return taken;
}
