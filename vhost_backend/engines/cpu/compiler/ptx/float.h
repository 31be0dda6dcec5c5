// Float forms of instructions that integers have as well, and what float instructions share.
#pragma once

#include "instruction.h"
#include "rounding.h"

namespace vgc::ptx
{

/// Takes the modifier of a direction of rounding, if there is one.
Rounding take_rounding(Instruction &i);
/// Replaces a subnormal number by a zero of its sign, if `ftz` is set.
llvm::Value *flush(Builder &b, llvm::Value *value, Type lane, bool ftz);
/// The NaN that the ISA calls canonical: all bits but the sign are set.
llvm::Value *canonical_nan(llvm::Value *like);
/// For .relu: no less than +0; NaN becomes the canonical one.
llvm::Value *rectify(Builder &b, llvm::Value *value);
/// Clamps to [0, 1]; NaN becomes 0.
llvm::Value *saturate(Builder &b, llvm::Value *value);

/// Add, sub and mul; the modifiers of rounding and .ftz are not taken yet.
void lower_float_binary(Instruction &i, Type type, bool sat);
void lower_fma(Instruction &i, Type type, bool sat);
void lower_float_div(Instruction &i, Type type);
void lower_float_sign(Instruction &i, Type type, bool ftz);
void lower_float_min(Instruction &i, Type type);

} // namespace vgc::ptx
