/* The last error of each user's CUDA programs, in words, where `vgc last-error` finds it: a program that prints only
 * cudaGetErrorString() can be asked afterwards which kernel faulted, and where. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors/error_file.h"
#include "runtime.h"

enum { TEXT_BYTES = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char written[TEXT_BYTES]; /* what this process wrote last */
static cudaError_t written_error;

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
        rt_write_error_file(text);
        if (getenv("VGC_VERBOSE") != NULL)
            (void)fprintf(stderr, "virtio-gpu-compute: %s\n", text);
    }
    (void)pthread_mutex_unlock(&mutex);
    errno = saved;
}
