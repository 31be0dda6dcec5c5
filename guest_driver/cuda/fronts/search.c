/* libvgc_search.so: has the dynamic loader take this toolkit's libraries wherever a program asks for NVIDIA's.
 *
 * `vgc exec` names it in LD_AUDIT. Python packages bring NVIDIA's libraries and find them by a path of their own, which
 * goes before LD_LIBRARY_PATH, or open them by their whole path. The loader asks this library first; a name with a
 * version that lies beside it is answered by its own path there, all others as they were asked for. A module of the
 * package cuda-bindings that has NVIDIA's runtime inside is answered by libvgc_bindings.so, unless two slashes before
 * its name say that this library asks. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static char folder[PATH_MAX]; /* with its last slash; empty: unknown, so nothing is changed */

API unsigned la_version(unsigned version);
API unsigned la_version(unsigned version)
{
    Dl_info here;
    const char *slash = dladdr(folder, &here) != 0 ? strrchr(here.dli_fname, '/') : NULL;
    const size_t bytes = slash != NULL ? (size_t)(slash + 1 - here.dli_fname) : 0;
    if (bytes < sizeof(folder)) {
        memcpy(folder, slash != NULL ? here.dli_fname : "", bytes);
        folder[bytes] = '\0';
    }
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static bool is_runtime_of_bindings(const char *name, const char *last)
{
    static const char *const MODULES[] = {"/cuda/bindings/_bindings/cyruntime", "/cuda/bindings/_internal/runtime"};
    const bool is_module = strstr(name, MODULES[0]) != NULL || strstr(name, MODULES[1]) != NULL;
    return is_module && last - name > 1 && last[-2] != '/';
}

static bool is_library(const char *last)
{
    return strncmp(last, "lib", 3) == 0 && strstr(last, ".so.") != NULL;
}

API char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
API char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    static _Thread_local char path[PATH_MAX]; /* the loader copies it */
    const char *slash = strrchr(name, '/');
    const char *last = slash != NULL ? slash + 1 : name;
    (void)cookie;
    const bool is_bindings = is_runtime_of_bindings(name, last);
    if (flag != LA_SER_ORIG || folder[0] == '\0' || !(is_bindings || is_library(last)))
        return (char *)name;
    const int bytes = snprintf(path, sizeof(path), "%s%s", folder, is_bindings ? "libvgc_bindings.so" : last);
    return bytes > 0 && (size_t)bytes < sizeof(path) && access(path, R_OK) == 0 ? path : (char *)name;
}
