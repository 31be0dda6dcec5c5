// Fragments of wmma: which elements of a matrix a lane has. They lie as those of nvcuda::wmma
// (kernels/cpu/include/mma.h).
//
// A left operand has tiles of 16 lines, a right one tiles of 8; lines are rows of A and columns of B. With 8 rows and
// 32 columns, B is the left operand and the product is the transposed one.
#pragma once

#include "math.h"

namespace vgc::ptx
{

struct Shape {
    unsigned rows, columns, depth;

    bool is_transposed() const
    {
        return rows < columns;
    }
    /// Elements of C and D that a lane has.
    unsigned sums() const
    {
        return rows * columns / 32;
    }
    /// Products of a left and a right tile that the whole consists of.
    unsigned tiles() const
    {
        return (sums() + 3) / 4;
    }
};

/// Registers of A or B.
struct OperandFragment {
    OperandFragment(Shape shape, bool is_a, unsigned bits)
        : lines(is_a ? shape.rows : shape.columns), depth(shape.depth), bits(bits),
          is_left(is_a != shape.is_transposed())
    {
    }
    unsigned lines, depth, bits; // of an element
    bool is_left;

    unsigned per_register() const
    {
        return bits < 32 ? 32 / bits : 1;
    }
    unsigned register_bits() const
    {
        return std::max(32u, bits);
    }
    unsigned tile_lines() const
    {
        return is_left && lines >= 16 ? 16 : 8;
    }
    unsigned tile_registers() const
    {
        return tile_lines() / 8 * depth / (4 * per_register());
    }
    unsigned tiles() const
    {
        return lines / tile_lines();
    }
    unsigned registers() const
    {
        return tiles() * tile_registers();
    }
    /// Line of the elements of a register in lane 4 g + t, less g.
    unsigned line(unsigned number) const
    {
        return number / tile_registers() * tile_lines() + (tile_lines() == 16 ? number % 2 * 8 : 0);
    }
    /// Depth of the first element of a register in lane 4 g + t, less t times the elements of a register.
    unsigned along(unsigned number) const
    {
        return number % tile_registers() / (tile_lines() / 8) * 4 * per_register();
    }
};

/// Place of an element of C or D in lane 4 g + t: g + left and 2 t + right, rows and columns or, transposed, columns
/// and rows.
struct SumPlace {
    SumPlace(Shape shape, unsigned element)
        : left((shape.rows == 16 ? 0 : element / 4 * 16) + element % 4 / 2 * 8),
          right((shape.rows == 16 ? element / 4 * 8 : 0) + element % 2)
    {
    }
    unsigned left, right;
};

} // namespace vgc::ptx
