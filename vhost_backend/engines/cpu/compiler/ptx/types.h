// Types of PTX.
#pragma once

#include <optional>

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/IRBuilder.h"

namespace vgc::ptx
{

struct Type {
    enum Kind { BITS, UNSIGNED, SIGNED, FLOAT, BFLOAT, PREDICATE };
    Kind kind = BITS;
    unsigned bits = 32; // of a lane
    unsigned lanes = 1; // 2: f16x2 and the like

    unsigned width() const
    {
        return bits * lanes;
    }
    bool is_float() const
    {
        return kind == FLOAT || kind == BFLOAT;
    }
    bool is_signed() const
    {
        return kind == SIGNED;
    }
    /// The type of one lane.
    Type lane() const
    {
        return {kind, bits, 1};
    }
};

/// Type with this name, without the dot.
std::optional<Type> type_named(llvm::StringRef name);

/// Value of a lane, in bits, as a float that arithmetic is done with: f32 for the types of 16 bits.
llvm::Value *widen(llvm::IRBuilder<> &builder, llvm::Value *bits, Type lane);
/// Reverse of `widen`; rounds to the nearest, ties to even.
llvm::Value *narrow(llvm::IRBuilder<> &builder, llvm::Value *value, Type lane);

} // namespace vgc::ptx
