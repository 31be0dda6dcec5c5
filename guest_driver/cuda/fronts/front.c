/* libcuda.so.1, libnvrtc.so.N and libnvJitLink.so.N: the names of CUDA's driver API, of NVRTC and of nvJitLink. The
 * functions are the runtime's (../runtime), as all interfaces share devices, streams and memory: they are taken from
 * the libcudart that the process has, or from the one beside this library. Names that are missing here are missing at
 * link time. The Makefile says which library this is: its name, the runtime's function that finds others, the error of
 * all functions without a runtime, and the runtime that is loaded in a process without any. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "front.h"

enum { MAX_PATH_BYTES = 4096 };

#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name

typedef void *find_function(const char *name);

/* Has a program linked with libcudart_static.a export them, which a shared library must ask for. */
extern find_function FIND __attribute__((weak));
extern vgc_trace_function vgc_trace_call __attribute__((weak));

static pthread_once_t found_once = PTHREAD_ONCE_INIT;

/* Runtimes that may be loaded already. */
static const char *const RUNTIMES[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

/* Answers of all functions in a process without any runtime: as if the driver were broken. */
static int no_runtime(void)
{
    return WITHOUT_RUNTIME;
}

static const char *no_text(void)
{
    return "no runtime was found";
}

static void *absent(const char *name)
{
    const bool is_text = strcmp(name, "nvrtcGetErrorString") == 0;
    return is_text ? (void *)(uintptr_t)no_text : (void *)(uintptr_t)no_runtime;
}

/* vgc_trace_call() of the runtime that is taken, for processes that are traced. */
static vgc_trace_function *tell;

static find_function *in(void *library)
{
    find_function *found = (find_function *)(uintptr_t)dlsym(library, TEXT(FIND));
    if (found != NULL)
        tell = (vgc_trace_function *)(uintptr_t)dlsym(library, "vgc_trace_call");
    return found;
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
    (void)snprintf(path, sizeof(path), "%.*s%s", len, slash == NULL ? "" : here.dli_fname, RUNTIME);
    find_function *found = in_library(path, RTLD_LOCAL);
    const char *why = found == NULL ? dlerror() : NULL;
    if (found == NULL)
        (void)fprintf(stderr, "virtio-gpu-compute: " NAME " finds no runtime: %s\n", why == NULL ? path : why);
    return found;
}

/* ---- tracing ----------------------------------------------------------------------------------------------------- */

/* The driver API tells programs addresses, of which calls are to be told, too. The oldest of the three functions has no
 * `result`, and does not look at it. */
#ifdef IS_DRIVER
typedef int get_address(const char *name, void **function, int version, uint64_t flags, int *result);
#define TRACED_GET_ADDRESS(form)                                                                                       \
    static get_address *own_##form;                                                                                    \
    static int traced_##form(const char *name, void **function, int version, uint64_t flags, int *result)              \
    {                                                                                                                  \
        const int error = own_##form(name, function, version, flags, result);                                          \
        if (error == 0 && *function != NULL)                                                                           \
            *function = vgc_traced_form(*function);                                                                    \
        return error;                                                                                                  \
    }
TRACED_GET_ADDRESS(cuGetProcAddress)
TRACED_GET_ADDRESS(cuGetProcAddress_v2)
TRACED_GET_ADDRESS(cuGetProcAddress_v2_ptsz)
#define REPLACE(form)                                                                                                  \
    if (strcmp(name, #form) == 0) {                                                                                    \
        own_##form = (get_address *)(uintptr_t)function;                                                               \
        return (void *)(uintptr_t)traced_##form;                                                                       \
    }
#else
#define REPLACE(form)
#endif

/* The function to which the step before `name` leads. */
static void *traced_target(const char *name, void *function)
{
    (void)name;
    REPLACE(cuGetProcAddress)
    REPLACE(cuGetProcAddress_v2)
    REPLACE(cuGetProcAddress_v2_ptsz)
    return function;
}

static void trace(void **functions)
{
    if (tell == NULL || !vgc_is_traced())
        return;
    for (size_t i = 0; i < vgc_num_names; i++)
        functions[i] = traced_target(vgc_names[i], functions[i]);
    if (vgc_trace_with(tell, functions))
        for (size_t i = 0; i < vgc_num_names; i++)
            functions[i] = vgc_traced[i];
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static void find_all(void)
{
    find_function *find = FIND;
    tell = vgc_trace_call;
    if (find == NULL) /* libcudart may have been loaded later */
        find = in(RTLD_DEFAULT);
    for (size_t i = 0; find == NULL && i < sizeof(RUNTIMES) / sizeof(RUNTIMES[0]); i++)
        find = in_library(RUNTIMES[i], RTLD_NOLOAD);
    if (find == NULL)
        find = load_own();
    void *functions[vgc_num_names];
    for (size_t i = 0; i < vgc_num_names; i++) {
        void *found = find != NULL ? find(vgc_names[i]) : NULL;
        functions[i] = found != NULL ? found : absent(vgc_names[i]);
    }
    trace(functions);
    for (size_t i = 0; i < vgc_num_names; i++)
        __atomic_store_n(&vgc_slots[i], functions[i], __ATOMIC_RELEASE);
}

void *vgc_resolve(size_t index)
{
    (void)pthread_once(&found_once, find_all);
    return __atomic_load_n(&vgc_slots[index], __ATOMIC_ACQUIRE);
}

#ifdef VERSION
/* The library's release. */
__attribute__((visibility("default"))) int VERSION(int *major, int *minor);
int VERSION(int *major, int *minor)
{
    enum { INVALID_INPUT = 3 };
    if (major == NULL || minor == NULL)
        return INVALID_INPUT;
    *major = MAJOR;
    *minor = MINOR;
    return 0;
}
#endif
