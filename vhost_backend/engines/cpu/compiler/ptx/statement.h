// Inline PTX: an asm statement becomes IR.
#pragma once

#include <string>

#include "lowering.h"

namespace vgc::ptx
{

/// PTX of an asm statement, as in the source; operands are %0, %1 and so on.
std::string text_of(const llvm::CallInst &call);
/// Replaces the statement by IR; ends the compilation with an error that begins with `where` if it is not understood.
void lower(llvm::CallInst &call, const std::string &where);

} // namespace vgc::ptx
