// Values that all threads have in common wherever they come from a wait together: they are computed from parameters,
// constants and blockIdx, and no thread has run other code in between than its neighbours.
//
// That holds for a phi if no branch at which threads part leads to it on several ways. The code between such a branch
// and the block where all ways come together again is *parted*. If threads wait in parted code, they may come to one
// wait from different rounds of a loop, and nothing is known; nor if a warp operation waits for some lanes only. A way
// on which threads end without waiting again parts nothing: those that go on are together.
#include "common_values.h"

#include "llvm/Analysis/PostDominators.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace vgc
{
namespace
{

const size_t MAX_BLOCKS = 2000; // of a kernel: the search takes quadratic time if threads part at each

/// True if the wait is only over when all threads of the block, or all lanes of the warp, have come to it.
bool is_for_all(const Wait &wait)
{
    if (wait.mask < 0)
        return true;
    const auto *mask = llvm::dyn_cast<llvm::ConstantInt>(wait.call->getArgOperand(unsigned(wait.mask)));
    return mask != nullptr && uint32_t(mask->getZExtValue()) == ~0u;
}

/// True for instructions whose results depend on their operands alone.
bool is_function_of_operands(const llvm::Instruction &instruction)
{
    if (llvm::isa<llvm::CastInst, llvm::CmpInst, llvm::GetElementPtrInst, llvm::SelectInst, llvm::BinaryOperator,
                  llvm::UnaryOperator>(instruction))
        return true;
    const auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return intrinsic != nullptr && intrinsic->doesNotAccessMemory() && !intrinsic->isConvergent();
}

} // namespace

CommonValues::CommonValues(llvm::Function &kernel, const std::vector<Wait> &waits)
{
    if (waits.empty() || kernel.size() > MAX_BLOCKS || !llvm::all_of(waits, is_for_all))
        return;
    find_waiting(waits);
    for (llvm::Instruction &instruction : llvm::instructions(kernel))
        if (!instruction.getType()->isVoidTy())
            values_.insert(&instruction);
    const llvm::PostDominatorTree ends(kernel);
    for (bool changed = true; changed;) {
        changed = false;
        for (llvm::BasicBlock &block : kernel)
            if (remove_varying(block) || part(block, ends))
                changed = true;
    }
    for (const Wait &wait : waits)
        if (parted_.contains(wait.block))
            values_.clear();
}

/// Finds the blocks that threads may wait behind.
void CommonValues::find_waiting(const std::vector<Wait> &waits)
{
    for (const Wait &wait : waits)
        waiting_.insert(wait.block);
    for (size_t i = 0; i < waiting_.size(); i++)
        for (const llvm::BasicBlock *before : llvm::predecessors(waiting_[i]))
            waiting_.insert(before);
}

bool CommonValues::may_be_common(const llvm::Instruction &instruction) const
{
    if (llvm::isa<llvm::PHINode>(instruction)) {
        if (joins_.contains(instruction.getParent()))
            return false;
    } else if (!is_function_of_operands(instruction)) {
        return is_block_position_call(instruction);
    }
    return llvm::all_of(instruction.operands(), [&](const llvm::Value *operand) {
        return !llvm::isa<llvm::Instruction>(operand) || contains(*operand);
    });
}

bool CommonValues::remove_varying(const llvm::BasicBlock &block)
{
    bool changed = false;
    for (const llvm::Instruction &instruction : block)
        if (values_.contains(&instruction) && !may_be_common(instruction))
            changed |= values_.erase(&instruction);
    return changed;
}

bool CommonValues::parts_threads(const llvm::BasicBlock &block) const
{
    const llvm::Instruction *end = block.getTerminator();
    if (llvm::count_if(llvm::successors(&block), [&](const llvm::BasicBlock *way) { return waiting_.contains(way); }) <
        2)
        return false;
    const llvm::Value *decision = llvm::isa<llvm::BranchInst, llvm::SwitchInst>(end) ? end->getOperand(0) : nullptr;
    return decision == nullptr || (llvm::isa<llvm::Instruction>(decision) && !contains(*decision));
}

bool CommonValues::part(llvm::BasicBlock &block, const llvm::PostDominatorTree &ends)
{
    if (!parts_threads(block) || !parting_.insert(&block).second)
        return false;
    const auto *node = ends.getNode(&block);
    const llvm::BasicBlock *together = node == nullptr ? nullptr : node->getIDom()->getBlock();
    llvm::SetVector<llvm::BasicBlock *> reached;
    for (llvm::BasicBlock *way : llvm::successors(&block))
        reached.insert(way);
    for (size_t i = 0; i < reached.size(); i++)
        if (reached[i] != together)
            for (llvm::BasicBlock *next : llvm::successors(reached[i]))
                reached.insert(next);
    for (llvm::BasicBlock *part : reached) {
        joins_.insert(part);
        if (part != together)
            parted_.insert(part);
    }
    return true;
}

} // namespace vgc
