// Products of matrices that a warp holds together (mma).
#pragma once

#include "math.h"
#include "types.h"

#include "llvm/IR/Function.h"

namespace vgc::ptx
{

/// Shape and types of D = A B + C. Each lane has some registers of A, of B, and of C and D, of equal counts and sizes.
struct Product {
    unsigned rows, columns, depth;
    unsigned bits;    // of an element of A and B
    Type left, right; // types of the elements
    bool tf32;
    Type result;
    bool saturates = false; // sums of integers stop at their ends
    bool exclusive = false; // of single bits: those that differ are counted, not those that both are set

    unsigned per_register() const
    {
        return bits < 32 ? 32 / bits : 1;
    }
    unsigned register_bits() const
    {
        return std::max(32u, bits);
    }
    /// Registers that hold what a lane has of the depth of one row or column.
    unsigned along_depth() const
    {
        return depth / (4 * per_register());
    }
    /// Rows of A and C that a lane has elements of: g, or g and g + 8.
    unsigned halves() const
    {
        return rows / 8;
    }
    unsigned left_registers() const
    {
        return along_depth() * halves();
    }
    unsigned right_registers() const
    {
        return along_depth();
    }
    bool packs_sums() const
    {
        return result.bits == 16;
    }
    unsigned sum_registers() const
    {
        return packs_sums() ? halves() : 2 * halves();
    }
    unsigned sum_bits() const
    {
        return std::max(32u, result.bits);
    }
};

/// Function that makes the warp's product of the rooms of its lanes, VGC_CPU_ROOM words each: registers of A, B and C,
/// of which those of C become those of D. It has the target of `caller`; its arguments are those of vgc_cpu_site.work.
llvm::Function *warp_product(llvm::Function &caller, const Product &product);

} // namespace vgc::ptx
