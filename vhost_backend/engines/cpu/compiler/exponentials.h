// Powers of two as arithmetic.
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace vgc
{

/// Emits 2^t of floats, 0 where it would be denormal: wrong by less than one unit in the last place, and half the work
/// of the function that has denormal results, as it does without doubles.
llvm::Value *normal_power_of_two(llvm::IRBuilder<> &builder, llvm::Value *t);

} // namespace vgc
