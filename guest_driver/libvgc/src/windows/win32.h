/* Windows behind the seam, for the files of this folder. From the bottom up: error_code.c, time.c, process.c,
 * pnp.c, ivshmem.c and netuio.c (devices.h), file.c, socket.c, fnmatch.c, pci.c, and above these what only refuses:
 * memfd.c, grant.c. */
#ifndef VGC_WIN32_H
#define VGC_WIN32_H

#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>

#include <windows.h>

#include "../internal.h"

/* ---- error_code.c --------------------------------------------------------------------------- */

/* Sets errno for an error code of Windows, whose text vgc_error_text() has then. Returns false. */
bool vgc_failed_with(DWORD code);

#endif
