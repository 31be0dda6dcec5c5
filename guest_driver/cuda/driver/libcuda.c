/* libcuda.so.1: the names of CUDA's driver API. The functions are the runtime's (../runtime/driver), as both interfaces
 * share devices, streams and memory: they are taken from the libcudart that the process has, or from the one beside
 * this library. Names that are missing here are missing at link time. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libcuda.h"

enum { SHARED_OBJECT_INIT_FAILED = 303, MAX_PATH_BYTES = 4096 };

typedef void *find_function(const char *name);

/* Has a program linked with libcudart_static.a export it, which a shared library must ask for. */
extern find_function vgc_driver_function __attribute__((weak));

static pthread_once_t found_once = PTHREAD_ONCE_INIT;

/* Runtimes that may be loaded already, and the one that is loaded where none is. */
static const char *const RUNTIMES[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

/* Answer of all functions in a process without any runtime: as if the driver were broken. */
static int no_runtime(void)
{
    return SHARED_OBJECT_INIT_FAILED;
}

static find_function *in(void *library)
{
    return (find_function *)(uintptr_t)dlsym(library, "vgc_driver_function");
}

/* NULL: it is not there, or not ours. */
static find_function *in_library(const char *path, int how)
{
    void *library = dlopen(path, RTLD_NOW | how);
    return library == NULL ? NULL : in(library);
}

/* The runtime beside this library. */
static find_function *load_own(void)
{
    char path[MAX_PATH_BYTES];
    Dl_info here;
    const char *slash = dladdr(RUNTIMES, &here) != 0 ? strrchr(here.dli_fname, '/') : NULL;
    const int len = slash == NULL ? 0 : (int)(slash + 1 - here.dli_fname);
    (void)snprintf(path, sizeof(path), "%.*s%s", len, slash == NULL ? "" : here.dli_fname, RUNTIMES[0]);
    find_function *found = in_library(path, RTLD_LOCAL);
    const char *why = found == NULL ? dlerror() : NULL;
    if (found == NULL)
        (void)fprintf(stderr, "virtio-gpu-compute: libcuda.so.1 finds no runtime: %s\n", why == NULL ? path : why);
    return found;
}

static void find_all(void)
{
    find_function *find = vgc_driver_function;
    if (find == NULL) /* libcudart may have been loaded later */
        find = in(RTLD_DEFAULT);
    for (size_t i = 0; find == NULL && i < sizeof(RUNTIMES) / sizeof(RUNTIMES[0]); i++)
        find = in_library(RUNTIMES[i], RTLD_NOLOAD);
    if (find == NULL)
        find = load_own();
    for (size_t i = 0; i < vgc_num_names; i++) {
        void *found = find != NULL ? find(vgc_names[i]) : NULL;
        __atomic_store_n(&vgc_slots[i], found != NULL ? found : (void *)(uintptr_t)no_runtime, __ATOMIC_RELEASE);
    }
}

void *vgc_resolve(size_t index)
{
    (void)pthread_once(&found_once, find_all);
    return __atomic_load_n(&vgc_slots[index], __ATOMIC_ACQUIRE);
}
