// Arrivals at barrier objects.
#pragma once

#include "instruction.h"

namespace vgc::ptx
{

/// Takes arrivals, of which `dropped` are not expected in later phases, and adds to the bytes that the phase waits for.
/// Returns the object as it was before.
llvm::Value *arrive_at(Instruction &i, llvm::Value *place, llvm::Value *count, llvm::Value *dropped,
                       llvm::Value *bytes);

} // namespace vgc::ptx
