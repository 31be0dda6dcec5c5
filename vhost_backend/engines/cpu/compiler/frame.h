// The frame of a kernel: memory where its threads keep what they need after their waits.
#pragma once

#include "sites.h"

#include "llvm/ADT/MapVector.h"

namespace vgc
{

/// Offset of a slot's array in the frame (times the stride), and the size of a thread's element.
struct Slot {
    uint64_t offset;
    uint64_t size;
    bool common; // see struct Kept
};

using Slots = llvm::MapVector<llvm::AllocaInst *, Slot>;

/// Gives each kept value and variable its slot, and sets the size of the kernel's frame. Values that no region needs
/// at once share one.
Slots lay_out_frame(const std::vector<Kept> &kept, const std::vector<Wait> &waits, Kernel &kernel);

} // namespace vgc
