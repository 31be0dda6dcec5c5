// Hoisting of bounds checks out of the loop over a row of threads.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Instructions.h"

namespace vgc
{

/// A loop over threads that differ only in threadIdx.x, which runs from first_x up to end_x - 1.
struct ThreadRow {
    llvm::PHINode *x;
    llvm::Value *first_x;
    llvm::Value *end_x;
    llvm::Instruction *before; // terminator of the block before the loop
};

/// Prepares comparisons in the loop's body so that loop unswitching makes a version of the loop without them.
void hoist_guards(const ThreadRow &row, llvm::ArrayRef<llvm::BasicBlock *> body);

} // namespace vgc
