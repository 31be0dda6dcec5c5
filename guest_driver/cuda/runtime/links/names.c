/* Functions of nvJitLink by name. NVIDIA's header gives programs names with a release at their end. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

enum { MAX_NAME = 128 };

/* The plain name of __nvJitLinkCreate_13_0 and its kin. */
static void take_release_off(char plain[MAX_NAME], const char *name)
{
    (void)snprintf(plain, MAX_NAME, "%s", name + 2 * (strncmp(name, "__", 2) == 0));
    char *end = strchr(plain, '_');
    if (name[0] == '_' && end != NULL)
        *end = '\0';
}

void *vgc_nvjitlink_function(const char *name)
{
    char plain[MAX_NAME];
    take_release_off(plain, name);
    return rt_find_function(RT_LINK_NAMES, RT_NUM_LINK_NAMES, plain);
}
