/* Findings in checked programs. Each pair of places in the source is reported once for a launch: as a line of the
 * program's output, and the first as the error of the launch. */
#include "cpu_check.h"
#include "cpu_control.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

struct cpu_findings {
    uint32_t count;
    struct {
        const struct vgc_cpu_access *first;
        const struct vgc_cpu_access *second;
    } pairs[MOST];
};

/* The launch's findings; NULL without memory, when the first ends the launch. Lock held. */
static struct cpu_findings *findings_of(struct cpu_launch *launch)
{
    if (launch->findings == NULL)
        launch->findings = calloc(1, sizeof(*launch->findings));
    return launch->findings;
}

/* True for two accesses of one place in the source: an unrolled loop has several. */
static bool is_one_place(const struct vgc_cpu_access *a, const struct vgc_cpu_access *b)
{
    return a == b || (a != NULL && b != NULL && a->line == b->line && a->column == b->column && a->flags == b->flags &&
                      strcmp(a->file, b->file) == 0);
}

bool cpu_is_new_finding(struct cpu_pe *pe, const struct vgc_cpu_access *access, const struct vgc_cpu_access *other)
{
    pthread_mutex_lock(&pe->engine->lock);
    struct cpu_findings *findings = findings_of(atomic_load(&pe->launch));
    bool is_new = findings == NULL || findings->count < MOST;
    for (uint32_t i = 0; findings != NULL && is_new && i < findings->count; i++) {
        const struct vgc_cpu_access *first = findings->pairs[i].first, *second = findings->pairs[i].second;
        is_new = !(is_one_place(first, access) && is_one_place(second, other)) &&
                 !(is_one_place(first, other) && is_one_place(second, access));
    }
    if (findings != NULL && is_new) {
        findings->pairs[findings->count].first = access;
        findings->pairs[findings->count].second = other;
        findings->count++;
    }
    pthread_mutex_unlock(&pe->engine->lock);
    return is_new;
}

void cpu_report(struct cpu_pe *pe, const char *format, ...)
{
    struct cpu_launch *launch = atomic_load(&pe->launch);
    char text[VGC_MAX_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text) - 1, format, arguments);
    va_end(arguments);
    if (cpu_note_error(pe, VGC_STATUS_FAULT, text))
        cpu_hook_fault(pe, VGC_CTL_FAULT_KERNEL, text);
    strcat(text, "\n");
    cpu_print(pe, text, (uint32_t)strlen(text));
    pthread_mutex_lock(&pe->engine->lock);
    bool is_last = launch->findings == NULL || launch->findings->count == MOST;
    pthread_mutex_unlock(&pe->engine->lock);
    if (is_last)
        cpu_leave_launch(pe);
}

void cpu_leave_launch(struct cpu_pe *pe)
{
    atomic_store(&atomic_load(&pe->launch)->stop, true);
    _longjmp(pe->leave_block, 1);
}

void cpu_findings_end(struct cpu_launch *launch)
{
    struct vgc_op *op = launch->op;
    if (launch->findings == NULL)
        return;
    size_t length = strnlen(op->error, sizeof(op->error) - 1);
    if (launch->findings->count > 1)
        snprintf(op->error + length, sizeof(op->error) - length, "; %u more in the program's output%s",
                 launch->findings->count - 1, launch->findings->count == MOST ? ", and the launch was stopped" : "");
    free(launch->findings);
    launch->findings = NULL;
}

const char *cpu_access_name(const struct vgc_cpu_access *access)
{
    if ((access->flags & VGC_ACCESS_ATOMIC) != 0)
        return "atomic operation";
    return (access->flags & VGC_ACCESS_WRITE) != 0 ? "write" : "read";
}
