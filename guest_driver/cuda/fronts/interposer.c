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

static void find_all(void)
{
    /* The next runtime may be of another release, which does not know the program's kernels. */
    void *needed = vgc_needed_runtime();
    void *runtime = needed != NULL ? needed : RTLD_NEXT;
    vgc_trace_function *tell = (vgc_trace_function *)(uintptr_t)dlsym(runtime, "vgc_trace_call");
    void *found[vgc_num_names];
    for (size_t i = 0; i < vgc_num_names; i++) {
        found[i] = dlsym(runtime, vgc_names[i]);
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
