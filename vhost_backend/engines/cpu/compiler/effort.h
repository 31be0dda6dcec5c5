// Limits of the optimiser's effort for programs that are far larger than what people write by hand.
#pragma once

#include "llvm/IR/Module.h"

namespace vgc
{

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
/// Marks functions above a size for cheaper optimisation, and says so in a remark; all of them, but small ones, if the
/// program as a whole is large.
void limit_effort(llvm::Module &module);

} // namespace vgc
