/* The CUDA runtime that a program, or a library of it, was linked with. A process may have another, too, as `vgc trace`
 * loads one for what opens it later. */
#include <link.h>
#include <string.h>

#include "needed.h"

static const char RUNTIME[] = "libcudart.so.";

/* The name of a runtime among those of the libraries that an object needs, or NULL. */
static const char *runtime_of(const ElfW(Dyn) * dynamic)
{
    const char *strings = NULL;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr; /* an address, once it is loaded */
    for (const ElfW(Dyn) *entry = dynamic; strings != NULL && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && strncmp(strings + entry->d_un.d_val, RUNTIME, sizeof(RUNTIME) - 1) == 0)
            return strings + entry->d_un.d_val;
    return NULL;
}

static int visit(struct dl_phdr_info *object, size_t size, void *found)
{
    (void)size;
    for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            const char *name = runtime_of((const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr));
            if (name != NULL) {
                *(const char **)found = name;
                return 1;
            }
        }
    return 0;
}

const char *vgc_needed_runtime(void)
{
    const char *name = NULL; /* that of an object which needs it, so it stays as long as that does */
    return dl_iterate_phdr(visit, &name) != 0 ? name : NULL;
}
