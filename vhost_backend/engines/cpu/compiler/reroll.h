// Loops that a compiler has unrolled with a remainder become one loop again.
#pragma once

#include "unrolled.h"

namespace vgc
{

/// Makes one loop of each of these loops and the one behind it that does several of its rounds at once. The loops are
/// named by their headers.
void reroll(llvm::Function &function, const std::vector<llvm::BasicBlock *> &firsts);

} // namespace vgc
