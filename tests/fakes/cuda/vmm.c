/* Virtual memory management: reserves addresses, creates physical memory, maps it at reserved addresses and makes
 * mappings accessible. None of this is in stream order.
 *
 * A reserved range is reserved in this process too, without access, like the driver's ranges; its bytes are in a shadow
 * elsewhere, where neighbouring mappings are neighbours too. */
#define _GNU_SOURCE /* mremap */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

enum { GRANULE = 2 << 20, PAGE = 4096, FRESH = 0xcd };

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct physical {
    CUmemGenericAllocationHandle handle;
    size_t size;
    int device;
    char *bytes;
    unsigned int mappings;
    bool released;
};

struct mapping {
    CUdeviceptr address;
    struct physical *physical; /* is mapped as a whole */
    int flags;                 /* access of the memory's device */
    struct mapping *next;
};

struct range {
    struct fake_memory memory; /* for other files */
    struct mapping *mappings;
    struct range *next;
};

struct pin {
    struct fake_memory memory;
    CUdeviceptr address;
    size_t size;
    struct pin *next;
};

static struct range *ranges;
static struct pin *pins;
static size_t num_physical;

static void *must(size_t size)
{
    void *made = calloc(1, size);
    if (!made)
        abort();
    return made;
}

static bool overlap(CUdeviceptr a, size_t a_size, CUdeviceptr b, size_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

/* ---- queries of other files ---- */

/* The range that contains all of [address, address + size). */
static struct range *range_of(CUdeviceptr address, size_t size)
{
    for (struct range *range = ranges; range; range = range->next) {
        CUdeviceptr offset = address - range->memory.address;
        if (address >= range->memory.address && offset < range->memory.size && size <= range->memory.size - offset)
            return range;
    }
    return NULL;
}

static struct mapping *mapping_at(const struct range *range, CUdeviceptr address)
{
    for (struct mapping *mapping = range->mappings; mapping; mapping = mapping->next)
        if (address >= mapping->address && address - mapping->address < mapping->physical->size)
            return mapping;
    return NULL;
}

struct fake_memory *fake_vmm_find(CUdeviceptr address, size_t size)
{
    struct range *range = range_of(address, size);
    for (CUdeviceptr at = address; range && at < address + (size ? size : 1);) {
        const struct mapping *mapping = mapping_at(range, at);
        if (!mapping || mapping->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return NULL;
        range->memory.device = mapping->physical->device;
        range->memory.context = fake.primaries[mapping->physical->device];
        at = mapping->address + mapping->physical->size;
    }
    return range && range->memory.context ? &range->memory : NULL;
}

bool fake_vmm_overlaps(CUdeviceptr address, size_t size, CUdeviceptr *end)
{
    for (const struct range *range = ranges; range; range = range->next)
        if (overlap(address, size, range->memory.address, range->memory.size)) {
            *end = range->memory.address + range->memory.size;
            return true;
        }
    return false;
}

struct fake_memory *fake_vmm_pin(const struct fake_memory *memory, CUdeviceptr address, size_t size)
{
    struct pin *pin = must(sizeof *pin);
    *pin = (struct pin){.memory = *memory, .address = address, .size = size, .next = pins};
    pins = pin;
    return &pin->memory;
}

void fake_vmm_unpin(struct fake_memory *memory)
{
    struct pin **at = &pins;
    while (&(*at)->memory != memory)
        at = &(*at)->next;
    struct pin *pin = *at;
    *at = pin->next;
    free(pin);
}

static unsigned int pinned(CUdeviceptr address, size_t size)
{
    unsigned int count = 0;
    for (const struct pin *pin = pins; pin; pin = pin->next)
        count += overlap(address, size, pin->address, pin->size);
    return count;
}

size_t fake_vmm_count(enum fake_vmm_thing thing)
{
    size_t num_ranges = 0, num_mappings = 0;
    for (const struct range *range = ranges; range; range = range->next, num_ranges++)
        for (const struct mapping *mapping = range->mappings; mapping; mapping = mapping->next)
            num_mappings++;
    return thing == FAKE_VMM_RANGES ? num_ranges : thing == FAKE_VMM_PHYSICAL ? num_physical : num_mappings;
}

/* ---- rules ---- */

/* Records misuse. */
static CUresult wrong(const char *what, CUdeviceptr address, size_t size)
{
    fake_misuse("%#llx (%zu bytes) %s", address, size, what);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    const unsigned char *rest = (const unsigned char *)&prop->allocFlags;
    if ((int)prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->requestedHandleTypes || prop->win32HandleMetaData ||
        (int)prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof prop->allocFlags; i++)
        if (rest[i])
            return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || prop->location.id >= fake.settings.num_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    return fake.settings.devices[prop->location.id].vmm ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_API CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                                CUmemAllocationGranularity_flags option)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        result = (int)option < 0 || (int)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ? CUDA_ERROR_INVALID_VALUE
                                                                                       : check_prop(prop);
    if (!result)
        *granularity = GRANULE;
    FAKE_LEAVE("%d", (int)option);
}

/* ---- addresses ---- */

/* Reserves [address, address + size) in this process, without access; false if it is in use. */
static bool keep_out(CUdeviceptr address, size_t size)
{
    void *wanted = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
    if (fake_memory_overlaps(address, size))
        return false;
    void *got = mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != MAP_FAILED && got != wanted)
        munmap(got, size); /* Linux before 4.17 ignores MAP_FIXED_NOREPLACE */
    return got == wanted;
}

static CUdeviceptr choose(size_t size, size_t alignment, CUdeviceptr wish)
{
    if (wish && wish % alignment == 0 && fake.settings.reserve_elsewhere-- <= 0 && keep_out(wish, size))
        return wish;
    CUdeviceptr address = fake_memory_window(0, size + alignment);
    address = (address + alignment - 1) / alignment * alignment;
    return address && keep_out(address, size) ? address : 0;
}

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish)
{
    void *shadow = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CUdeviceptr chosen = shadow == MAP_FAILED ? 0 : choose(size, alignment, wish);
    if (!chosen && shadow != MAP_FAILED)
        munmap(shadow, size);
    if (!chosen)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct range *range = must(sizeof *range);
    *range = (struct range){
        .memory = {.address = chosen, .size = size, .host = shadow, .kind = FAKE_MEM_MAPPED, .ready = true},
        .next = ranges};
    ranges = range;
    *address = chosen;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                                      unsigned long long flags)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && !fake.settings.devices[0].vmm)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result && (flags || !size || size % PAGE || wish % PAGE || (alignment & (alignment - 1))))
        result =
            wrong("cannot be reserved: not of whole pages, an alignment that is no power of two, or flags", wish, size);
    if (!result)
        result = reserve(address, size, alignment > GRANULE ? alignment : GRANULE, wish);
    FAKE_LEAVE("%zu, %zu, %#llx -> %#llx", size, alignment, wish, result ? 0 : *address);
}

static void end_range(struct range **at)
{
    struct range *range = *at;
    *at = range->next;
    munmap(range->memory.host, range->memory.size);
    munmap((void *)(uintptr_t)range->memory.address, range->memory.size); // NOLINT(performance-no-int-to-ptr)
    free(range);
}

FAKE_API CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    FAKE_CALL(FAKE_INIT);
    struct range **at = &ranges;
    while (*at && (*at)->memory.address != address)
        at = &(*at)->next;
    if (!result && (!*at || (*at)->memory.size != size))
        result = wrong("is not a range that was reserved", address, size);
    if (!result && (*at)->mappings)
        result = wrong("is to be freed with something mapped in it", address, size);
    if (!result)
        end_range(at);
    FAKE_LEAVE("%#llx, %zu", address, size);
}

/* ---- physical memory ---- */

static CUresult create(struct physical **made, size_t size, int device)
{
    void *bytes = fake_memory_charge(device, size)
                      ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                      : NULL;
    if (bytes == MAP_FAILED)
        fake_memory_uncharge(device, size);
    if (!bytes || bytes == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(bytes, FRESH, size);
    struct physical *physical = must(sizeof *physical);
    *physical = (struct physical){.size = size, .device = device, .bytes = bytes};
    physical->handle = (CUmemGenericAllocationHandle)(uintptr_t)fake_handle_new(FAKE_PHYSICAL, physical);
    num_physical++;
    *made = physical;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                              unsigned long long flags)
{
    FAKE_CALL(FAKE_INIT);
    struct physical *made = NULL;
    if (!result)
        result = flags ? CUDA_ERROR_INVALID_VALUE : check_prop(prop);
    if (!result && (!size || size % GRANULE))
        result = wrong("is to be created, and not a multiple of the granularity", 0, size);
    if (!result)
        result = create(&made, size, prop->location.id);
    if (!result)
        *handle = made->handle;
    FAKE_LEAVE("%zu -> %#llx", size, result ? 0 : *handle);
}

static void let_go(struct physical *physical)
{
    if (physical->mappings || !physical->released)
        return;
    fake_memory_uncharge(physical->device, physical->size);
    munmap(physical->bytes, physical->size);
    free(physical);
    num_physical--;
}

static void *as_handle(CUmemGenericAllocationHandle handle)
{
    return (void *)(uintptr_t)handle; // NOLINT(performance-no-int-to-ptr)
}

FAKE_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    FAKE_CALL(FAKE_INIT);
    struct physical *physical = result ? NULL : fake_handle_get(as_handle(handle), FAKE_PHYSICAL);
    if (!result && !physical)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        fake_handle_end(as_handle(handle));
        physical->released = true;
        let_go(physical);
    }
    FAKE_LEAVE("%#llx", handle);
}

/* ---- mappings ---- */

static char *shadow_of(const struct range *range, CUdeviceptr address)
{
    return range->memory.host + (address - range->memory.address);
}

static CUresult map(struct range *range, CUdeviceptr address, struct physical *physical)
{
    /* an old size of 0 maps the same memory again [mremap(2)] */
    void *wanted = shadow_of(range, address);
    if (mremap(physical->bytes, 0, physical->size, MREMAP_MAYMOVE | MREMAP_FIXED, wanted) != wanted)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct mapping *mapping = must(sizeof *mapping);
    *mapping = (struct mapping){.address = address, .physical = physical, .next = range->mappings};
    range->mappings = mapping;
    physical->mappings++;
    return CUDA_SUCCESS;
}

static bool anything_in(const struct range *range, CUdeviceptr address, size_t size)
{
    for (const struct mapping *mapping = range->mappings; mapping; mapping = mapping->next)
        if (overlap(address, size, mapping->address, mapping->physical->size))
            return true;
    return false;
}

FAKE_API CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                           unsigned long long flags)
{
    FAKE_CALL(FAKE_INIT);
    struct physical *physical = result ? NULL : fake_handle_get(as_handle(handle), FAKE_PHYSICAL);
    struct range *range = range_of(address, size);
    if (!result && (!physical || flags || offset))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (!size || size % GRANULE || address % GRANULE))
        result = wrong("is to be mapped, and not aligned to the granularity", address, size);
    if (!result && size != physical->size)
        result = wrong("is to be mapped, and not all of the allocation", address, size);
    if (!result && !range)
        result = wrong("is to be mapped, and not reserved", address, size);
    if (!result && anything_in(range, address, size))
        result = wrong("is to be mapped, and is already", address, size);
    if (!result)
        result = map(range, address, physical);
    FAKE_LEAVE("%#llx, %zu, %#llx", address, size, handle);
}

static void unmap(struct range *range, struct mapping **at)
{
    struct mapping *mapping = *at;
    *at = mapping->next;
    mmap(shadow_of(range, mapping->address), mapping->physical->size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    mapping->physical->mappings--;
    let_go(mapping->physical);
    free(mapping);
}

static struct mapping **whole_mapping(CUdeviceptr address, size_t size, struct range **found)
{
    struct range *range = range_of(address, size);
    struct mapping **at = range ? &range->mappings : NULL;
    while (at && *at && (*at)->address != address)
        at = &(*at)->next;
    *found = range;
    return at && *at && (*at)->physical->size == size ? at : NULL;
}

FAKE_API CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    FAKE_CALL(FAKE_INIT);
    struct range *range;
    if (!result && pinned(address, size))
        wrong("was unmapped while operations used it", address, size);
    while (!result && pinned(address, size))
        fake_wait();
    struct mapping **at = whole_mapping(address, size, &range);
    if (!result && !at)
        result = wrong("is to be unmapped, and is not one whole mapping", address, size);
    if (!result)
        unmap(range, at);
    FAKE_LEAVE("%#llx, %zu", address, size);
}

/* Sets the access of whole mappings, which must cover the range exactly; with `flags` -1, only checks that. */
static bool set_access(const struct range *range, CUdeviceptr address, size_t size, int flags, int device)
{
    CUdeviceptr at = address;
    while (range && at < address + size) {
        struct mapping *mapping = mapping_at(range, at);
        if (!mapping || mapping->address != at || mapping->physical->device != device)
            return false;
        if (flags >= 0)
            mapping->flags = flags;
        at += mapping->physical->size;
    }
    return range && size && at == address + size;
}

FAKE_API CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    FAKE_CALL(FAKE_INIT);
    const struct range *range = range_of(address, size);
    int flags = !result && count == 1 ? (int)desc->flags : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (!result && (count != 1 || (int)desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || flags == 2 || flags > 3))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !set_access(range, address, size, -1, desc->location.id))
        result = wrong("is to be accessible, and not made of whole mappings of that device's memory", address, size);
    if (!result)
        set_access(range, address, size, flags, desc->location.id);
    FAKE_LEAVE("%#llx, %zu, flags=%d", address, size, flags);
}

FAKE_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    FAKE_CALL(FAKE_INIT);
    const struct range *range = range_of(address, 1);
    const struct mapping *mapping = range ? mapping_at(range, address) : NULL;
    if (!result && (!mapping || (int)location->type != CU_MEM_LOCATION_TYPE_DEVICE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *flags = mapping->physical->device == location->id ? (unsigned int)mapping->flags : 0;
    FAKE_LEAVE("%#llx", address);
}

/* ---- end ---- */

static void end_physical(void *object, void *unused)
{
    struct physical *physical = object;
    (void)unused;
    fake_handle_end(as_handle(physical->handle));
    physical->released = true;
    let_go(physical);
}

void fake_vmm_end(void)
{
    while (ranges) {
        while (ranges->mappings)
            unmap(ranges, &ranges->mappings);
        end_range(&ranges);
    }
    fake_handle_each(FAKE_PHYSICAL, end_physical, NULL);
}
