// Code that a single thread of a row runs.
#pragma once

#include "llvm/IR/PassManager.h"

namespace vgc
{

/// Takes it out of the loops over threads, before these are vectorised.
struct MoveLoneThreads : llvm::PassInfoMixin<MoveLoneThreads> {
    static llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

} // namespace vgc
