// Arithmetic with a direction of rounding. f32, in plain IR: the result to the nearest is moved by one place where the
// error of that rounding, which is known exactly, says so. f64, apart from sums: by the processor's mode.
#pragma once

#include "math.h"

namespace vgc::ptx
{

enum class Rounding { NEAREST, ZERO, DOWN, UP };

/// A result to the nearest (f64 or f32) and a value with the sign of what is missing to the exact one.
struct Inexact {
    llvm::Value *nearest;
    llvm::Value *missing;
};

Inexact exact_sum(Builder &b, llvm::Value *left, llvm::Value *right);
/// left * right + addend of f64, or of f32 that were extended.
Inexact exact_fma(Builder &b, llvm::Value *left, llvm::Value *right, llvm::Value *addend);
/// What direction of rounding makes of it.
llvm::Value *move(Builder &b, Inexact result, Rounding rounding);
/// f32 from f64, in a direction.
llvm::Value *shorten(Builder &b, Inexact wide, Rounding rounding);
/// The neighbour with an odd last bit if the value is not exact: can be rounded again without a second error.
llvm::Value *round_to_odd(Builder &b, Inexact result);

llvm::Value *add(Builder &b, llvm::Value *left, llvm::Value *right, Rounding rounding);
llvm::Value *multiply_floats(Builder &b, llvm::Value *left, llvm::Value *right, Rounding rounding);
llvm::Value *fma(Builder &b, llvm::Value *left, llvm::Value *right, llvm::Value *addend, Rounding rounding);
llvm::Value *divide(Builder &b, llvm::Value *left, llvm::Value *right, Rounding rounding);
llvm::Value *square_root(Builder &b, llvm::Value *value, Rounding rounding);
/// f32 or f64 from an integer.
llvm::Value *from_integer(Builder &b, llvm::Value *value, bool is_signed, llvm::Type *type, Rounding rounding);

} // namespace vgc::ptx
