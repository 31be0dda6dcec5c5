/* NVIDIA's own NVTX headers, as those of the wheel nvidia-nvtx: their functions call what an injected library puts into
 * tables of function pointers. The headers look for the library in the environment variable NVTX_INJECTION64_PATH, then
 * at a pointer that a program may have. Part of libcudart, which sets one or the other, and of libnvToolsExt.so.1,
 * which the variable may name. Numbers of tables and functions as published (nvtxDetail/nvtxTypes.h). */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nvtx3/nvToolsExt.h"

typedef void (*function)(void);
typedef const void *get_table(uint32_t number);

enum { CALLBACKS = 1, CORE = 1, CORE2 = 5 };

struct callbacks {
    size_t size;
    int (*module_table)(uint32_t module, function ***table, unsigned *count);
};

#define OF(name) (function) name

static const function CORE_FUNCTIONS[] = {NULL,
                                          OF(nvtxMarkEx),
                                          OF(nvtxMarkA),
                                          OF(nvtxMarkW),
                                          OF(nvtxRangeStartEx),
                                          OF(nvtxRangeStartA),
                                          OF(nvtxRangeStartW),
                                          OF(nvtxRangeEnd),
                                          OF(nvtxRangePushEx),
                                          OF(nvtxRangePushA),
                                          OF(nvtxRangePushW),
                                          OF(nvtxRangePop),
                                          OF(nvtxNameCategoryA),
                                          OF(nvtxNameCategoryW),
                                          OF(nvtxNameOsThreadA),
                                          OF(nvtxNameOsThreadW)};
static const function CORE2_FUNCTIONS[] = {NULL,
                                           OF(nvtxDomainMarkEx),
                                           OF(nvtxDomainRangeStartEx),
                                           OF(nvtxDomainRangeEnd),
                                           OF(nvtxDomainRangePushEx),
                                           OF(nvtxDomainRangePop),
                                           OF(nvtxDomainResourceCreate),
                                           OF(nvtxDomainResourceDestroy),
                                           OF(nvtxDomainNameCategoryA),
                                           OF(nvtxDomainNameCategoryW),
                                           OF(nvtxDomainRegisterStringA),
                                           OF(nvtxDomainRegisterStringW),
                                           OF(nvtxDomainCreateA),
                                           OF(nvtxDomainCreateW),
                                           OF(nvtxDomainDestroy),
                                           OF(nvtxInitialize)};

static bool fill(const struct callbacks *callbacks, uint32_t module, const function *ours, unsigned count)
{
    function **table = NULL;
    unsigned room = 0;
    if (callbacks->module_table(module, &table, &room) == 0 || table == NULL)
        return false;
    for (unsigned i = 1; i < count && i < room; i++)
        if (table[i] != NULL)
            *table[i] = ours[i];
    return true;
}

/* Entry point that NVIDIA's headers call, once; 0: the library does not take part. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(get_table *tables)
{
    const struct callbacks *callbacks = tables != NULL ? tables(CALLBACKS) : NULL;
    if (callbacks == NULL || callbacks->size < sizeof(*callbacks))
        return 0;
    return fill(callbacks, CORE, CORE_FUNCTIONS, sizeof(CORE_FUNCTIONS) / sizeof(CORE_FUNCTIONS[0])) &&
           fill(callbacks, CORE2, CORE2_FUNCTIONS, sizeof(CORE2_FUNCTIONS) / sizeof(CORE2_FUNCTIONS[0]));
}

#ifndef VGC_NVTX_LIBRARY
typedef int initialise(get_table *);
extern initialise *InitializeInjectionNvtx2_fnptr __attribute__((weak, visibility("default")));

/* Before main(). A program that libcudart is part of has NVIDIA's headers' pointer, if it uses them; to other programs
 * and libraries that have the headers inside, only the variable tells where this library is. */
__attribute__((constructor)) static void attach(void)
{
    Dl_info own;
    if (&InitializeInjectionNvtx2_fnptr != NULL)
        InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;
    else if (dladdr((void *)(uintptr_t)InitializeInjectionNvtx2, &own) != 0 && strstr(own.dli_fname, ".so") != NULL)
        (void)setenv("NVTX_INJECTION64_PATH", own.dli_fname, 0);
}
#endif
