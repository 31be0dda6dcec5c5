// Barriers of the grid. Each block's first thread adds to a number in the launch's memory between two barriers of the
// block, and reads it until all blocks have added theirs:
//
//     bar.sync 0;
//     if (first thread) {
//         atom.add.release.gpu.u32 old, [memory+4], 1;
//         do ld.acquire.gpu.u32 now, [memory+4]; while (...);
//     }
//     bar.sync 0;
//
// The engine runs such blocks up to a barrier of its own (resident.c). So the threads do not read, and the barrier
// behind that is the grid's.
#include "grid.h"

#include "../compiler.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"

namespace vgc::ptx
{
namespace
{

using llvm::Instruction;

const uint32_t HIGH = 0x7FFF, LOW = 0xFFFFF000; // the last page of addresses, which no process has

/// Instructions that access the launch's memory.
struct Users {
    llvm::SetVector<Instruction *> arrivals, looks;
};

[[noreturn]] void refuse(const Instruction &instruction)
{
    fail("kernel or function '" + instruction.getFunction()->getName() +
         "' uses a cooperative launch's memory (%envreg1, %envreg2) otherwise than for a barrier of the grid");
}

bool is_arrival(const Instruction &instruction, const Instruction &address)
{
    const auto *add = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction);
    return add != nullptr && add->getPointerOperand() == &address && add->getOperation() == llvm::AtomicRMWInst::Add;
}

bool accesses(const Instruction &instruction, const Instruction &address)
{
    if (llvm::isa<llvm::StoreInst>(instruction)) // also of the address itself, as modules of `nvcc -G` do
        return true;
    return instruction.isAtomic() && address.getType()->isPointerTy();
}

Users users_of(llvm::Module &module)
{
    llvm::SetVector<Instruction *> derived;
    for (const char *name : {GRID_HIGH, GRID_LOW})
        if (const llvm::Function *function = module.getFunction(name))
            for (const llvm::User *user : function->users())
                derived.insert(llvm::cast<Instruction>(const_cast<llvm::User *>(user)));
    Users users;
    for (size_t i = 0; i < derived.size(); i++)
        for (llvm::User *user : derived[i]->users()) {
            auto *instruction = llvm::cast<Instruction>(user);
            if (llvm::isa<llvm::CastInst, llvm::BinaryOperator, llvm::GetElementPtrInst>(instruction))
                derived.insert(instruction);
            else if (llvm::isa<llvm::LoadInst>(instruction))
                users.looks.insert(instruction);
            else if (is_arrival(*instruction, *derived[i]))
                users.arrivals.insert(instruction);
            else if (accesses(*instruction, *derived[i]))
                refuse(*instruction);
        }
    return users;
}

/// First barrier of the block of threads from a place on, before any branch.
llvm::CallInst *barrier_behind(llvm::BasicBlock *block)
{
    llvm::SmallPtrSet<llvm::BasicBlock *, 8> seen;
    for (; block != nullptr && seen.insert(block).second; block = block->getSingleSuccessor())
        for (Instruction &instruction : *block)
            if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
                call != nullptr && call->getCalledFunction() != nullptr &&
                call->getCalledFunction()->getName() == "__vgc_barrier")
                return call;
    return nullptr;
}

/// Makes the barrier behind a loop that reads the memory the grid's, and ends the loop.
void replace_loop(Instruction &look)
{
    llvm::BasicBlock *block = look.getParent();
    auto *branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
    if (branch == nullptr || !branch->isConditional() ||
        (branch->getSuccessor(0) == block) == (branch->getSuccessor(1) == block))
        refuse(look);
    llvm::BasicBlock *next = branch->getSuccessor(branch->getSuccessor(0) == block ? 1 : 0);
    llvm::CallInst *barrier = barrier_behind(next);
    if (barrier == nullptr)
        refuse(look);
    llvm::IRBuilder<> b(barrier);
    b.CreateCall(look.getModule()->getOrInsertFunction("__vgc_grid_barrier", b.getVoidTy()));
    barrier->eraseFromParent();
    block->removePredecessor(block);
    llvm::BranchInst::Create(next, branch->getIterator());
    branch->eraseFromParent();
}

void drop(Instruction &instruction)
{
    instruction.replaceAllUsesWith(llvm::Constant::getNullValue(instruction.getType()));
    instruction.eraseFromParent();
}

} // namespace

void place_grid_barriers(llvm::Module &module)
{
    const Users users = users_of(module);
    for (Instruction *look : users.looks)
        replace_loop(*look);
    for (Instruction *look : users.looks)
        drop(*look);
    for (Instruction *arrival : users.arrivals)
        drop(*arrival);
    for (const auto &[name, value] : {std::pair(GRID_HIGH, HIGH), std::pair(GRID_LOW, LOW)})
        if (llvm::Function *function = module.getFunction(name)) {
            for (llvm::User *user : llvm::make_early_inc_range(function->users())) {
                auto *call = llvm::cast<Instruction>(user);
                call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), value));
                call->eraseFromParent();
            }
            function->eraseFromParent();
        }
}

} // namespace vgc::ptx
