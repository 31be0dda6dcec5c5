// Functions that a module declares and every device has: vprintf, __assertfail, malloc, free.
#pragma once

#include "llvm/IR/Function.h"

namespace vgc::ptx
{

/// Gives a declared function of this name a body that calls the runtime; false if no such function is known.
bool define_extern(llvm::Function &function, llvm::StringRef name, uint64_t heap_bytes);

} // namespace vgc::ptx
