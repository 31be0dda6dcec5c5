/* cuGetProcAddress: functions by name and version. */
#include <string.h>

#include "fake.h"

/* Declares the functions with other names, so that their types do not matter. */
#define FAKE_EXPORT(name, version, symbol) extern const char entry_##symbol[] __asm__(#symbol);
#include "exports.h"
#undef FAKE_EXPORT

static const struct {
    const char *name;
    int version;
    const char *address;
} table[] = {
#define FAKE_EXPORT(name, version, symbol) {#name, version, entry_##symbol},
#include "exports.h"
#undef FAKE_EXPORT
};

/* Finds the newest version that is not newer than `version` and the driver's. */
static CUdriverProcAddressQueryResult look_up(const char *name, int version, void **found)
{
    int best = 0;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; !fake_hidden(name) && i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, name) != 0 || table[i].version > fake.settings.driver_version)
            continue;
        if (table[i].version > version && !best)
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (table[i].version > version || table[i].version < best)
            continue;
        best = table[i].version;
        *found = (void *)(uintptr_t)table[i].address;
        status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return status;
}

FAKE_API CUresult cuGetProcAddress_v2(const char *name, void **found, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult *status)
{
    FAKE_CALL(FAKE_NOTHING);
    CUdriverProcAddressQueryResult how = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *found = NULL;
    fake_settings_once();
    if (!result) {
        how = look_up(name, version, found);
        result = *found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    if (status)
        *status = how;
    FAKE_LEAVE("%s, %d, %llu", name, version, (unsigned long long)flags);
}

FAKE_API CUresult cuGetProcAddress(const char *name, void **found, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}

/* NVIDIA's libraries request undocumented tables, but work without them. */
FAKE_API CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    FAKE_CALL(FAKE_NOTHING);
    *table = NULL;
    if (!result)
        result = CUDA_ERROR_NOT_FOUND;
    FAKE_LEAVE("%02x%02x...", (unsigned char)id->bytes[0], (unsigned char)id->bytes[1]);
}
