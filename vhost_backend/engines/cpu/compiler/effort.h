// Limits of the optimiser's effort for programs that are far larger than what people write by hand.
#pragma once

#include <vector>

#include "llvm/IR/Module.h"
#include "llvm/Passes/OptimizationLevel.h"

namespace vgc
{

/// What the optimiser does for a program behind the formation of regions. Of passes over functions and loops, it runs
/// on enormous functions only those of `of_enormous`: the others have seen this code before.
struct Effort {
    llvm::OptimizationLevel level = llvm::OptimizationLevel::O3;
    // names of passes
    std::vector<llvm::StringRef> skipped;
    std::vector<llvm::StringRef> of_enormous = {"SROAPass", "EarlyCSEPass", "SimplifyCFGPass", "LICMPass"};
};

/// Takes the duty to be inlined from functions without waits which would make their callers too large.
void limit_inlining(llvm::Module &module);
/// Bounds what `#pragma unroll` makes of a loop.
void limit_unrolling();
/// Keeps the loop vectoriser from vectors for strides of 1 only where a stride is a number of the launch: a[thread * n]
/// would run one by one for every other n.
void keep_strides();
/// Bounds the comparisons of the machine schedulers, whose number is the square of that of a block's accesses of
/// memory.
void limit_scheduling();
/// Cuts blocks of very many instructions into several, for the code generator.
void split_blocks(llvm::Module &module);
/// Marks functions above a size for cheaper optimisation, and says so in a remark; all of them, but small ones, if the
/// program as a whole is large. Comes before a division, as all shares are optimised alike.
Effort limit_effort(llvm::Module &module);
/// True for a function that is above the largest of these sizes.
bool is_enormous(const llvm::Function &function);

} // namespace vgc
