/* NVIDIA's runtime beside ours in one process, as a library or inside of a library: it finds no GPU, so what calls it
 * fails, and the cause is hard to see. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"

extern const char __cudaVgcRuntime[];

/* Is the library one of NVIDIA's? Ours says so by a name of its own. */
static bool is_nvidias(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return false;
    bool is = dlsym(library, "cudaGetDeviceCount") != NULL && dlsym(library, "__cudaVgcRuntime") == NULL;
    (void)dlclose(library);
    return is;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    const char **found = data;
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    if (strncmp(slash != NULL ? slash + 1 : info->dlpi_name, "libcudart.so", 12) != 0)
        return 0;
    *found = info->dlpi_name;
    return is_nvidias(info->dlpi_name);
}

RT_API const char __cudaVgcRuntime[] = "virtio-gpu-compute";

void rt_look_for_others(void)
{
    static _Atomic bool is_told;
    const char *path = NULL;
    if (atomic_load(&is_told) || dl_iterate_phdr(visit, &path) == 0 || atomic_exchange(&is_told, true))
        return;
    (void)fprintf(
        stderr,
        "virtio-gpu-compute: this process has also loaded NVIDIA's %s, which finds no GPU here: put the folder "
        "of the toolkit's libcudart before others in LD_LIBRARY_PATH\n",
        path);
}

/* Do NVIDIA's compilers ask there, which go on without? */
static bool is_compiler(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    return strncmp(name, "libnvrtc.", 9) == 0 || strncmp(name, "libnvJitLink.", 13) == 0;
}

void rt_tell_of_runtime_in(const void *caller)
{
    static _Atomic bool is_told;
    Dl_info where;
    rt_look_for_others();
    if (dladdr(caller, &where) == 0 || where.dli_fname == NULL || is_nvidias(where.dli_fname) ||
        is_compiler(where.dli_fname) || atomic_exchange(&is_told, true))
        return;
    (void)fprintf(
        stderr,
        "virtio-gpu-compute: %s has NVIDIA's CUDA runtime inside, which works with NVIDIA's driver only, and fails "
        "here: build it from its sources with this toolkit's nvcc, or with -cudart shared\n",
        where.dli_fname);
}
