/* Log of calls and misuse. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

struct text {
    char *bytes;
    size_t len, room;
    bool full;
};

static struct text calls, misuses;
static int log_fd = -1;

enum { MAX_TEXT = 16 << 20, MAX_NAMES = 256 };

static struct count {
    const char *name;
    unsigned long count;
} counts[MAX_NAMES];
static size_t num_counts;

static void append(struct text *text, const char *line)
{
    if (text->full)
        return;
    text->full = text->len > MAX_TEXT;
    if (text->full)
        line = "... and more: the fake's log is full";
    size_t len = strlen(line);
    if (text->len + len + 2 > text->room) {
        text->room = 2 * (text->len + len + 2);
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes)
            abort();
    }
    memcpy(text->bytes + text->len, line, len);
    text->len += len;
    text->bytes[text->len++] = '\n';
    text->bytes[text->len] = 0;
}

static void to_file(const char *prefix, const char *line)
{
    char whole[1200];
    int len = snprintf(whole, sizeof whole, "%s%s\n", prefix, line);
    if (log_fd >= 0 && write(log_fd, whole, (size_t)len) != len)
        abort(); /* an incomplete log could make tests pass */
}

void fake_log_call(const char *name, const char *line)
{
    append(&calls, line);
    to_file("", line);
    size_t i = 0;
    while (i < num_counts && strcmp(counts[i].name, name) != 0)
        i++;
    if (i == MAX_NAMES)
        abort();
    if (i == num_counts)
        counts[num_counts++] = (struct count){.name = name};
    counts[i].count++;
}

void fake_misuse(const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    append(&misuses, line);
    to_file("misuse: ", line);
}

void fake_log_note(const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    to_file("", line);
}

void fake_log_launch(const char *name, const unsigned int grid[3], const unsigned int block[3],
                     const unsigned char *params, size_t param_bytes)
{
    char *hex = malloc(2 * param_bytes + 1);
    if (!hex)
        abort();
    for (size_t i = 0; i < param_bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", params[i]);
    hex[2 * param_bytes] = 0;
    if (log_fd >= 0 && dprintf(log_fd, "launch %s grid=%u,%u,%u block=%u,%u,%u params=%s\n", name, grid[0], grid[1],
                               grid[2], block[0], block[1], block[2], hex) < 0)
        abort();
    free(hex);
}

bool fake_log_file(const char *path)
{
    if (log_fd >= 0)
        close(log_fd);
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return log_fd >= 0;
}

void fake_log_clear(void)
{
    calls.len = misuses.len = num_counts = 0;
    calls.full = misuses.full = false;
}

static size_t copy_out(const struct text *text, char *buffer, size_t size)
{
    pthread_mutex_lock(&fake.lock);
    size_t len = text->len;
    if (size && len < size) {
        if (len)
            memcpy(buffer, text->bytes, len);
        buffer[len] = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    return len;
}

/* Copies the lines if `size` is larger than their length; returns the length. */
FAKE_API size_t fake_cuda_calls(char *buffer, size_t size)
{
    return copy_out(&calls, buffer, size);
}

FAKE_API size_t fake_cuda_misuses(char *buffer, size_t size)
{
    return copy_out(&misuses, buffer, size);
}

FAKE_API unsigned long fake_cuda_count(const char *name)
{
    unsigned long found = 0;
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < num_counts; i++)
        if (strcmp(counts[i].name, name) == 0)
            found = counts[i].count;
    pthread_mutex_unlock(&fake.lock);
    return found;
}
