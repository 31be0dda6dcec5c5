// Places in the source that access memory: warnings of them, and their checks by the runtime,
// (../vgc_cpu_checks.h) with --memcheck, --initcheck and --racecheck.
#pragma once

#include "compiler.h"

namespace vgc
{

/// Names parameters and local variables in IR as the source does, from debug information.
void name_objects(llvm::Module &module);
/// Has the runtime check the accesses of the program's functions; `checks` are VGC_CPU_KERNEL_*CHECK. Needs debug
/// information.
void check_accesses(llvm::Module &module, Program &program, uint32_t checks);

/// Place of an instruction in the program's own source, in which it may be behind calls of a header's functions; null
/// without debug information.
const llvm::DILocation *place_in_source(const llvm::Instruction &instruction);
/// Name in the source of a shared variable, by the call that stands for it.
std::string object_name(const llvm::Value &shared);
/// Warns of kernels that are right only if the lanes of a warp go in step. Needs debug information.
void warn_of_hazards(const Program &program);

} // namespace vgc
