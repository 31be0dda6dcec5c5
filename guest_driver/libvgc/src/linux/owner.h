#ifndef VGC_LINUX_OWNER_H
#define VGC_LINUX_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* Is the user the machine's root? A container may have a namespace of users in which root of the machine is nobody,
 * and so are all others who are not in it; they are members of the group then, which is trusted as root is. */
bool vgc_is_root(uid_t user);

#endif
