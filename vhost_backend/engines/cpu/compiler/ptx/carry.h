// The carry flag CC.CF while functions are not inlined yet.
#pragma once

#include "llvm/IR/Module.h"

namespace vgc::ptx
{

/// Builtins that stand for a read and a write of the flag.
llvm::FunctionCallee carry_reader(llvm::Module &module);
llvm::FunctionCallee carry_writer(llvm::Module &module);
/// Turns the flag into a variable of each function; after inlining.
void place_carry_flags(llvm::Module &module);

} // namespace vgc::ptx
