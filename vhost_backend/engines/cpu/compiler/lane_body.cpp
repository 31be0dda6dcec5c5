// Decides whether the threads of a row may run in lockstep: if the loop vectoriser supports all instructions in the
// inner loops' bodies, and no thread can wait for another thread. The loops are then brought into a regular shape.
#include "lockstep.h"

#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/LoopIterator.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

namespace vgc
{
namespace
{

bool is_lane_type(const llvm::Type *type)
{
    return type->isPointerTy() || type->isFloatTy() || type->isDoubleTy() || type->isHalfTy() ||
           (type->isIntegerTy() && type->getIntegerBitWidth() <= 64);
}

/// True for intrinsics that do not compute values: assumptions, lifetimes.
bool is_annotation(const llvm::Instruction &instruction)
{
    const auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return intrinsic != nullptr && (intrinsic->isAssumeLikeIntrinsic() || intrinsic->isLifetimeStartOrEnd());
}

/// True if the loop vectoriser supports the instruction in a loop body.
bool is_vectorisable(const llvm::Instruction &instruction)
{
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        return load->isSimple() && is_lane_type(load->getType());
    if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
        return store->isSimple() && is_lane_type(store->getValueOperand()->getType());
    if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        return is_annotation(instruction) ||
               (call->getCalledFunction() != nullptr && llvm::isTriviallyVectorizable(call->getIntrinsicID()));
    if (instruction.isTerminator())
        return llvm::isa<llvm::BranchInst>(instruction);
    return is_lane_type(instruction.getType()) &&
           llvm::isa<llvm::PHINode, llvm::BinaryOperator, llvm::UnaryOperator, llvm::CastInst, llvm::CmpInst,
                     llvm::SelectInst, llvm::GetElementPtrInst, llvm::FreezeInst>(instruction);
}

/// True for divisions, which the processor does not have for vectors of integers.
bool is_done_by_lane(const llvm::Instruction &instruction)
{
    return instruction.isIntDivRem() && !llvm::isa<llvm::Constant>(instruction.getOperand(1));
}

/// True for an atomic update whose result is unused: no thread can wait for another thread through it.
bool is_silent_atomic(const llvm::Instruction &instruction)
{
    const auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction);
    return update != nullptr && update->use_empty() && !update->isVolatile();
}

} // namespace

bool LaneBody::analyse()
{
    dominators_.recalculate(function_);
    loops_.analyze(dominators_);
    llvm::Loop *threads = loops_.getLoopFor(loop_.thread);
    if (threads == nullptr || threads->getSubLoops().empty())
        return false;
    if (threads->getExitingBlock() != loop_.latch)
        return false; // a thread may trap, or never come to an end
    for (llvm::BasicBlock *block : threads->blocks())
        if (block != loop_.thread && block != loop_.latch && !accept(*block))
            return false;
    llvm::LoopBlocksRPO order(threads);
    order.perform(&loops_);
    if (llvm::containsIrreducibleCFG<llvm::BasicBlock *>(order, loops_))
        return false;
    for (llvm::Loop *inner : threads->getSubLoops())
        llvm::simplifyLoop(inner, &dominators_, &loops_, nullptr, nullptr, nullptr, false);
    for (llvm::Loop *inner : threads->getSubLoops())
        llvm::formLCSSARecursively(*inner, dominators_, &loops_, nullptr);
    dominators_.recalculate(function_);
    loops_.releaseMemory();
    loops_.analyze(dominators_);
    threads_ = loops_.getLoopFor(loop_.thread);
    for (llvm::BasicBlock *block : threads_->blocks())
        if (block != loop_.thread && block != loop_.latch)
            body_.insert(block);
    for (llvm::BasicBlock *block : body_)
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(*block))
            if (is_annotation(instruction))
                instruction.eraseFromParent();
    return true;
}

size_t LaneBody::vector_size(const Blocks &blocks)
{
    size_t sum = 0;
    for (const llvm::BasicBlock *block : blocks)
        for (const llvm::Instruction &instruction : *block)
            sum += is_done_by_lane(instruction) ? COST_BY_LANE : 1;
    return sum;
}

bool LaneBody::accept(const llvm::BasicBlock &block)
{
    for (const llvm::Instruction &instruction : block) {
        const bool is_atomic = is_silent_atomic(instruction);
        has_atomics_ |= is_atomic;
        if (!is_atomic && !is_vectorisable(instruction))
            return false;
    }
    return true;
}

bool LaneBody::in_body(const llvm::Value *value) const
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    return instruction != nullptr && body_.contains(const_cast<llvm::BasicBlock *>(instruction->getParent()));
}

bool LaneBody::is_header(llvm::BasicBlock *block) const
{
    return body_.contains(block) && loops_.isLoopHeader(block);
}

bool LaneBody::starts_piece(llvm::BasicBlock *block) const
{
    if (block == loop_.thread->getSingleSuccessor() || is_header(block))
        return true;
    if (const llvm::Loop *loop = loops_.getLoopFor(block);
        loop != threads_ && loop->getLoopLatch() == block && !loop->isInnermost())
        return true; // lanes wait here for lanes that are still in an inner loop
    for (llvm::BasicBlock *from : llvm::predecessors(block))
        if (const llvm::Loop *left = loops_.getLoopFor(from);
            left != nullptr && left != threads_ && !left->contains(block))
            return true;
    return false;
}

} // namespace vgc
