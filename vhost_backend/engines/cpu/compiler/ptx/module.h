// PTX modules: a text with kernels, functions and variables becomes a module of IR.
#pragma once

#include <memory>
#include <string>

#include "../compiler.h"

namespace vgc::ptx
{

/// True for the text of a PTX module: its first directive is `.version`.
bool is_module(llvm::StringRef text);
/// Lowers the text for a machine, and adds its kernels and the variables that a host may address to `program`. A unit
/// of several may use functions and variables that it does not define. Ends the compilation with an error that names
/// line and column if the text is not understood.
std::unique_ptr<llvm::Module> lower_module(llvm::LLVMContext &context, const llvm::TargetMachine &machine,
                                           const Options &options, const std::string &text, Program &program);
/// Finds the kernels and variables of `program` in a module that others were linked into, and drops those that
/// definitions in other units have replaced.
void find_linked(llvm::Module &module, Program &program);
/// True for a function of a PTX module.
bool is_from_ptx(const llvm::Function &function);

} // namespace vgc::ptx
