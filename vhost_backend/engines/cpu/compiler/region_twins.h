// Regions that differ only in where their values are kept and where they end.
#pragma once

#include "compiler.h"

namespace vgc
{

/// Marks an instruction whose constants may differ between twins: the offset of a value's array in the frame, or the
/// sites that threads reach.
void mark_own_constants(llvm::Instruction &instruction);

/// Replaces regions with the same code by one function, which reads what differs from the table of each site.
void merge_twins(Program &program);

} // namespace vgc
