// Branches in place of switches.
#pragma once

#include "llvm/IR/PassManager.h"

namespace vgc
{

/// Makes the function's switches with few cases branches; true if it has any.
bool lower_switches(llvm::Function &function);

/// The same as a pass of the optimiser.
struct LowerSwitches : llvm::PassInfoMixin<LowerSwitches> {
    static llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace vgc
