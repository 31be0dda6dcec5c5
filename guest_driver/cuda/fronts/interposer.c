/* libcudart-trace.so, which `vgc trace` has a program load before its CUDA runtime: the runtime's functions with a step
 * before them that tells libvgc of each call. */
#include <dlfcn.h>
#include <pthread.h>

#include "front.h"
#include "needed.h"

enum { NOT_SUPPORTED = 801 };

static pthread_once_t found_once = PTHREAD_ONCE_INIT;

static int not_there(void)
{
    return NOT_SUPPORTED;
}

/* The function that the loader gives to what needs a runtime of this name, which is also the version of its symbols. A
 * runtime of another release may have it under that version, too; the one of this name may be a library's alone. */
static void *function_of(const char *name, const char *runtime)
{
    if (runtime == NULL)
        return dlsym(RTLD_NEXT, name);
    void *found = dlvsym(RTLD_NEXT, name, runtime);
    void *library = found == NULL ? dlopen(runtime, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library != NULL ? dlsym(library, name) : found;
}

/* The step of the library that has a function. */
static vgc_trace_function *step_of(void *function)
{
    Dl_info where;
    void *library =
        function != NULL && dladdr(function, &where) != 0 ? dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library != NULL ? (vgc_trace_function *)(uintptr_t)dlsym(library, "vgc_trace_call") : NULL;
}

static void find_all(void)
{
    const char *runtime = vgc_needed_runtime();
    vgc_trace_function *tell = step_of(function_of("cudaMalloc", runtime));
    void *found[vgc_num_names];
    for (size_t i = 0; i < vgc_num_names; i++) {
        found[i] = function_of(vgc_names[i], runtime);
        if (found[i] == NULL)
            found[i] = (void *)(uintptr_t)not_there;
    }
    const bool is_traced = tell != NULL && vgc_is_traced() && vgc_trace_with(tell, found);
    for (size_t i = 0; i < vgc_num_names; i++)
        __atomic_store_n(&vgc_slots[i], is_traced ? vgc_traced[i] : found[i], __ATOMIC_RELEASE);
}

void *vgc_resolve(size_t index)
{
    (void)pthread_once(&found_once, find_all);
    return __atomic_load_n(&vgc_slots[index], __ATOMIC_ACQUIRE);
}
