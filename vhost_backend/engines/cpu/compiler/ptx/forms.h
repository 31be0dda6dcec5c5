// Instructions by their mnemonics, in groups that have a file each.
#pragma once

#include "instruction.h"

namespace vgc::ptx
{

/// An instruction by its mnemonic.
struct Form {
    llvm::StringRef mnemonic;
    unsigned min_operands;
    unsigned max_operands;
    void (*lower)(Instruction &);
};

llvm::ArrayRef<Form> integer_forms();
llvm::ArrayRef<Form> bit_forms();
llvm::ArrayRef<Form> compare_forms();
llvm::ArrayRef<Form> float_forms();
llvm::ArrayRef<Form> convert_forms();
llvm::ArrayRef<Form> memory_forms();
llvm::ArrayRef<Form> atomic_forms();
llvm::ArrayRef<Form> warp_forms();
llvm::ArrayRef<Form> control_forms();
llvm::ArrayRef<Form> call_forms();
llvm::ArrayRef<Form> copy_forms();
llvm::ArrayRef<Form> mbarrier_forms();
llvm::ArrayRef<Form> matrix_forms();
llvm::ArrayRef<Form> wmma_forms();
llvm::ArrayRef<Form> texture_forms();
llvm::ArrayRef<Form> surface_forms();
llvm::ArrayRef<Form> video_forms();

} // namespace vgc::ptx
