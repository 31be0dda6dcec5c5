/* The last error of each user's CUDA programs, in words, where `vgc last-error` finds it: a program that prints only
 * cudaGetErrorString() can be asked afterwards which kernel faulted, and where.
 *
 * The file is last-error.UID in $VGC_STATE_DIR, or in /run/vgc. A program that may not write there does without. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

enum { TEXT_BYTES = 4096, PATH_BYTES = 512 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char written[TEXT_BYTES]; /* what this process wrote last */
static cudaError_t written_error;

static bool find_file(char *path, size_t room)
{
    const char *folder = secure_getenv("VGC_STATE_DIR");
    if (folder == NULL || folder[0] == '\0')
        folder = "/run/vgc";
    (void)mkdir(folder, 0755); /* if no device could be opened, libvgc has not made it */
    int len = snprintf(path, room, "%s/last-error.%u", folder, (unsigned)geteuid());
    return len > 0 && (size_t)len < room;
}

static void write_file(const char *text)
{
    char path[PATH_BYTES];
    char line[TEXT_BYTES + 256];
    char when[32] = "";
    time_t now = time(NULL);
    struct tm local;
    if (!find_file(path, sizeof(path)))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (localtime_r(&now, &local) != NULL)
        (void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    int len = snprintf(line, sizeof(line), "%s %s[%d]: %s\n", when, program_invocation_short_name, (int)getpid(), text);
    size_t size = len < 0 ? 0 : RT_MIN((size_t)len, sizeof(line) - 1);
    for (size_t done = 0; done < size;) {
        ssize_t now_written = write(fd, line + done, size - done);
        if (now_written <= 0)
            break;
        done += (size_t)now_written;
    }
    (void)close(fd);
}

void rt_keep_error(cudaError_t error, const char *explanation)
{
    char text[TEXT_BYTES];
    int saved = errno;
    (void)snprintf(text, sizeof(text), "%s: %s", cudaGetErrorName(error),
                   explanation[0] != '\0' ? explanation : cudaGetErrorString(error));
    (void)pthread_mutex_lock(&mutex);
    bool repeats = explanation[0] == '\0' && error == written_error; /* a sticky error, which was explained once */
    if (!repeats && strcmp(text, written) != 0) {
        memcpy(written, text, sizeof(text));
        written_error = error;
        write_file(text);
        if (getenv("VGC_VERBOSE") != NULL)
            (void)fprintf(stderr, "virtio-gpu-compute: %s\n", text);
    }
    (void)pthread_mutex_unlock(&mutex);
    errno = saved;
}
