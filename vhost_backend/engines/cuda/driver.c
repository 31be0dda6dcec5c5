/* The driver's functions, found, and its errors in words.
 *
 * By dlsym() of the exported names, not by cuGetProcAddress: the name determines the version of the interface with any
 * driver, as in programs that are linked with libcuda. */
#include "cuda_engine.h"

#include <dlfcn.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t offset; /* in struct cuda_driver */
} FUNCTIONS[] = {
#define ENTRY(name, parameters) {#name, offsetof(struct cuda_driver, name)},
    DRV_FUNCTIONS(ENTRY)
#undef ENTRY
};

/* Writes "of CUDA 13.0", or that the version is unknown. */
static void version_text(void *library, char *text, size_t size)
{
    int version = 0;
    drv_result (*get)(int *) = NULL;
    *(void **)&get = dlsym(library, "cuDriverGetVersion");
    if (get == NULL || get(&version) != DRV_SUCCESS)
        snprintf(text, size, "of an unknown version");
    else
        snprintf(text, size, "of CUDA %d.%d", version / 1000, version % 1000 / 10);
}

int cuda_driver_open(struct cuda_driver *driver, const char *name, char *why)
{
    driver->library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (driver->library == NULL) {
        snprintf(why, VGC_CUDA_WHY, "the CUDA driver cannot be loaded: %s", dlerror());
        return -1;
    }
    for (size_t i = 0; i < sizeof(FUNCTIONS) / sizeof(FUNCTIONS[0]); i++) {
        void *function = dlsym(driver->library, FUNCTIONS[i].name);
        if (function == NULL) {
            char version[32];
            version_text(driver->library, version, sizeof(version));
            snprintf(why, VGC_CUDA_WHY, "the CUDA driver %s, %s, lacks %s; a driver of CUDA 12.4 or later has it", name,
                     version, FUNCTIONS[i].name);
            cuda_driver_close(driver);
            return -1;
        }
        *(void **)((char *)driver + FUNCTIONS[i].offset) = function;
    }
    return 0;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    if (driver->library != NULL)
        dlclose(driver->library);
    driver->library = NULL;
}

void cuda_error_text(const struct cuda_engine *engine, drv_result error, char *text, uint32_t size)
{
    const char *name = NULL;
    const char *meaning = NULL;
    if (engine->driver.cuGetErrorName(error, &name) != DRV_SUCCESS || name == NULL) {
        snprintf(text, size, "CUDA error %u", error);
        return;
    }
    if (engine->driver.cuGetErrorString(error, &meaning) != DRV_SUCCESS || meaning == NULL)
        meaning = "no description";
    snprintf(text, size, "%s (%s)", name, meaning);
}

int cuda_why(const struct cuda_engine *engine, char *why, const char *what, drv_result error)
{
    char text[256];
    cuda_error_text(engine, error, text, sizeof(text));
    snprintf(why, VGC_CUDA_WHY, "%s%s: %s", error == DRV_ERROR_OUT_OF_MEMORY ? "out of memory: " : "", what, text);
    return -1;
}
