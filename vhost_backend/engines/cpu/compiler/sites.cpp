#include "sites.h"

#include "liveness.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace vgc
{
namespace
{

const unsigned MAX_REMATERIALISED = 12; // most instructions; a longer computation is cheaper to keep

uint32_t constant_kind(const llvm::CallInst &call)
{
    const auto *kind = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(0));
    if (kind == nullptr || kind->getZExtValue() >= VGC_SITE_KINDS)
        fail("internal: a warp operation without a kind in '" + call.getFunction()->getName() + "'");
    return uint32_t(kind->getZExtValue());
}

Wait describe(llvm::CallInst &call)
{
    const llvm::StringRef name = call.getCalledFunction()->getName();
    Wait wait{};
    wait.call = &call;
    if (name == "__vgc_barrier") {
        wait.kind = VGC_SITE_BARRIER;
    } else if (name == "__vgc_grid_barrier") {
        wait.kind = VGC_SITE_GRID;
    } else if (name == "__vgc_cluster_barrier") { // that of the block, if this is the cluster
        wait.kind = call.getFunction()->hasFnAttribute(CLUSTERS) ? VGC_SITE_CLUSTER : VGC_SITE_BARRIER;
    } else if (name == "__vgc_step") {
        wait.kind = VGC_SITE_STEP;
    } else if (name == "__vgc_yield") {
        wait.kind = VGC_SITE_YIELD;
    } else if (name == "__vgc_barrier_reduce") {
        wait.kind = constant_kind(call);
        wait.value = 1;
    } else if (name == "__vgc_warp_product") {
        wait.kind = VGC_SITE_PRODUCT;
        wait.mask = 0;
        wait.work = 1;
    } else {
        wait.kind = constant_kind(call);
        wait.wide = name == "__vgc_warp64";
        wait.mask = 1;
        wait.value = 2;
        wait.arg = 3;
    }
    return wait;
}

/// Moves the uses of the call's result to a call of __vgc_result at the begin of the following block.
void move_result(Wait &wait)
{
    if (wait.call->use_empty())
        return;
    llvm::Module &module = *wait.call->getModule();
    llvm::IRBuilder<> builder(&*wait.resume->begin());
    llvm::FunctionCallee callee =
        module.getOrInsertFunction(wait.wide ? "__vgc_result64" : "__vgc_result32", wait.call->getType());
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
    wait.call->replaceAllUsesWith(builder.CreateCall(callee));
}

/// True if the value can be computed again within `budget` instructions, which are subtracted.
bool is_recomputable(const llvm::Value *value, unsigned &budget)
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || is_position_call(*instruction))
        return true;
    if (budget == 0)
        return false;
    budget--;
    if (!is_pure(*instruction) ||
        (llvm::isa<llvm::BinaryOperator>(instruction) && instruction->getType()->isFPOrFPVectorTy()))
        return false;
    for (const llvm::Value *operand : instruction->operands())
        if (!is_recomputable(operand, budget))
            return false;
    return true;
}

llvm::Value *recompute(llvm::Value *value, llvm::Instruction *before)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr)
        return value;
    llvm::Instruction *clone = instruction->clone();
    for (llvm::Use &operand : clone->operands())
        operand.set(recompute(operand.get(), before));
    clone->insertBefore(before);
    return clone;
}

void drop_lifetimes(llvm::Function &kernel)
{
    std::vector<llvm::Instruction *> markers;
    for (llvm::Instruction &instruction : llvm::instructions(kernel))
        if (instruction.isLifetimeStartOrEnd())
            markers.push_back(&instruction);
    for (llvm::Instruction *marker : markers)
        marker->eraseFromParent();
}

} // namespace

namespace
{

/// Appends the blocks of a loop, or of the function for null, to `ordered`: in reverse post-order, but those of an
/// inner loop together, before the code behind it.
void order_blocks(const std::vector<llvm::BasicBlock *> &blocks, const llvm::LoopInfo &loops, const llvm::Loop *level,
                  llvm::SetVector<llvm::BasicBlock *> &ordered)
{
    for (llvm::BasicBlock *block : blocks) {
        if (ordered.contains(block) || (level != nullptr && !level->contains(block)))
            continue;
        const llvm::Loop *inner = loops.getLoopFor(block);
        if (inner == level) {
            ordered.insert(block);
            continue;
        }
        while (inner->getParentLoop() != level)
            inner = inner->getParentLoop();
        order_blocks(blocks, loops, inner, ordered);
    }
}

/// Blocks in an order in which threads at an earlier one have more of the kernel before them: those that are ahead wait
/// for these (../schedule.c).
llvm::SetVector<llvm::BasicBlock *> ordered_blocks(llvm::Function &kernel)
{
    const llvm::ReversePostOrderTraversal<llvm::Function *> order(&kernel);
    const llvm::DominatorTree dominators(kernel);
    const llvm::LoopInfo loops(dominators);
    llvm::SetVector<llvm::BasicBlock *> ordered;
    order_blocks({order.begin(), order.end()}, loops, nullptr, ordered);
    return ordered;
}

} // namespace

bool is_wait_name(llvm::StringRef name)
{
    return name == "__vgc_barrier" || name == "__vgc_grid_barrier" || name == "__vgc_cluster_barrier" ||
           name == "__vgc_barrier_reduce" || name == "__vgc_step" || name == "__vgc_warp32" || name == "__vgc_warp64" ||
           name == "__vgc_warp_product" || name == "__vgc_yield";
}

llvm::AllocaInst *make_room(llvm::Function &kernel)
{
    std::vector<std::pair<llvm::CallInst *, unsigned>> calls; // each with its word
    for (unsigned word = 0; word < VGC_CPU_ROOM; word++)
        if (llvm::Function *builtin = kernel.getParent()->getFunction("__vgc_room" + std::to_string(word)))
            for (llvm::User *user : builtin->users())
                if (auto *call = llvm::cast<llvm::CallInst>(user); call->getFunction() == &kernel)
                    calls.emplace_back(call, word);
    if (calls.empty())
        return nullptr;
    llvm::IRBuilder<> b(&*kernel.getEntryBlock().begin());
    llvm::AllocaInst *words[VGC_CPU_ROOM];
    for (llvm::AllocaInst *&word : words)
        word = b.CreateAlloca(b.getInt32Ty(), nullptr, "room");
    for (const auto &[call, word] : calls) {
        call->replaceAllUsesWith(words[word]);
        call->eraseFromParent();
    }
    return words[0];
}

std::vector<Wait> split_at_waits(llvm::Function &kernel)
{
    std::vector<Wait> waits;
    for (llvm::BasicBlock *block : ordered_blocks(kernel))
        for (llvm::Instruction &instruction : *block)
            if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
                call != nullptr && call->getCalledFunction() != nullptr &&
                is_wait_name(call->getCalledFunction()->getName()))
                waits.push_back(describe(*call));
    if (waits.size() + 1 > VGC_CPU_MAX_SITES)
        fail("kernel '" + kernel.getName() + "' has too many barriers and warp operations");
    for (Wait &wait : llvm::reverse(waits)) { // so that no instruction is moved twice
        wait.resume = llvm::SplitBlock(wait.call->getParent(), wait.call->getNextNode());
        wait.block = wait.call->getParent();
        move_result(wait);
    }
    for (Wait &wait : waits)
        wait.block = wait.call->getParent(); // the block of an earlier call was split again
    return waits;
}

llvm::SetVector<llvm::BasicBlock *> reachable(llvm::BasicBlock *begin,
                                              const llvm::SmallPtrSetImpl<llvm::BasicBlock *> &waits)
{
    llvm::SetVector<llvm::BasicBlock *> blocks;
    blocks.insert(begin);
    for (size_t i = 0; i < blocks.size(); i++)
        if (!waits.contains(blocks[i]))
            for (llvm::BasicBlock *successor : llvm::successors(blocks[i]))
                blocks.insert(successor);
    return blocks;
}

std::optional<bool> is_result_call(const llvm::Instruction &instruction)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    if (call == nullptr || call->getCalledFunction() == nullptr)
        return std::nullopt;
    const llvm::StringRef name = call->getCalledFunction()->getName();
    if (name == "__vgc_result32" || name == "__vgc_result64")
        return name == "__vgc_result64";
    return std::nullopt;
}

std::vector<Kept> keep_across_waits(llvm::Function &kernel, const std::vector<Wait> &waits,
                                    llvm::function_ref<bool(const llvm::Value &)> is_common)
{
    std::vector<Kept> slots;
    for (llvm::Instruction &instruction : llvm::instructions(kernel))
        if (auto *slot = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
            if (!slot->isStaticAlloca())
                fail("kernel '" + kernel.getName() + "' uses variable-length local memory together with barriers");
            slots.push_back({slot, false, false});
        }
    drop_lifetimes(kernel);
    const Liveness liveness(kernel);
    std::set<unsigned> crossing;
    for (const Wait &wait : waits)
        liveness.collect(*wait.resume, crossing);
    for (const unsigned index : crossing) {
        llvm::Instruction &value = *liveness.value(index);
        unsigned budget = MAX_REMATERIALISED;
        if (is_recomputable(&value, budget))
            replace_distant_uses(value, [&](llvm::Instruction *before) { return recompute(&value, before); });
        else
            slots.push_back({keep(value), is_common(value), true});
    }
    return slots;
}

} // namespace vgc
