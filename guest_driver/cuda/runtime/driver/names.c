/* Functions of the driver API by name. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

enum { MAX_NAME = 128 };

void *vgc_driver_function(const char *name)
{
    for (size_t i = 0; i < RT_NUM_DRIVER_NAMES; i++)
        if (strcmp(RT_DRIVER_NAMES[i].name, name) == 0)
            return (void *)(uintptr_t)RT_DRIVER_NAMES[i].function;
    return NULL;
}

/* Forms of functions that differ from those before them, and CUDA's version that brought them. All others that have a
 * second form have it since CUDA 4. */
static const struct {
    const char *name;
    const char *form;
    int since;
} FORMS[] = {
    {"cuCtxCreate", "cuCtxCreate_v4", 12050},
    {"cuCtxCreate", "cuCtxCreate_v3", 11040},
    {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
    {"cuGetProcAddress", "cuGetProcAddress", 0},
};

/* The function that a program compiled for CUDA's `version` means by the name. */
static void *find_form(const char *name, int version)
{
    char second[MAX_NAME];
    for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++)
        if (strcmp(FORMS[i].name, name) == 0 && version >= FORMS[i].since)
            return vgc_driver_function(FORMS[i].form);
    const int len = snprintf(second, sizeof(second), "%s_v2", name);
    void *found = len > 0 && (size_t)len < sizeof(second) ? vgc_driver_function(second) : NULL;
    return found != NULL ? found : vgc_driver_function(name);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result)
{
    const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == NULL || function == NULL || version <= 0 || (flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *function = find_form(symbol, version);
    if (result != NULL)
        *result = *function != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (*function != NULL)
        return CUDA_SUCCESS;
    return result != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *result)
{
    (void)result; /* the first form of this function has no such parameter */
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

/* Tables of NVIDIA's own libraries, which check with them that the driver is NVIDIA's. It is not. */
CUresult cuGetExportTable(const void **table, const CUuuid *id);
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (table != NULL)
        *table = NULL;
    (void)id;
    return RT_ASK(rt_explain(cudaErrorInvalidValue, "NVIDIA's own runtime asks for its driver: build the program with "
                                                    "mynvcc, or with nvcc -cudart shared"));
}
