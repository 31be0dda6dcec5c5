// One kernel of a source that has many: a program with CUB or Thrust has hundreds, of which it launches a few.
#pragma once

#include "compiler.h"

namespace vgc
{

/// Has `keep_asked_kernel` keep the kernel of this name alone, as the linker calls it.
void ask_for_kernel(llvm::StringRef name);
/// Drops all other kernels, and what they alone use, if one kernel was asked for. Fails if the source lacks it, or if
/// it shares memory with others: each kernel that is compiled alone would have variables and a heap of its own.
void keep_asked_kernel(llvm::Module &module, Program &program);

} // namespace vgc
