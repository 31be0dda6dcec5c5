// Variables: their types in IR and what they begin with.
#pragma once

#include "cell.h"
#include "text.h"

#include "llvm/IR/Module.h"

namespace vgc::ptx
{

/// Bytes of one element, which may be a vector.
uint64_t element_bytes(const Variable &variable, const Text &text);
/// Bytes of the variable; 0 for an array of unknown size.
uint64_t bytes_of(const Variable &variable, const Text &text);
llvm::Align align_of(const Variable &variable, const Text &text);
/// Type of a variable as a value, if it is no array.
llvm::IntegerType *scalar_type(const Variable &variable, llvm::LLVMContext &context, const Text &text);
/// Declares a variable that each thread has for itself while the function runs.
Cell make_local(llvm::Function &function, const Variable &variable, const Text &text);
/// Linkage in IR.
llvm::GlobalValue::LinkageTypes linkage_of(Linkage linkage);
/// Declares a variable that all threads, or all threads of a block, have in common.
Cell make_global(llvm::Module &module, const Variable &variable, const llvm::Twine &name, const Text &text);
/// Gives the variable of `cell` its value, in which names are those of `symbols`.
void initialise(const Cell &cell, const Variable &variable, const Symbols &symbols, const Text &text);

} // namespace vgc::ptx
