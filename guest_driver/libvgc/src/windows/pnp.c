/* PCI functions that Windows has found, with their resources and interfaces. */
#include "devices.h"

#include <cfgmgr32.h>
#include <setupapi.h>
#include <stdio.h>
#include <string.h>

/* ---- devices -------------------------------------------------------------------------------- */

static bool read_text(HDEVINFO set, SP_DEVINFO_DATA *data, DWORD property, char *text, DWORD room)
{
    DWORD type;
    memset(text, 0, room);
    return SetupDiGetDeviceRegistryPropertyA(set, data, property, &type, (BYTE *)text, room - 1, NULL);
}

static bool read_number(HDEVINFO set, SP_DEVINFO_DATA *data, DWORD property, uint32_t *number)
{
    DWORD type, value = 0;
    bool fine = SetupDiGetDeviceRegistryPropertyA(set, data, property, &type, (BYTE *)&value, sizeof(value), NULL);
    *number = value;
    return fine;
}

static bool device_at(unsigned index, struct vgc_pnp_device *device)
{
    SP_DEVINFO_DATA data = {.cbSize = sizeof(data)};
    HDEVINFO set = SetupDiGetClassDevsA(NULL, "PCI", NULL, DIGCF_ALLCLASSES | DIGCF_PRESENT);
    if (set == INVALID_HANDLE_VALUE)
        return false;
    bool found = SetupDiEnumDeviceInfo(set, index, &data);
    memset(device, 0, sizeof(*device));
    if (found) {
        device->instance = data.DevInst;
        (void)read_text(set, &data, SPDRP_HARDWAREID, device->hardware_id, sizeof(device->hardware_id));
        (void)read_text(set, &data, SPDRP_SERVICE, device->service, sizeof(device->service));
        (void)read_number(set, &data, SPDRP_BUSNUMBER, &device->bus);
        (void)read_number(set, &data, SPDRP_ADDRESS, &device->address);
    }
    (void)SetupDiDestroyDeviceInfoList(set);
    return found;
}

static bool interface_path(DWORD instance, const GUID *interface_class, char path[VGC_INTERFACE_ROOM])
{
    _Alignas(8) BYTE room[sizeof(DWORD) + VGC_INTERFACE_ROOM];
    SP_DEVICE_INTERFACE_DETAIL_DATA_A *detail = (void *)room;
    SP_DEVICE_INTERFACE_DATA interface = {.cbSize = sizeof(interface)};
    SP_DEVINFO_DATA data = {.cbSize = sizeof(data)};
    bool found = false;
    HDEVINFO set = SetupDiGetClassDevsA(interface_class, NULL, NULL, DIGCF_DEVICEINTERFACE | DIGCF_PRESENT);
    if (set == INVALID_HANDLE_VALUE)
        return false;
    for (DWORD i = 0; !found && SetupDiEnumDeviceInterfaces(set, NULL, interface_class, i, &interface); i++) {
        detail->cbSize = sizeof(*detail);
        if (SetupDiGetDeviceInterfaceDetailA(set, &interface, detail, sizeof(room), NULL, &data))
            found = data.DevInst == instance;
    }
    if (found)
        (void)snprintf(path, VGC_INTERFACE_ROOM, "%s", detail->DevicePath);
    (void)SetupDiDestroyDeviceInfoList(set);
    return found;
}

/* ---- resources ------------------------------------------------------------------------------ */

/* Resources of memory above 4 GiB or of 4 GiB and more may be of this type [cfgmgr32.h]; their data is the same. */
enum { MEMORY_LARGE = 7 };

static bool read_range(RES_DES resource, RESOURCEID type, uint64_t *base, uint64_t *size)
{
    struct { /* MEM_DES, or MEM_LARGE_DES, which begins likewise */
        DWORD count;
        DWORD type;
        DWORDLONG begin;
        DWORDLONG end;
        BYTE rest[256];
    } range;
    _Static_assert(offsetof(MEM_DES, MD_Alloc_Base) == 8 && offsetof(MEM_DES, MD_Alloc_End) == 16, "MEM_DES");
    ULONG bytes = 0;
    if ((type != ResType_Mem && type != MEMORY_LARGE) || CM_Get_Res_Des_Data_Size(&bytes, resource, 0) != CR_SUCCESS ||
        bytes < offsetof(MEM_DES, MD_Flags) || bytes > sizeof(range) ||
        CM_Get_Res_Des_Data(resource, &range, bytes, 0) != CR_SUCCESS || range.end < range.begin)
        return false;
    *base = range.begin;
    *size = range.end - range.begin + 1;
    return true;
}

static bool memory_at(DWORD instance, unsigned index, uint64_t *base, uint64_t *size)
{
    LOG_CONF conf;
    RES_DES resource, next;
    RESOURCEID type = ResType_All;
    bool found = false;
    if (CM_Get_First_Log_Conf(&conf, instance, ALLOC_LOG_CONF) != CR_SUCCESS)
        return false;
    unsigned seen = 0;
    CONFIGRET result = CM_Get_Next_Res_Des(&resource, conf, ResType_All, &type, 0);
    while (result == CR_SUCCESS) {
        found = read_range(resource, type, base, size) && seen++ == index;
        result = found ? CR_NO_MORE_RES_DES : CM_Get_Next_Res_Des(&next, resource, ResType_All, &type, 0);
        (void)CM_Free_Res_Des_Handle(resource);
        resource = next;
    }
    (void)CM_Free_Log_Conf_Handle(conf);
    return found;
}

/* ---- opening -------------------------------------------------------------------------------- */

static HANDLE open_device(const char *path)
{
    const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE;
    return CreateFileA(path, GENERIC_READ | GENERIC_WRITE, shared, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
}

static bool control(HANDLE device, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size, DWORD *got)
{
    return DeviceIoControl(device, code, (void *)(uintptr_t)in, in_size, out, out_size, got, NULL);
}

static void close_device(HANDLE device)
{
    (void)CloseHandle(device);
}

static const struct vgc_pnp_calls WINDOWS = {
    .device = device_at,
    .interface_path = interface_path,
    .memory = memory_at,
    .open = open_device,
    .control = control,
    .close = close_device,
};

const struct vgc_pnp_calls *vgc_pnp = &WINDOWS;

/* ---- finding -------------------------------------------------------------------------------- */

bool vgc_pnp_is(const struct vgc_pnp_device *device, uint16_t vendor, uint16_t id)
{
    char begin[32];
    (void)snprintf(begin, sizeof(begin), "PCI\\VEN_%04X&DEV_%04X", vendor, id);
    return _strnicmp(device->hardware_id, begin, strlen(begin)) == 0;
}

void vgc_pnp_address(const struct vgc_pnp_device *device, char address[VGC_PCI_ADDRESS_LEN])
{
    (void)snprintf(address, VGC_PCI_ADDRESS_LEN, "%02x-%02x.%x", device->bus & 0xff, device->address >> 16 & 0x1f,
                   device->address & 7);
}

int vgc_pnp_find(const char *address, struct vgc_pnp_device *device)
{
    char own[VGC_PCI_ADDRESS_LEN];
    for (unsigned i = 0; vgc_pnp->device(i, device); i++) {
        vgc_pnp_address(device, own);
        if (strcmp(own, address) == 0)
            return VGC_OK;
    }
    return vgc_fail(VGC_NO_DEVICE, "there is no PCI function %s; addresses are bus, device and function, as 00-04.0",
                    address);
}

bool vgc_pnp_ask(HANDLE device, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size)
{
    DWORD got = 0;
    if (!vgc_pnp->control(device, code, in, in_size, out, out_size, &got))
        return false;
    if (got == out_size)
        return true;
    SetLastError(ERROR_BAD_LENGTH);
    return false;
}
