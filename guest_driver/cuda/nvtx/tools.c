/* libnvToolsExt.so.1: NVTX's functions for programs that link them, and for those that load a library of this name.
 * They call the libcudart that the process has, of whichever version; without one they do nothing. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#define VGC_NVTX_LINKAGE __attribute__((visibility("default")))
#include "nvtx3/nvToolsExt.h"

typedef const struct vgc_nvtx *get_functions(void);

static get_functions *find(void)
{
    static const char *const LIBRARIES[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    get_functions *found = NULL;
    *(void **)&found = dlsym(RTLD_DEFAULT, "vgc_nvtx_functions");
    for (size_t i = 0; found == NULL && i < sizeof(LIBRARIES) / sizeof(LIBRARIES[0]); i++) {
        void *library =
            dlopen(LIBRARIES[i], RTLD_LAZY | RTLD_NOLOAD); /* it may have been loaded for one library alone */
        if (library != NULL)
            *(void **)&found = dlsym(library, "vgc_nvtx_functions");
    }
    return found;
}

/* Hidden, so that dlsym() finds libcudart's. */
const struct vgc_nvtx *vgc_nvtx_functions(void)
{
    static _Atomic(const struct vgc_nvtx *) known;
    const struct vgc_nvtx *functions = atomic_load_explicit(&known, memory_order_acquire);
    if (functions == NULL) {
        get_functions *found = find();
        functions = found != NULL ? found() : NULL;
        atomic_store_explicit(&known, functions, memory_order_release);
    }
    return functions;
}
