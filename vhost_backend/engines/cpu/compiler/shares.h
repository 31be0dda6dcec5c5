// The back end in two processes: each optimises and generates code for a share of the functions.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Module.h"

namespace vgc
{

struct Options; // options.h

/// Compiles the functions of a module to a file of object code.
using CompileShare = llvm::function_ref<void(llvm::Module &share, const std::string &object)>;

/// Compiles the program, which is used up, in shares side by side if that is worth it. Returns the files of all shares.
/// Errors in this process's shares are noted in the module's context; one of another process ends this one.
std::vector<std::string> compile_shares(llvm::Module &module, const Options &options, CompileShare compile);

} // namespace vgc
