/* Finds the CPU versions of kernels: a unit's are a shared library behind its GPU part, opened at the first launch of a
 * kernel that has one. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "blob.h"
#include "versions.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const uint8_t *library_of(const struct rt_unit *unit, uint64_t *len)
{
    const struct vgc_cuda_blob *blob = unit->data;
    uint64_t end = sizeof(*blob) + blob->name_len + blob->options_len + blob->text_len;
    const uint8_t *at = (const uint8_t *)blob + (end + 7) / 8 * 8;
    memcpy(len, at, sizeof(*len));
    return at + sizeof(*len);
}

/* Has the machine the features that mynvcc compiles for? */
static bool has_processor(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

static void *open_library(const uint8_t *library, uint64_t len)
{
    char path[64];
    void *handle = NULL;
    int fd = memfd_create("vgc-local", MFD_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    uint64_t done = 0;
    while (fd >= 0 && done < len) {
        ssize_t written = write(fd, library + done, len - done);
        if (written <= 0)
            break;
        done += (uint64_t)written;
    }
    if (done == len)
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        (void)fprintf(stderr, "virtio-gpu-compute: CPU versions of kernels: %s\n",
                      done == len ? dlerror() : strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return handle;
}

/* FNV-1a. */
static uint64_t digest_of(const uint8_t *bytes, uint64_t len)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < len; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static const struct vgc_local_table *open_table(struct rt_unit *unit)
{
    uint64_t len;
    const uint8_t *library = library_of(unit, &len);
    unit->local_digest = digest_of(library, len);
    if (!has_processor()) {
        (void)fprintf(stderr, "virtio-gpu-compute: CPU versions of kernels need a processor with AVX2 and FMA\n");
        return NULL;
    }
    void *handle = open_library(library, len);
    const struct vgc_local_table *table = handle != NULL ? dlsym(handle, VGC_LOCAL_TABLE) : NULL;
    return table != NULL && table->version == VGC_LOCAL_VERSION ? table : NULL;
}

bool rt_has_local(const struct rt_unit *unit)
{
    const struct vgc_cuda_blob *blob = unit->data;
    return memcmp(blob->magic, VGC_CUDA_BLOB_MAGIC, sizeof(blob->magic)) == 0 &&
           (blob->flags & VGC_CUDA_BLOB_LOCAL) != 0;
}

const struct vgc_local_table *rt_local_table(struct rt_unit *unit)
{
    (void)pthread_mutex_lock(&lock);
    if (!unit->has_opened) {
        unit->has_opened = true;
        unit->local = open_table(unit);
    }
    const struct vgc_local_table *table = unit->local;
    (void)pthread_mutex_unlock(&lock);
    return table;
}

bool rt_local_of(struct rt_function *function, struct rt_local *local)
{
    const struct vgc_local_table *table = rt_local_table(function->unit);
    for (unsigned i = 0; table != NULL && i < table->num_kernels; i++)
        if (strcmp(table->kernels[i].name, function->name) == 0 &&
            rt_local_has_variables(function, &table->kernels[i])) {
            *local = (struct rt_local){table, &table->kernels[i]};
            return true;
        }
    return false;
}

/* ---- the table of local functions --------------------------------------------------------------- */

typedef void visit_function(const char *name, const char *source_name, void *address, void *data);
void *vgc_local_function(const char *name);
void vgc_local_functions(visit_function *visit, void *data);

RT_API void vgc_local_functions(visit_function *visit, void *data)
{
    rt_registry_lock();
    for (struct rt_unit *unit = rt_units(); unit != NULL; unit = unit->next) {
        const struct vgc_local_table *table = unit->has_local ? rt_local_table(unit) : NULL;
        for (unsigned i = 0; table != NULL && i < table->num_functions; i++)
            visit(table->functions[i].name, table->functions[i].source_name,
                  (void *)(uintptr_t)table->functions[i].address, data);
        for (unsigned i = 0; table != NULL && i < table->num_kernels; i++)
            visit(table->kernels[i].name, table->kernels[i].source_name, NULL, data);
    }
    rt_registry_unlock();
}

struct wanted {
    const char *name;
    void *exact;
    void *address;
    unsigned count;
};

static void compare(const char *name, const char *source_name, void *address, void *data)
{
    struct wanted *wanted = data;
    if (address != NULL && strcmp(name, wanted->name) == 0)
        wanted->exact = address;
    if (address != NULL && strcmp(source_name, wanted->name) == 0) {
        wanted->address = address;
        wanted->count++;
    }
}

RT_API void *vgc_local_function(const char *name)
{
    struct wanted wanted = {.name = name};
    vgc_local_functions(compare, &wanted);
    return wanted.exact != NULL ? wanted.exact : wanted.count == 1 ? wanted.address : NULL;
}
