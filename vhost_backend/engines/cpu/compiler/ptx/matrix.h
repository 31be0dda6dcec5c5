// Products of matrices that a warp holds together, by instructions.
#pragma once

#include "instruction.h"
#include "product.h"

namespace vgc::ptx
{

using Values = std::vector<llvm::Value *>;

/// Takes the types of A and B that no other instructions have, tf32 and those of less than a byte, and what becomes of
/// single bits. False without them.
bool take_own_types(Instruction &i, Product &product);
/// Values of an operand, in braces.
Values registers_of(Instruction &i, size_t operand, unsigned count, unsigned bits);
/// Values of D from those of A, B and C, which have the product's counts and sizes. Each lane leaves its registers
/// in its room; the warp's product is made when all have come.
Values multiply(Instruction &i, const Product &product, const Values &left, const Values &right, const Values &sums);

} // namespace vgc::ptx
