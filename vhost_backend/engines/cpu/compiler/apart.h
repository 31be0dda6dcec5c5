// Accesses to different variables in a block's shared memory, told apart.
#pragma once

#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Instructions.h"

namespace vgc
{

/// Marks a function's loads and stores in shared variables with alias scopes: those in one variable touch nothing that
/// those in others do. `variables`: the calls that stand for each variable in that function. Accesses whose address is
/// chosen between variables stay unmarked. Functions with very many variables stay as they are.
void mark_apart(llvm::Function &function, llvm::ArrayRef<std::vector<llvm::CallInst *>> variables);

/// Adds the loads of a block that read what none of its instructions before them may have written.
void find_first_loads(const llvm::BasicBlock &block, llvm::DenseSet<const llvm::LoadInst *> &loads);

} // namespace vgc
