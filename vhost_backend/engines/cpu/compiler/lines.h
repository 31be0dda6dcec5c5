// Lines of the source in the image: DWARF that names no path of the host.
#pragma once

#include "compiler.h"
#include "options.h"

namespace llvm
{
class PassInstrumentationCallbacks;
} // namespace llvm

namespace vgc
{

/// Removes what debug information says of variables; places of instructions stay.
void drop_variables(llvm::Module &module);
/// Keeps the places of code that LLVM makes unconditional, and that would have none then.
void keep_places(llvm::PassInstrumentationCallbacks &callbacks);
/// Gives each function debug information of its own, with a place in the program's own source for each instruction:
/// code of a header of ours or of the host has the line that calls it. Needs all functions that will be.
void settle_lines(llvm::Module &module, const Options &options);

} // namespace vgc
