// Barriers of the grid, as cooperative groups are compiled to PTX.
#pragma once

#include "llvm/IR/Module.h"

namespace vgc::ptx
{

/// Name of the builtin for one of the registers %envreg1 and %envreg2, in which the driver passes the upper and the
/// lower half of the address of a cooperative launch's memory.
inline constexpr char GRID_HIGH[] = "__vgc_envreg1", GRID_LOW[] = "__vgc_envreg2";

/// Replaces what blocks do with that memory by barriers of the engine, once functions are inlined. Ends the compilation
/// with an error if they access it otherwise.
void place_grid_barriers(llvm::Module &module);

} // namespace vgc::ptx
