// All instructions.
#pragma once

#include "lowering.h"

namespace vgc::ptx
{

/// Emits an instruction; ends the compilation with an error if it is not known.
void lower_instruction(Lowering &low, const Statement &statement);

} // namespace vgc::ptx
