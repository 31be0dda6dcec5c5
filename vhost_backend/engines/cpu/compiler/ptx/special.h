// Special registers.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace vgc::ptx
{

/// Where the value of a special register comes from.
struct Special {
    enum Kind { UNKNOWN, BUILTIN, CONSTANT, CYCLES, TIMER, WARPS, CLUSTERED };
    Kind kind = UNKNOWN;
    llvm::StringRef builtin; // of the engine
    unsigned constant = 0;
    bool upper_half = false; // of CYCLES and TIMER
};

/// Special register with this name, such as tid.x, without the percent sign.
Special special_named(llvm::StringRef name);

} // namespace vgc::ptx
