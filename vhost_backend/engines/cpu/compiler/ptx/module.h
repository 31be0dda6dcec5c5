// PTX modules: a text with kernels, functions and variables becomes a module of IR.
#pragma once

#include <memory>
#include <string>

#include "../compiler.h"

namespace vgc::ptx
{

/// Lowers the text for a machine, and lists its kernels and the variables that a host may address in `program`. Ends
/// the compilation with an error that names line and column if it is not understood.
std::unique_ptr<llvm::Module> lower_module(llvm::LLVMContext &context, const llvm::TargetMachine &machine,
                                           const Options &options, const std::string &text, Program &program);

} // namespace vgc::ptx
