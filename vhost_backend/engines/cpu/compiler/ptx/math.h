// Pieces of IR that several instructions are made of.
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace vgc::ptx
{

using Builder = llvm::IRBuilder<>;

/// Integer of `like`'s type.
llvm::Value *number_like(llvm::Value *like, uint64_t number);
/// Shift whose result is 0, or copies of the sign, from the width on. The amount may have another type.
llvm::Value *shift_left(Builder &b, llvm::Value *value, llvm::Value *amount);
llvm::Value *shift_right(Builder &b, llvm::Value *value, llvm::Value *amount, bool is_signed);
/// The lowest `count` bits set.
llvm::Value *low_mask(Builder &b, llvm::Type *type, llvm::Value *count);
llvm::Value *minimum(Builder &b, llvm::Value *left, llvm::Value *right, bool is_signed);
llvm::Value *maximum(Builder &b, llvm::Value *left, llvm::Value *right, bool is_signed);
/// Value of `wide` bits from an integer.
llvm::Value *extend(Builder &b, llvm::Value *value, unsigned wide, bool is_signed);
/// Clamps an integer to the range of `bits` bits, signed or not; `is_signed` tells the value's own kind.
llvm::Value *clamp(Builder &b, llvm::Value *value, bool is_signed, unsigned bits, bool to_signed);

} // namespace vgc::ptx
