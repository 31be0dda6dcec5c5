/* libcudart over libvgc: what its files share. A room of files is a folder, and has a header.
 *
 * Locks, in this order: registry (programs/registry.c), a device's `mutex`, addresses (memory/addresses.c). None is
 * held while the device works, but for loading programs and for creating what the host must create. */
#ifndef VGC_CUDART_RUNTIME_H
#define VGC_CUDART_RUNTIME_H

#include "devices/devices.h"
#include "errors/errors.h"
#include "graphs/graphs.h"
#include "memory/memory.h"
#include "process/process.h"
#include "programs/programs.h"
#include "streams/operations.h"
#include "streams/streams.h"
#include "textures/textures.h"

#endif
