// Names of functions in the image's symbols, for tools of the host that sample a worker (perf).
#pragma once

#include "llvm/IR/Module.h"

namespace vgc
{

/// Names functions as people read them: kernels and functions as in the source, regions by their kernel and number.
/// Once all regions are formed, by whose kernels the compiler itself knows them until then.
void name_code(llvm::Module &module);

} // namespace vgc
