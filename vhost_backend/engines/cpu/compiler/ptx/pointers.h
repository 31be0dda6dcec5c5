// Addresses that PTX computes as integers become pointers, which the optimiser understands.
#pragma once

#include "llvm/IR/Function.h"

namespace vgc::ptx
{

/// Makes registers values, and has accesses to memory use pointers that are computed as their addresses are.
void recover_pointers(llvm::Function &function);

} // namespace vgc::ptx
