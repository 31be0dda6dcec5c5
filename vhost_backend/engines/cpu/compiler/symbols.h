// Names that a program's source lacks.
#pragma once

#include "llvm/IR/Module.h"

namespace vgc
{

struct Options;

/// Defines what a program lacks that is compiled only for a link to come: functions end the launch, variables are 0.
void define_missing(const Options &options, llvm::Module &module);

} // namespace vgc
