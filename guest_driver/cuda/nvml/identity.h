/* Place of a device on the PCI bus of the VM. */
#pragma once
#include "devices.h"

struct nv_place {
    unsigned domain;
    unsigned bus;
    unsigned device;
};

/* All zeroes for a device that is on no bus, as CUDA has it. */
struct nv_place nv_place_of(const struct nvmlDevice_st *device);
