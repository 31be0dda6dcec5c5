/* libvgc's part for PCI functions on Windows, on a machine of this program's: its driver of ivshmem behaves as that of
 * virtio-win. Each verb is a test; what fails is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows/ivshmem.h"

enum { BAR_BYTES = 1 << 20, BASE_OFFSET = 0x1000 };
static const uint64_t BASE = 0x800000000;

static struct {
    bool lacks_driver;
    bool lacks_range;
    DWORD open_error;
    DWORD map_error;
    uint64_t mapped_size; /* that the driver says it has mapped */
    unsigned open;        /* handles */
    unsigned released;
    int cache_mode; /* of the mapping; -1: nothing is mapped */
    HANDLE owner;
} machine = {.mapped_size = BAR_BYTES, .cache_mode = -1};

static uint8_t memory[BAR_BYTES];

static const struct vgc_pnp_device DEVICES[] = {
    {1, 0, 2 << 16, "PCI\\VEN_1234&DEV_1111&SUBSYS_11001AF4&REV_02", "BasicDisplay"},
    {2, 0, 5 << 16, "PCI\\VEN_1AF4&DEV_1066&SUBSYS_11001AF4&REV_01", ""},
    {3, 0, 4 << 16 | 1, "PCI\\VEN_1AF4&DEV_1066&SUBSYS_11001AF4&REV_01", ""},
    {4, 1, 6 << 16, "PCI\\VEN_1AF4&DEV_1110&SUBSYS_11001AF4&REV_01", "IVSHMEM"},
};

static bool device_at(unsigned index, struct vgc_pnp_device *device)
{
    if (index >= sizeof(DEVICES) / sizeof(DEVICES[0]))
        return false;
    *device = DEVICES[index];
    return true;
}

static bool interface_path(DWORD instance, const GUID *interface_class, char path[VGC_INTERFACE_ROOM])
{
    static const GUID IVSHMEM = {0xdf576976, 0x569d, 0x4672, {0x95, 0xa0, 0xf5, 0x7e, 0x4e, 0xa0, 0xb2, 0x10}};
    if (machine.lacks_driver || instance != 4 || memcmp(interface_class, &IVSHMEM, sizeof(IVSHMEM)) != 0)
        return false;
    (void)snprintf(path, VGC_INTERFACE_ROOM, "\\\\?\\ivshmem");
    return true;
}

static bool memory_at(DWORD instance, unsigned index, uint64_t *base, uint64_t *size)
{
    static const uint64_t SIZES[] = {256, 4096, BAR_BYTES};
    if (instance != 4 || index >= (machine.lacks_range ? 2u : 3u))
        return false;
    *base = BASE + index * BASE_OFFSET;
    *size = SIZES[index];
    return true;
}

static HANDLE open_device(const char *path)
{
    if (machine.open_error != 0 || strcmp(path, "\\\\?\\ivshmem") != 0) {
        SetLastError(machine.open_error);
        return INVALID_HANDLE_VALUE;
    }
    machine.open++;
    return (HANDLE)(intptr_t)(100 + rand() % 1000000);
}

static bool map(HANDLE device, const void *in, DWORD in_size, void *out, DWORD out_size)
{
    struct { /* IVSHMEM_MMAP */
        uint16_t peer;
        uint64_t size;
        void *pointer;
        uint16_t vectors;
    } answer = {.size = machine.mapped_size, .pointer = memory};
    if (in_size != 1 || out_size != sizeof(answer) || machine.cache_mode >= 0 || machine.map_error != 0) {
        SetLastError(machine.map_error != 0 ? machine.map_error : ERROR_BUSY);
        return false;
    }
    machine.cache_mode = *(const uint8_t *)in;
    machine.owner = device;
    memcpy(out, &answer, sizeof(answer));
    return true;
}

static bool control(HANDLE device, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size)
{
    const uint64_t size = BAR_BYTES;
    switch (code) {
    case 0x222004: /* IOCTL_IVSHMEM_REQUEST_SIZE */
        if (out_size != sizeof(size))
            return false;
        memcpy(out, &size, sizeof(size));
        return true;
    case 0x222008: /* IOCTL_IVSHMEM_REQUEST_MMAP */
        return map(device, in, in_size, out, out_size);
    case 0x22200c: /* IOCTL_IVSHMEM_RELEASE_MMAP */
        if (machine.cache_mode < 0 || machine.owner != device)
            return false;
        machine.cache_mode = -1;
        machine.released++;
        return true;
    default:
        SetLastError(ERROR_INVALID_FUNCTION);
        return false;
    }
}

static void close_device(HANDLE device)
{
    machine.open--;
    if (machine.owner == device)
        machine.cache_mode = -1;
}

static const struct vgc_pnp_calls MACHINE = {
    .device = device_at,
    .interface_path = interface_path,
    .memory = memory_at,
    .open = open_device,
    .control = control,
    .close = close_device,
};

/* ---- verbs ---------------------------------------------------------------------------------- */

static void show(int result)
{
    printf("%s%s%s\n", vgc_result_name(result), result != VGC_OK ? ": " : "", result != VGC_OK ? vgc_last_error() : "");
}

static void list(void)
{
    struct vgc_found found[8];
    size_t count;
    show(vgc_list(found, 8, &count));
    for (size_t i = 0; i < count; i++)
        printf("%s '%s' %s\n", found[i].address, found[i].driver, found[i].region_address);
}

static void open_and_tell(const char *address)
{
    struct vgc_device *device;
    struct vgc_options options;
    vgc_options_init(&options);
    options.address = address;
    show(vgc_open(&options, &device));
}

static void use_region(const char *file)
{
    void *pointer, *second;
    uint64_t base, size;
    show(vgc_pci_bar("01-06.0", 2, &base, &size));
    printf("%#llx %llu\n", (unsigned long long)base, (unsigned long long)size);
    show(vgc_pci_map("01-06.0", file, size, &pointer));
    printf("mode %d, %s, %u open\n", machine.cache_mode, pointer == memory ? "the memory" : "wrong", machine.open);
    show(vgc_pci_map("01-06.0", file, size, &second));
    printf("%s, %u open\n", second == NULL ? "none" : "wrong", machine.open);
    vgc_unmap(pointer, size);
    printf("mode %d, %u released, %u open\n", machine.cache_mode, machine.released, machine.open);
    show(vgc_pci_map("01-06.0", file, size, &pointer));
    vgc_unmap(pointer, size);
}

static void map_region(void)
{
    void *pointer;
    uint64_t base, size;
    int result = vgc_pci_bar("01-06.0", 2, &base, &size);
    if (result == VGC_OK)
        result = vgc_pci_map("01-06.0", "resource2", size, &pointer);
    show(result);
    printf("%u open\n", machine.open);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "", *value = argc > 2 ? argv[2] : "";
    uint64_t base, size;
    vgc_pnp = &MACHINE;
    if (strcmp(verb, "list") == 0)
        list();
    else if (strcmp(verb, "open") == 0)
        open_and_tell(value[0] != '\0' ? value : NULL);
    else if (strcmp(verb, "use") == 0)
        use_region(value);
    else if (strcmp(verb, "bar") == 0)
        show(vgc_pci_bar("01-06.0", (uint32_t)strtoul(value, NULL, 10), &base, &size));
    machine.lacks_driver = strcmp(verb, "lacks-driver") == 0;
    machine.lacks_range = strcmp(verb, "lacks-range") == 0;
    if (strcmp(verb, "open-error") == 0)
        machine.open_error = strtoul(value, NULL, 10);
    if (strcmp(verb, "map-error") == 0)
        machine.map_error = strtoul(value, NULL, 10);
    if (strcmp(verb, "mapped-size") == 0)
        machine.mapped_size = strtoull(value, NULL, 10);
    if (strchr(verb, '-') != NULL)
        map_region();
    return 0;
}
