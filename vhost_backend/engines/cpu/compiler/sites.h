// The places in a kernel where threads wait for each other, and the values that are kept across them.
#pragma once

#include <optional>

#include "compiler.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace vgc
{

/// Call of a builtin that waits for other threads; the kernel is split so that the call ends its block.
struct Wait {
    llvm::CallInst *call;
    llvm::BasicBlock *block;  // holds the call, then a branch to `resume`
    llvm::BasicBlock *resume; // begins with a call of __vgc_result if the result is used
    uint32_t kind;
    bool wide;
    // indices of the call's operands; -1 if the kind does not have the operand
    int mask = -1;
    int value = -1;
    int arg = -1;
    int work = -1;
};

/// Makes calls of __vgc_room0, __vgc_room1 ..., the words where a thread keeps its part of a product, allocas of the
/// kernel that become slots one after the other. Returns the first; nullptr if it has no products.
llvm::AllocaInst *make_room(llvm::Function &kernel);
/// Splits the kernel at its waits.
std::vector<Wait> split_at_waits(llvm::Function &kernel);
/// The blocks that a thread can run from `begin` before it waits again, given the blocks that end with waits.
llvm::SetVector<llvm::BasicBlock *> reachable(llvm::BasicBlock *begin,
                                              const llvm::SmallPtrSetImpl<llvm::BasicBlock *> &waits);
/// True or false, for 64 or 32 bits, if the instruction is a call of __vgc_result, at the begin of a `resume` block.
std::optional<bool> is_result_call(const llvm::Instruction &instruction);

/// An alloca that must become a slot of the frame, with an element per thread.
struct Kept {
    llvm::AllocaInst *alloca;
    bool common;   // the elements of threads that run together from a wait are equal there
    bool is_value; // stored where it is defined, loaded where it is used; no variable of the program
};

/// Recomputes each value that lives across a wait, or keeps it in an alloca. Returns these, and the kernel's own.
/// `is_common` tells whether threads that run together from a wait have the same value.
std::vector<Kept> keep_across_waits(llvm::Function &kernel, const std::vector<Wait> &waits,
                                    llvm::function_ref<bool(const llvm::Value &)> is_common);

} // namespace vgc
