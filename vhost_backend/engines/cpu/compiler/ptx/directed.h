// Fused products and sums of f32 that are rounded in a direction.
#pragma once

#include "rounding.h"

namespace vgc::ptx
{

/// Emits one, in a form that `lower_directed` lowers.
llvm::Value *directed_fma(Builder &b, llvm::Value *left, llvm::Value *right, llvm::Value *addend, Rounding rounding);
/// Lowers all of them, when it is known which operands are constants.
void lower_directed(llvm::Module &module);

} // namespace vgc::ptx
