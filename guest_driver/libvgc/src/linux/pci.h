/* Files of PCI functions in sysfs, for what is Linux's alone. */
#ifndef VGC_LINUX_PCI_H
#define VGC_LINUX_PCI_H

#include <sys/types.h>

#include "../internal.h"

/* Opens a file of a function's. Returns the descriptor, -1 with errno on errors. */
int vgc_pci_open(const char *address, const char *file, int flags);
/* Lets a group read and write a file of the function's. */
int vgc_pci_grant(const char *address, const char *file, gid_t group);
/* Lets a group read and write a devdax. */
int vgc_dax_grant(const char *name, gid_t group);

#endif
