// Operations of a warp, made of the engine's own.
#pragma once

#include "instruction.h"

#include "../../vgc_cpu_abi.h"

namespace vgc::ptx
{

/// Waits for the lanes of `mask` and exchanges values, of 32 or 64 bits (enum vgc_cpu_site_kind).
llvm::Value *warp_operation(Instruction &i, vgc_cpu_site_kind kind, llvm::Value *mask, llvm::Value *value,
                            llvm::Value *arg);
/// Value that lane `from` has.
llvm::Value *value_of_lane(Instruction &i, llvm::Value *mask, llvm::Value *value, llvm::Value *from);
void synchronise_warp(Instruction &i, llvm::Value *mask);
llvm::Value *lane_number(Instruction &i);

} // namespace vgc::ptx
