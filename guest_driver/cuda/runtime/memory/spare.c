/* Memory beyond the VM's allotment, with VGC_FALLBACK=cpu: what allocations cannot have of the device is memory of the
 * process, for kernels that have CPU versions. While there is some, all such kernels run on the CPU; others that are
 * given it are refused.
 *
 * It lies where neither workers of the device nor programs have anything (choose_arena() in worker_messages.py), so
 * that a kernel of the device which finds its address in other memory fails, and reads nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

#define FIRST_ADDRESS UINT64_C(0x180000000000)
#define END_OF_ADDRESSES UINT64_C(0x200000000000)

static _Atomic size_t num_spare;

static bool is_chosen;

static void read_choice(void)
{
    const char *fallback = getenv("VGC_FALLBACK");
    is_chosen = fallback != NULL && strcmp(fallback, "cpu") == 0;
    if (fallback != NULL && !is_chosen && fallback[0] != '\0')
        (void)fprintf(stderr, "virtio-gpu-compute: VGC_FALLBACK: '%s'; allowed: cpu\n", fallback);
}

/* `vgc shadow` needs both devices for all kernels. */
bool rt_falls_back(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_choice);
    return is_chosen && atomic_load(&rt_num_either) > 0 && !rt_is_shadowed();
}

void rt_tell_fallback(const char *why)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_told))
        (void)fprintf(stderr, "virtio-gpu-compute: %s: kernels go on in their CPU versions\n", why);
}

void *rt_spare_map(size_t size)
{
    static _Atomic uint64_t next = FIRST_ADDRESS;
    const uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
    if (!rt_falls_back() || size > END_OF_ADDRESSES - FIRST_ADDRESS)
        return NULL;
    uint64_t wanted = atomic_fetch_add(&next, (size + mask) & ~mask);
    if (wanted > END_OF_ADDRESSES - size) { /* what was freed there can be had again */
        wanted = FIRST_ADDRESS;
        atomic_store(&next, FIRST_ADDRESS);
    }
    void *memory = mmap((void *)(uintptr_t)wanted, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    (void)atomic_fetch_add(&num_spare, 1);
    rt_tell_fallback("the VM's device memory is used up, further memory is the guest's own");
    return memory;
}

void rt_spare_note(void)
{
    (void)atomic_fetch_add(&num_spare, 1);
}

void rt_spare_unmap(void *memory, size_t size)
{
    (void)munmap(memory, size);
    (void)atomic_fetch_sub(&num_spare, 1);
}

cudaError_t rt_allocate_anywhere(struct rt_device *device, size_t size, void **pointer)
{
    cudaError_t error = rt_allocate(device, size, pointer);
    void *memory = error == cudaErrorMemoryAllocation ? rt_spare_map(size) : NULL;
    if (memory == NULL)
        return error;
    const struct rt_range range = {.begin = (uint64_t)(uintptr_t)memory,
                                   .size = size,
                                   .kind = RT_DEVICE_MEMORY,
                                   .device = device,
                                   .is_reserved = true,
                                   .is_spare = true};
    cudaError_t added = rt_add_range(&range);
    if (added != cudaSuccess) {
        rt_spare_unmap(memory, size);
        return added;
    }
    *pointer = memory;
    return cudaSuccess;
}

void rt_tell_no_fallback(cudaError_t error, const char *what)
{
    if (error == cudaErrorMemoryAllocation && rt_falls_back())
        (void)fprintf(stderr, "virtio-gpu-compute: %s: the device has no room, and VGC_FALLBACK does not help there\n",
                      what);
}

bool rt_has_spare(void)
{
    return atomic_load_explicit(&num_spare, memory_order_relaxed) > 0;
}

bool rt_is_spare(const void *pointer)
{
    struct rt_range range;
    return rt_has_spare() && rt_find_range(pointer, &range) && range.is_spare;
}

/* Looks at all words of the arguments, as structs may have pointers. */
cudaError_t rt_check_spare(const struct rt_launch *launch)
{
    if (!rt_has_spare())
        return cudaSuccess;
    for (uint32_t i = 0; i < launch->num_arguments; i++) {
        struct vgc_param param;
        if (vgc_function_param(launch->loaded, i, &param) != VGC_OK)
            continue;
        for (uint32_t at = 0; at + sizeof(void *) <= param.size; at += sizeof(void *)) {
            void *word;
            memcpy(&word, (const uint8_t *)launch->arguments[i] + at, sizeof(word));
            if (rt_is_spare(word))
                return rt_explain(cudaErrorMemoryAllocation,
                                  "%s has no CPU version that can run, and memory at %p is beyond the VM's allotment",
                                  launch->function->name, word);
        }
    }
    return cudaSuccess;
}
