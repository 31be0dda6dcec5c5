// The order of one thread's accesses to memory in vectorised loops over threads.
#pragma once

#include "llvm/IR/PassManager.h"

namespace vgc
{

/// Has LLVM keep it, before the loops are vectorised.
struct KeepAccessOrder : llvm::PassInfoMixin<KeepAccessOrder> {
    static llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

} // namespace vgc
