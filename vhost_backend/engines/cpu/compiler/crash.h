// Reports of the compiler's own failures: signals, assertions and fatal errors of LLVM, lack of memory or time.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace llvm
{
class Module;
}
namespace clang
{
class SourceLocation;
class SourceManager;
} // namespace clang

namespace vgc
{

/// Lets the stack grow as far as sources of the largest size need it.
void extend_stack();
/// Makes each failure an error on stderr, of one line, with exit status 1.
void report_crashes();
/// Remembers where functions are in the source, before debug information is removed.
void note_places(const llvm::Module &module);
/// Notes which function (or region of a kernel) is being compiled.
void note_function(llvm::StringRef name);
/// Remembers the token that clang has read last: its own notes name no place between two tokens.
void note_token(const clang::SourceManager &sources, clang::SourceLocation place);
/// Forgets it: the sources are about to go.
void forget_token();
/// Notes a step that is about no single function.
void note_step(const char *step);

} // namespace vgc
