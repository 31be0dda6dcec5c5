// Checks of accesses to memory by the runtime (../vgc_cpu_checks.h), with --memcheck, --initcheck and --racecheck.
#pragma once

#include "compiler.h"

namespace vgc
{

/// Names parameters and local variables in IR as the source does, from debug information.
void name_objects(llvm::Module &module);
/// Has the runtime check the accesses of the program's functions; `checks` are VGC_CPU_KERNEL_*CHECK. Needs debug
/// information.
void check_accesses(llvm::Module &module, Program &program, uint32_t checks);

} // namespace vgc
