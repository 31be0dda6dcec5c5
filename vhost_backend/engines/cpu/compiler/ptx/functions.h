// Functions and kernels of a module: their types and bodies in IR.
#pragma once

#include "lowering.h"

namespace vgc::ptx
{

/// True for a parameter that kernels get as a pointer.
bool is_pointer(const Function &kernel, const Variable &parameter);
/// Most threads of a block of the kernel.
uint32_t max_threads(const Function &kernel);
llvm::FunctionType *function_type(const Function &function, llvm::LLVMContext &context, const Text &text);
/// Lowers the body.
void lower_body(llvm::Function &ir, const Function &function, const Symbols &module, const Text &text,
                Lowering::Locate locate);

} // namespace vgc::ptx
