/* libvgc's part for PCI functions on Windows, on a machine of this program's: its drivers behave as ivshmem of
 * virtio-win and NetUIO of DPDK do, and its virtio function takes rings and answers nothing. Each verb is a test; what
 * fails is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "virtio.h"
#include "windows/devices.h"

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
    bool has_netuio; /* the driver of the function 00-04.1 */
    HANDLE user;     /* of its BARs */
} machine = {.mapped_size = BAR_BYTES, .cache_mode = -1};

static uint8_t memory[BAR_BYTES];

static const struct vgc_pnp_device DEVICES[] = {
    {1, 0, 2 << 16, "PCI\\VEN_1234&DEV_1111&SUBSYS_11001AF4&REV_02", "BasicDisplay"},
    {2, 0, 5 << 16, "PCI\\VEN_1AF4&DEV_1066&SUBSYS_11001AF4&REV_01", ""},
    {3, 0, 4 << 16 | 1, "PCI\\VEN_1AF4&DEV_1066&SUBSYS_11001AF4&REV_01", ""},
    {4, 1, 6 << 16, "PCI\\VEN_1AF4&DEV_1110&SUBSYS_11001AF4&REV_01", "IVSHMEM"},
};

/* ---- the virtio function: its areas are pages of BAR 4 --------------------------------------- */

enum { COMMON = 0, ISR = 0x1000, DEVICE = 0x2000, NOTIFY = 0x3000, VIRTIO_BYTES = 0x4000, WINDOW = 0xa0 };

static _Alignas(4096) uint8_t virtio_bar[VIRTIO_BYTES];
static uint8_t config_space[256];

static void put_capability(uint8_t at, uint8_t next, uint8_t type, uint32_t offset, uint32_t bytes)
{
    const uint8_t head[] = {9, next, 20, type, 4};
    memcpy(config_space + at, head, sizeof(head));
    memcpy(config_space + at + 8, &offset, sizeof(offset));
    memcpy(config_space + at + 12, &bytes, sizeof(bytes));
}

static struct common_config *common_config(void)
{
    return (struct common_config *)(void *)(virtio_bar + COMMON);
}

static void make_virtio_function(void)
{
    const uint32_t magic = VGC_CONFIG_MAGIC;
    struct vgc_config *config = (void *)(virtio_bar + DEVICE);
    *common_config() = (struct common_config){.device_feature = 1, .num_queues = 2, .queue_size = 64};
    *config = (struct vgc_config){.magic = VGC_CONFIG_MAGIC,
                                  .version = VGC_WIRE_VERSION,
                                  .fingerprint = VGC_WIRE_FINGERPRINT,
                                  .num_queues = 2,
                                  .queue_depth = 16,
                                  .max_streams = 4,
                                  .region_size = BAR_BYTES,
                                  .health = VGC_HEALTH_READY};
    config_space[0x34] = 0x40;
    put_capability(0x40, 0x58, 1, COMMON, sizeof(struct common_config));
    put_capability(0x58, 0x70, 3, ISR, 4);
    put_capability(0x70, 0x88, 4, DEVICE, sizeof(struct vgc_config));
    put_capability(0x88, WINDOW, 2, NOTIFY, 4096);
    put_capability(WINDOW, 0, 5, 0, 0);
    memcpy(config_space + WINDOW + 16, &magic, sizeof(magic)); /* as if it were read through the window */
}

/* ---- Windows -------------------------------------------------------------------------------- */

static bool device_at(unsigned index, struct vgc_pnp_device *device)
{
    if (machine.has_netuio && index > 0)
        index++; /* without 00-05.0 */
    if (index >= sizeof(DEVICES) / sizeof(DEVICES[0]))
        return false;
    *device = DEVICES[index];
    return true;
}

static bool interface_path(DWORD instance, const GUID *interface_class, char path[VGC_INTERFACE_ROOM])
{
    static const GUID IVSHMEM = {0xdf576976, 0x569d, 0x4672, {0x95, 0xa0, 0xf5, 0x7e, 0x4e, 0xa0, 0xb2, 0x10}};
    static const GUID NETUIO = {0x08336f60, 0x0679, 0x4c6c, {0x85, 0xd2, 0xae, 0x7c, 0xed, 0x65, 0xff, 0xf7}};
    if (machine.has_netuio && instance == 3 && memcmp(interface_class, &NETUIO, sizeof(NETUIO)) == 0) {
        (void)snprintf(path, VGC_INTERFACE_ROOM, "\\\\?\\netuio");
        return true;
    }
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
    if (machine.open_error != 0 || strncmp(path, "\\\\?\\", 4) != 0) {
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

static bool map_bars(HANDLE device, void *out, DWORD out_size)
{
    struct { /* struct mem_region */
        uint64_t size;
        uint64_t base;
        void *kernel;
        void *pointer;
    } bars[6] = {[1] = {4096, 0xfe000000, NULL, NULL}, [4] = {VIRTIO_BYTES, 0xfe004000, NULL, virtio_bar}};
    if (out_size != sizeof(bars) || machine.user != NULL) {
        SetLastError(ERROR_BUSY);
        return false;
    }
    machine.user = device;
    memcpy(out, bars, sizeof(bars));
    return true;
}

static bool access_config(const void *in, DWORD in_size, void *out, DWORD out_size, DWORD *got)
{
    struct { /* struct dpdk_pci_config_io */
        uint32_t offset;
        uint8_t operation;
        uint32_t size;
        uint64_t data;
    } io;
    memcpy(&io, in, sizeof(io));
    bool is_size = io.size == 1 || io.size == 2 || io.size == 4 || io.size == 8;
    if (in_size != sizeof(io) || out_size != 8 || !is_size || io.offset % io.size != 0 || io.offset + io.size > 256) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return false;
    }
    if (io.operation == 0)
        memcpy(out, config_space + io.offset, io.size);
    else if (io.offset < WINDOW)
        memcpy(config_space + io.offset, &io.data, io.size);
    *got = io.size;
    return true;
}

static bool control(HANDLE device, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size, DWORD *got)
{
    const uint64_t size = BAR_BYTES;
    *got = out_size;
    switch (code) {
    case 0x12c0cc: /* IOCTL_NETUIO_MAP_HW_INTO_USERSPACE */
        return map_bars(device, out, out_size);
    case 0x12c0d0: /* IOCTL_NETUIO_PCI_CONFIG_IO */
        return access_config(in, in_size, out, out_size, got);
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
    if (machine.user == device)
        machine.user = NULL;
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
    show(vgc_pci_map("01-06.0", "resource2", size, &second));
    vgc_unmap(pointer, size);
    printf("mode %d, %s, %u open\n", machine.cache_mode, second == pointer ? "shared" : "wrong", machine.open);
    vgc_unmap(second, size);
    printf("mode %d, %u released, %u open\n", machine.cache_mode, machine.released, machine.open);
    machine.cache_mode = 0; /* of a process */
    show(vgc_pci_map("01-06.0", file, size, &pointer));
    printf("%s, %u open\n", pointer == NULL ? "none" : "wrong", machine.open);
}

static void start_function(void)
{
    struct vgc_device *device;
    struct vgc_options options;
    uint16_t command;
    vgc_options_init(&options);
    options.open_timeout_ns = VGC_NS_PER_S;
    make_virtio_function();
    show(vgc_open(&options, &device));
    memcpy(&command, config_space + 4, sizeof(command));
    struct common_config *common = common_config();
    printf("status %#x, command %#x, queue %u at %#llx, %u open\n", common->device_status, command,
           common->queue_select, (unsigned long long)common->queue_desc.low | (uint64_t)common->queue_desc.high << 32,
           machine.open);
}

static void map_bars_twice(void)
{
    void *first, *second, *wrong;
    uint64_t base, size;
    make_virtio_function();
    show(vgc_pci_bar("00-04.1", 4, &base, &size));
    show(vgc_pci_map("00-04.1", "resource4", size, &first));
    show(vgc_pci_map("00-04.1", "resource4", size, &second));
    printf("%s, %u open\n", first == virtio_bar && second == first ? "one mapping" : "wrong", machine.open);
    show(vgc_pci_map("00-04.1", "resource4", 4096, &wrong));
    show(vgc_pci_map("00-04.1", "resource1", 4096, &wrong));
    show(vgc_pci_map("00-04.1", "config", 4096, &wrong));
    vgc_unmap(first, size);
    printf("%u open\n", machine.open);
    vgc_unmap(second, size);
    printf("%u open\n", machine.open);
    machine.user = (HANDLE)1; /* a process */
    show(vgc_pci_map("00-04.1", "resource4", size, &first));
    printf("%u open\n", machine.open);
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
    machine.has_netuio = strcmp(verb, "start") == 0 || strcmp(verb, "bars") == 0;
    if (strcmp(verb, "list") == 0)
        list();
    else if (strcmp(verb, "open") == 0)
        open_and_tell(value[0] != '\0' ? value : NULL);
    else if (strcmp(verb, "start") == 0)
        start_function();
    else if (strcmp(verb, "bars") == 0)
        map_bars_twice();
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
