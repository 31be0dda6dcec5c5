// Launches in device code. source.cpp has written `kernel<<<grid, block, shared, stream>>>(arguments)` as a call of the
// kernel followed by one of __vgc_configure with what stood in the brackets. Each pair becomes a block of parameters,
// as the kernel takes it from a host, and a call of the runtime (../children.c).
#include "compiler.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/Local.h"

namespace vgc
{
namespace
{

struct Calls {
    std::vector<llvm::CallInst *> kernels;
    std::vector<llvm::CallInst *> configures;
};

/// Collects the calls of a function in the order of its code; calls that a destructor waits for become plain ones.
Calls calls_in(llvm::Function &function, const llvm::DenseMap<const llvm::Function *, uint32_t> &indices)
{
    std::vector<llvm::InvokeInst *> invokes;
    auto is_part = [&](const llvm::CallBase &call) {
        const llvm::Function *callee = call.getCalledFunction();
        return callee != nullptr && (indices.contains(callee) || callee->getName() == "__vgc_configure");
    };
    for (llvm::Instruction &instruction : llvm::instructions(function))
        if (auto *invoke = llvm::dyn_cast<llvm::InvokeInst>(&instruction); invoke != nullptr && is_part(*invoke))
            invokes.push_back(invoke);
    for (llvm::InvokeInst *invoke : invokes)
        llvm::changeToCall(invoke);
    Calls calls;
    for (llvm::Instruction &instruction : llvm::instructions(function))
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call != nullptr && is_part(*call))
            (indices.contains(call->getCalledFunction()) ? calls.kernels : calls.configures).push_back(call);
    return calls;
}

/// Takes the last kernel's call before `configure` out of the list; null without such a call.
llvm::CallInst *take_kernel(Calls &calls, const llvm::CallInst &configure, const llvm::DominatorTree &tree)
{
    llvm::CallInst **last = nullptr;
    for (llvm::CallInst *&call : calls.kernels)
        if (call != nullptr && tree.dominates(call, &configure) && (last == nullptr || tree.dominates(*last, call)))
            last = &call;
    return last == nullptr ? nullptr : std::exchange(*last, nullptr);
}

/// Stores the arguments of a kernel's call as the block of parameters that its launch passes.
llvm::Value *store_params(llvm::CallInst &call, const Kernel &kernel)
{
    llvm::IRBuilder<> builder(&*call.getFunction()->getEntryBlock().getFirstInsertionPt());
    llvm::AllocaInst *block =
        builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), std::max(kernel.param_bytes, 1u)));
    block->setAlignment(llvm::Align(16));
    builder.SetInsertPoint(&call);
    for (const Param &param : kernel.params) {
        for (unsigned part = 0; part < param.num_args; part++) {
            const uint64_t offset = param.offset + param.lead + 8 * part;
            llvm::Value *value = call.getArgOperand(param.first_arg + part);
            llvm::Value *to = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), block, offset);
            if (value->getType()->isIntegerTy(1))
                value = builder.CreateZExt(value, builder.getInt8Ty());
            if (param.passing == Param::MEMORY)
                builder.CreateMemCpy(to, llvm::MaybeAlign(), value, llvm::MaybeAlign(), param.size);
            else
                builder.CreateAlignedStore(value, to, llvm::Align(llvm::MinAlign(16, offset)));
        }
    }
    return block;
}

void launch(llvm::CallInst &call, llvm::CallInst &configure, const Kernel &kernel, uint32_t index)
{
    llvm::Module &module = *call.getModule();
    llvm::Value *params = store_params(call, kernel);
    llvm::IRBuilder<> builder(&configure);
    llvm::SmallVector<llvm::Value *> arguments(configure.args());
    arguments.push_back(builder.getInt32(index));
    arguments.push_back(params);
    llvm::SmallVector<llvm::Type *> types;
    for (const llvm::Value *argument : arguments)
        types.push_back(argument->getType());
    llvm::FunctionCallee callee =
        module.getOrInsertFunction("__vgc_launch", llvm::FunctionType::get(builder.getVoidTy(), types, false));
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
    builder.CreateCall(callee, arguments);
    configure.eraseFromParent();
    call.eraseFromParent();
}

} // namespace

void lower_launches(llvm::Module &module, const Program &program)
{
    llvm::DenseMap<const llvm::Function *, uint32_t> indices;
    for (uint32_t index = 0; index < program.kernels.size(); index++)
        indices[program.kernels[index].function] = index;
    for (llvm::Function &function : module) {
        if (function.isDeclaration())
            continue;
        Calls calls = calls_in(function, indices);
        if (calls.configures.empty() && calls.kernels.empty())
            continue;
        const llvm::DominatorTree tree(function);
        for (llvm::CallInst *configure : calls.configures) {
            llvm::CallInst *call = take_kernel(calls, *configure, tree);
            if (call == nullptr)
                fail("'" + function.getName() +
                     "' launches a kernel that this source does not define, or one through a pointer");
            const uint32_t index = indices.lookup(call->getCalledFunction());
            launch(*call, *configure, program.kernels[index], index);
        }
        for (const llvm::CallInst *call : calls.kernels)
            if (call != nullptr)
                fail("'" + function.getName() + "' calls the kernel '" + call->getCalledFunction()->getName() +
                     "' without <<<...>>>");
    }
}

} // namespace vgc
