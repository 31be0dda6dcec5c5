// One kernel of a source that has many: a program with CUB or Thrust has hundreds, of which it launches a few.
#pragma once

#include "compiler.h"

namespace vgc
{

/// Drops all kernels but that of this name, as the linker calls it, and what they alone use. Fails if the source lacks
/// it, or if it shares memory with others: each kernel that is compiled alone would have variables and a heap of its
/// own.
void keep_kernel(llvm::Module &module, Program &program, llvm::StringRef name);

} // namespace vgc
