// Reports of the compiler's own failures: signals, assertions and fatal errors of LLVM, lack of memory or time.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace llvm
{
class Module;
}

namespace vgc
{

/// Makes each failure an error on stderr, of one line, with exit status 1.
void report_crashes();
/// Remembers where functions are in the source, before debug information is removed.
void note_places(const llvm::Module &module);
/// Notes which function (or region of a kernel) is being compiled.
void note_function(llvm::StringRef name);
/// Notes a step that is about no single function.
void note_step(const char *step);

} // namespace vgc
