// Preludes: what clang made of the headers that are included before every source, kept in precompiled form.
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace clang
{
class CompilerInstance;
} // namespace clang

namespace vgc
{

struct Options;

/// Writes all preludes, and the names that their headers look at, to the folder of --make-preludes.
void make_preludes(const Options &options);
/// The prelude to parse this source with, in the folder of --preludes; empty: none, clang reads the headers.
std::string find_prelude(clang::CompilerInstance &compiler, const Options &options, llvm::StringRef text);

} // namespace vgc
