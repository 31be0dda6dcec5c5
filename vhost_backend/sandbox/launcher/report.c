#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int report_fd = -1;

void vgc_report_to(int fd)
{
    report_fd = fd;
}

void vgc_report(const char *format, ...)
{
    char line[512];
    if (report_fd < 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof(line) - 2)
        length = sizeof(line) - 2;
    line[length] = '\n';
    /* The pipe is almost empty, so a line is written whole unless the caller is gone. */
    if (write(report_fd, line, (size_t)length + 1) < 0)
        _exit(VGC_EXIT_SETUP);
}

void vgc_die(const char *feature, const char *format, ...)
{
    char text[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    vgc_report("error %s: %s", feature, text);
    if (report_fd < 0)
        dprintf(STDERR_FILENO, "cannot build the sandbox: %s: %s\n", feature, text);
    _exit(VGC_EXIT_SETUP);
}

void vgc_check(long result, const char *feature, const char *what)
{
    if (result < 0)
        vgc_die(feature, "%s: %s", what, strerror(errno));
}
