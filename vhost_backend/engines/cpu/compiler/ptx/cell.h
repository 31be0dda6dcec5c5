// Names of PTX and what they stand for: registers, variables, functions.
#pragma once

#include <map>
#include <string>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"

#include "syntax.h"

namespace vgc::ptx
{

/// An operand of the asm statement, a register, a variable or a function.
struct Cell {
    llvm::AllocaInst *slot = nullptr;      // of a register
    unsigned bits = 0;                     // of the register, or of a variable that is no array
    llvm::ConstantInt *constant = nullptr; // instead of a slot: operand with the constraint n
    llvm::Value *address = nullptr;        // instead of a slot: of a variable or function
    Space space = Space::GENERIC;          // of a variable
    uint64_t element = 0;                  // bytes of an element of a variable
    bool is_kernel = false;                // a function that only hosts call
    bool is_constant = false;              // a variable that nobody writes

    /// Bytes from the variable's begin to the place that an operand names.
    uint64_t offset(const Operand &operand) const
    {
        return uint64_t(operand.offset) + operand.index * element;
    }
    bool is_function() const
    {
        return address != nullptr && llvm::isa<llvm::Function>(address);
    }
};

using Symbols = std::map<std::string, Cell>;

} // namespace vgc::ptx
