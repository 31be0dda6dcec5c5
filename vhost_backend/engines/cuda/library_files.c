/* Files of NVIDIA's libraries, and what their errors mean for the context. */
#include "cuda_engine.h"

#include <dlfcn.h>
#include <stdio.h>

void *cuda_library_load(const char *path, const struct cuda_symbol *symbols, size_t count, void *functions, char *why)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, VGC_CUDA_WHY, "a library cannot be loaded: %s", dlerror());
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL) {
            snprintf(why, VGC_CUDA_WHY, "%s lacks %s; the library of CUDA 12 or later has it", path, symbols[i].name);
            dlclose(library);
            return NULL;
        }
        *(void **)((char *)functions + symbols[i].offset) = function;
    }
    return library;
}

drv_result cuda_library_context_error(const struct cuda_engine *engine, drv_stream stream)
{
    drv_result error = engine->driver.cuStreamQuery(stream);
    return error == DRV_ERROR_NOT_READY ? DRV_SUCCESS : error;
}
