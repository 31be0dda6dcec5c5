// Calls between units in PTX and in CUDA C. PTX passes bits, IR that clang makes of CUDA C has types and extensions.
#pragma once

#include "llvm/IR/Function.h"

namespace vgc
{

/// Puts a function that passes arguments and results on in the place of a declaration whose definition is in a unit of
/// the other kind; false, and nothing, if that is not possible.
bool adapt_calls(llvm::Function &declared, const llvm::Function &definition);

} // namespace vgc
