// Blocks that may run as one.
#pragma once

#include "compiler.h"

namespace vgc
{

/// True if neighbouring blocks along x of the kernel, which has no waits, may run as one block with longer rows.
/// Drops what the code says about wrapping of the parts of thread indices, whose values then differ.
bool runs_in_strips(llvm::Function &kernel);

} // namespace vgc
