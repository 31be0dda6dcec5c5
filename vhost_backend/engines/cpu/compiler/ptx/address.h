// State spaces and addresses. Addresses of shared memory are offsets in the block's shared memory, as on a GPU; all
// others are addresses of the host's process.
#pragma once

#include "instruction.h"

namespace vgc::ptx
{

/// Takes the modifier of a state space; GENERIC without one.
Space take_space(Instruction &i);
/// Address operand as a pointer.
llvm::Value *pointer(Instruction &i, size_t index, Space space);
/// Takes modifiers that only advise caches.
void take_cache_hints(Instruction &i);
/// Takes the modifiers of order and scope. NotAtomic without them.
llvm::AtomicOrdering take_ordering(Instruction &i);

} // namespace vgc::ptx
