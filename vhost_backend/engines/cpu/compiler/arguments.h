// What clang is told before it parses: its arguments, the processor, and how headers are found.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace clang
{
class CompilerInstance;
class Preprocessor;
} // namespace clang

namespace llvm
{
class Module;
} // namespace llvm

namespace vgc
{

struct Options;

/// Prepares clang for CUDA, parsed as device code: the arguments that `options` and the source's text ask for.
void set_up(clang::CompilerInstance &compiler, const Options &options, llvm::StringRef text);
/// Lets clang take inline PTX, `alignas` behind __shared__, and __device__ beside it.
void watch_tokens(clang::Preprocessor &preprocessor);
/// Lets clang take macros whose text is a #pragma.
void watch_macros(clang::Preprocessor &preprocessor);
/// True if sources are parsed for a processor that this one is better than, the same on most hosts.
bool has_common_processor();
/// Makes functions that were parsed for the common processor those of the processor at hand.
void take_processor(llvm::Module &module, clang::CompilerInstance &compiler);

} // namespace vgc
