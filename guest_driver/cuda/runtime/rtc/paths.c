/* Paths of headers in the guest. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime.h"

/* Adds the parts of `name` to a path that has none of "." and "..". */
static bool add_parts(char path[RT_MAX_PATH], const char *name)
{
    size_t len = strlen(path);
    while (*name != '\0') {
        const size_t part = strcspn(name, "/");
        if (part == 2 && memcmp(name, "..", 2) == 0) {
            char *slash = strrchr(path, '/');
            len = slash == NULL ? 0 : (size_t)(slash - path);
        } else if (part > 0 && !(part == 1 && *name == '.')) {
            if (len + part + 2 > RT_MAX_PATH)
                return false;
            path[len] = '/';
            memcpy(path + len + 1, name, part);
            len += part + 1;
        }
        path[len] = '\0';
        name += part;
        name += *name == '/';
    }
    return true;
}

bool rt_join_path(char path[RT_MAX_PATH], const char *folder, const char *name)
{
    char here[RT_MAX_PATH] = "/";
    path[0] = '\0';
    if (name[0] == '/')
        return add_parts(path, name);
    if (folder[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return false;
    return (folder[0] == '/' || add_parts(path, here)) && add_parts(path, folder) && add_parts(path, name);
}

void rt_folder_of(char folder[RT_MAX_PATH], const char *path)
{
    const char *slash = strrchr(path, '/');
    const int len = slash == NULL ? 0 : (int)(slash - path);
    (void)snprintf(folder, RT_MAX_PATH, "%.*s", len, path);
}

bool rt_is_hosts_folder(const char *folder)
{
    static const char *const SYSTEM[] = {"/usr/include", "/usr/lib", "/usr/local/cuda", "/opt/cuda"};
    static const char *const SIGNS[] = {"cuda_runtime.h",  "cuda_runtime_api.h", "cuda_fp16.h",     "bits/c++config.h",
                                        "cub/version.cuh", "thrust/version.h",   "cuda/std/version"};
    char path[RT_MAX_PATH];
    for (size_t i = 0; i < sizeof(SYSTEM) / sizeof(SYSTEM[0]); i++)
        if (strncmp(folder, SYSTEM[i], strlen(SYSTEM[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(SIGNS) / sizeof(SIGNS[0]); i++)
        if (rt_join_path(path, folder, SIGNS[i]) && access(path, F_OK) == 0)
            return true;
    return false;
}
