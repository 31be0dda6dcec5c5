/* Record of what this process does, for `vgc trace`: requests with the times that the host gives, waits in which a
 * thread slept, and calls of interfaces above this library. $VGC_TRACE names a folder. Each process, and each copy of
 * this library in it, writes a file of its own there: lines of words with tabs between them, which
 * guest_driver/trace/lines.py describes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { WINDOW_BYTES = 1 << 20, LINE_BYTES = 512, MAX_COPIES = 64, NAME_BYTES = 200, BUCKETS = 1024 };

bool vgc_traces;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static char path[4096]; /* of the file; empty before the first line */
static uint64_t file_bytes;
static char *window; /* the end of the file: what is written there stays if the process is killed */
static size_t used;  /* of the window; 0 behind it */
static size_t lost;  /* lines for which there was no room since the window was full */

/* ---- the file ------------------------------------------------------------------------------- */

static void close_window(void)
{
    if (window != NULL)
        vgc_unmap(window, WINDOW_BYTES);
    window = NULL;
}

/* A child of fork() writes a file of its own. */
static void begin_child(void)
{
    (void)pthread_mutex_init(&mutex, NULL);
    close_window();
    path[0] = '\0';
    file_bytes = 0;
}

__attribute__((constructor)) static void look(void)
{
    folder = vgc_variable("VGC_TRACE");
    vgc_traces = folder != NULL && folder[0] != '\0';
    if (vgc_traces)
        vgc_in_children(begin_child);
}

/* Makes the file. VGC_NO_HANDLE: it cannot be made. */
static vgc_handle make_file(void)
{
    vgc_handle file = VGC_NO_HANDLE;
    for (int copy = 0; file == VGC_NO_HANDLE && copy < MAX_COPIES; copy++) {
        int len = snprintf(path, sizeof(path), "%s/%d-%d.trace", folder, (int)getpid(), copy);
        if (len < 0 || (size_t)len >= sizeof(path))
            break;
        file = vgc_file_open(path, VGC_FILE_EXCLUSIVE);
        if (file == VGC_NO_HANDLE && errno != EEXIST)
            break;
    }
    if (file == VGC_NO_HANDLE)
        path[0] = '\0';
    return file;
}

/* The next part of the file, in memory that it has. False: there is no room for it. No descriptor stays open: programs
 * that close those they do not know would have the trace written into a file of their own. */
static bool open_window(void)
{
    vgc_handle file = path[0] == '\0' ? make_file() : vgc_file_open(path, VGC_FILE_CHANGE);
    if (file == VGC_NO_HANDLE)
        return false;
    void *mapped = NULL;
    if (vgc_file_may_have(file_bytes + WINDOW_BYTES) && vgc_file_reserve(file, file_bytes, WINDOW_BYTES))
        mapped = vgc_file_map(file, file_bytes, WINDOW_BYTES, true);
    vgc_file_close(file);
    if (mapped == NULL)
        return false;
    close_window();
    window = mapped;
    file_bytes += WINDOW_BYTES;
    used = lost = 0;
    return true;
}

/* Tells it in the room that add_line() leaves at the end of the window. A file without any window is empty. */
static void note_loss(void)
{
    lost++;
    if (window != NULL)
        (void)snprintf(window + used, LINE_BYTES, "lost\t%zu\n", lost);
}

/* Lines that cannot be written are lost: a trace changes nothing for the program. */
__attribute__((format(VGC_PRINTF, 1, 2))) static void add_line(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    int cancel = vgc_cancel_off();
    (void)pthread_mutex_lock(&mutex);
    bool has_room = window != NULL && used + 2 * LINE_BYTES <= WINDOW_BYTES;
    if (has_room || open_window()) {
        int len = vsnprintf(window + used, LINE_BYTES, format, arguments);
        used += len > 0 && len < LINE_BYTES ? (size_t)len : 0;
    } else {
        note_loss();
    }
    (void)pthread_mutex_unlock(&mutex);
    vgc_cancel_back(cancel);
    va_end(arguments);
    errno = error;
}

static int thread_id(void)
{
    static _Thread_local int own;
    static _Thread_local pid_t process;
    if (process != getpid()) {
        process = getpid();
        own = vgc_thread_id();
    }
    return own;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Names of functions, which may be unloaded before their requests are answered. They are never freed. */
struct name {
    struct name *next;
    char text[];
};

static size_t bucket_of(const char *text)
{
    size_t hash = 5381;
    for (size_t i = 0; i < NAME_BYTES && text[i] != '\0'; i++)
        hash = hash * 33 + (unsigned char)text[i];
    return hash % BUCKETS;
}

static const char *keep(const char *text)
{
    static struct name *buckets[BUCKETS];
    struct name **first = &buckets[bucket_of(text)];
    (void)pthread_mutex_lock(&mutex);
    struct name *name = *first;
    while (name != NULL && strncmp(name->text, text, NAME_BYTES - 1) != 0)
        name = name->next;
    if (name == NULL && (name = calloc(1, sizeof(*name) + NAME_BYTES)) != NULL) {
        for (size_t i = 0; i < NAME_BYTES - 1 && text[i] != '\0'; i++)
            name->text[i] = text[i];
        name->next = *first;
        *first = name;
    }
    (void)pthread_mutex_unlock(&mutex);
    return name == NULL ? NULL : name->text;
}

/* ---- what is written ------------------------------------------------------------------------ */

void vgc_trace_name(struct vgc_job *job, const char *name)
{
    if (vgc_traces)
        job->name = keep(name);
}

void vgc_trace_sent(struct vgc_job *job)
{
    if (vgc_traces)
        job->thread = thread_id();
}

void vgc_trace_answered(const struct vgc_job *job)
{
    if (vgc_traces)
        add_line("request\t%d\t%s\t%" PRIu32 "\t%" PRIu16 "\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                 "\t%" PRIu64 "\t%d\t%s\n",
                 job->thread, job->queue->device->transport->name, job->queue->index, job->opcode, job->stream,
                 job->start_ns, job->end_ns, job->response.queued_ns, job->response.exec_ns, job->result,
                 job->name == NULL ? "" : job->name);
}

void vgc_trace_slept(const struct vgc_queue *queue, uint64_t start_ns)
{
    if (vgc_traces)
        add_line("sleep\t%d\t%s\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64 "\n", thread_id(), queue->device->transport->name,
                 queue->index, start_ns, vgc_now_ns());
}

void vgc_trace_call(const char *name, uint64_t start_ns)
{
    if (vgc_traces)
        add_line("call\t%d\t%" PRIu64 "\t%" PRIu64 "\t%.*s\n", thread_id(), start_ns, vgc_now_ns(), NAME_BYTES, name);
}
