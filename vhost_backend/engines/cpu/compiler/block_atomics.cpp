// Atomics on shared memory. Only threads of one block access it (without clusters), and those run on one processing
// element, which never switches threads in the middle of an operation: plain instructions suffice, and are ten times as
// fast as locked ones.
//
// The operations stay atomic until the optimiser has run, which must neither split them nor vectorise them over
// threads; they are marked by a synchronisation scope of their own and become plain afterwards.
#include "compiler.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/LowerAtomic.h"

namespace vgc
{
namespace
{

llvm::SyncScope::ID block_scope(llvm::Module &module)
{
    return module.getContext().getOrInsertSyncScopeID("vgc-block");
}

bool is_shared(const llvm::Value *pointer)
{
    llvm::SmallVector<const llvm::Value *, 4> objects;
    llvm::getUnderlyingObjects(pointer, objects);
    return llvm::all_of(objects, [](const llvm::Value *object) {
        const auto *call = llvm::dyn_cast<llvm::CallInst>(object);
        return call != nullptr && call->getCalledFunction() != nullptr &&
               call->getCalledFunction()->hasFnAttribute(SHARED_VARIABLE);
    });
}

} // namespace

void mark_block_atomics(llvm::Module &module)
{
    if (llvm::any_of(module, [](const llvm::Function &function) { return function.hasFnAttribute(CLUSTERS); }))
        return;
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function)) {
            if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction);
                update != nullptr && is_shared(update->getPointerOperand()))
                update->setSyncScopeID(block_scope(module));
            if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction);
                exchange != nullptr && is_shared(exchange->getPointerOperand()))
                exchange->setSyncScopeID(block_scope(module));
        }
}

void lower_block_atomics(llvm::Module &module)
{
    const llvm::SyncScope::ID scope = block_scope(module);
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction);
                update != nullptr && update->getSyncScopeID() == scope)
                llvm::lowerAtomicRMWInst(update);
            else if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction);
                     exchange != nullptr && exchange->getSyncScopeID() == scope)
                llvm::lowerAtomicCmpXchgInst(exchange);
        }
}

} // namespace vgc
