// The kernel's code that threads run from a site to their next one. Code that can be reached from several sites is part
// of the region of each.
#include "region.h"

#include "llvm/IR/CFG.h"

namespace vgc
{
namespace
{

bool has_cycle(llvm::BasicBlock *entry, const llvm::SetVector<llvm::BasicBlock *> &blocks,
               const llvm::SmallPtrSetImpl<llvm::BasicBlock *> &waits)
{
    enum { NEW, OPEN, CLOSED };
    llvm::DenseMap<llvm::BasicBlock *, int> state;
    std::vector<std::pair<llvm::BasicBlock *, unsigned>> stack = {{entry, 0}};
    state[entry] = OPEN;
    while (!stack.empty()) {
        auto &[block, next] = stack.back();
        const llvm::Instruction *end = block->getTerminator();
        if (waits.contains(block) || next == end->getNumSuccessors()) {
            state[block] = CLOSED;
            stack.pop_back();
            continue;
        }
        llvm::BasicBlock *successor = end->getSuccessor(next++);
        if (blocks.contains(successor) && state[successor] == OPEN)
            return true;
        if (state[successor] == NEW) {
            state[successor] = OPEN;
            stack.push_back({successor, 0});
        }
    }
    return false;
}

/// True if the code has calls that may read the thread's position from the context, or report an error for it.
bool calls_out(const llvm::SetVector<llvm::BasicBlock *> &blocks)
{
    for (const llvm::BasicBlock *block : blocks)
        for (const llvm::Instruction &instruction : *block) {
            const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            if (call == nullptr || call->isInlineAsm() || is_position_call(instruction) || is_result_call(instruction))
                continue;
            const llvm::Function *callee = call->getCalledFunction();
            if (callee == nullptr ||
                (!callee->isIntrinsic() && !is_wait_name(callee->getName()) && !callee->onlyReadsMemory()))
                return true;
        }
    return false;
}

} // namespace

RegionReach::RegionReach(Kernel &kernel, const std::vector<Wait> &waits, size_t site) : kernel_(kernel), waits_(waits)
{
    for (const Wait &wait : waits)
        wait_blocks_.insert(wait.block);
    source_ = site == 0 ? &kernel.function->getEntryBlock() : waits[site - 1].resume;
    blocks_ = reachable(source_, wait_blocks_);
    for (const llvm::BasicBlock *block : blocks_)
        for (const llvm::Instruction &instruction : *block)
            for (llvm::Value *operand : instruction.operands())
                if (auto *local = llvm::dyn_cast<llvm::AllocaInst>(operand))
                    locals_.insert(local);
}

bool RegionReach::keeps_position() const
{
    return has_cycle(source_, blocks_, wait_blocks_) || calls_out(blocks_);
}

} // namespace vgc
