/* libcudart over libvgc: what its files share. A room of files is a folder, with its header beside it.
 *
 * Locks, in this order: registry (programs/registry.c), a device's `mutex`, addresses (memory/addresses.c). None is
 * held while the device works, but for loading programs and for creating what the host must create. */
#ifndef VGC_CUDART_RUNTIME_H
#define VGC_CUDART_RUNTIME_H

#include "devices.h"
#include "driver.h"
#include "errors.h"
#include "graphs.h"
#include "links.h"
#include "local.h"
#include "marks.h"
#include "memory.h"
#include "operations.h"
#include "process.h"
#include "programs.h"
#include "rtc.h"
#include "streams.h"
#include "textures.h"

#endif
