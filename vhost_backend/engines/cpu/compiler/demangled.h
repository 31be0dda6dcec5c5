// Names of functions and variables as people read them.
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace vgc
{

/// Longest mangled name that is taken apart. LLVM's demangler recurses with each character, and names are the guest's.
inline constexpr size_t MAX_DEMANGLED = 8192;

/// The source's name for a mangled name; a name that is not mangled, or too long, as it is.
std::string demangled(llvm::StringRef name);

} // namespace vgc
