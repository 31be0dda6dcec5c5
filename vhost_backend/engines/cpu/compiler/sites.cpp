#include "sites.h"

#include <map>
#include <set>

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace vgc
{
namespace
{

const unsigned MAX_REMATERIALISED = 12; // instructions; more is cheaper to keep

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
    } else if (name == "__vgc_barrier_reduce") {
        wait.kind = constant_kind(call);
        wait.value = 1;
    } else {
        wait.kind = constant_kind(call);
        wait.wide = name == "__vgc_warp64";
        wait.mask = 1;
        wait.value = 2;
        wait.arg = 3;
    }
    return wait;
}

/// Moves the uses of the call's result to a stand-in at the begin of the block that follows.
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

/// Values that are needed at the begin of each block, by backward data flow.
class Liveness
{
  public:
    explicit Liveness(llvm::Function &kernel)
    {
        for (llvm::Instruction &instruction : llvm::instructions(kernel))
            if (!instruction.getType()->isVoidTy() && !llvm::isa<llvm::AllocaInst>(instruction)) {
                index_[&instruction] = unsigned(values_.size());
                values_.push_back(&instruction);
            }
        for (llvm::BasicBlock &block : kernel)
            live_in_[&block].resize(unsigned(values_.size()));
        for (bool changed = true; changed;) {
            changed = false;
            for (llvm::BasicBlock &block : llvm::reverse(kernel))
                changed |= update(block);
        }
    }

    /// Instructions live at the begin of the block.
    void collect(const llvm::BasicBlock &block, std::set<unsigned> &into) const
    {
        for (const unsigned index : live_in_.find(&block)->second.set_bits())
            into.insert(index);
    }
    llvm::Instruction *value(unsigned index) const
    {
        return values_[index];
    }

  private:
    bool update(llvm::BasicBlock &block)
    {
        llvm::BitVector live(unsigned(values_.size()));
        for (llvm::BasicBlock *successor : llvm::successors(&block)) {
            live |= live_in_[successor];
            for (llvm::PHINode &phi : successor->phis())
                live.reset(index_[&phi]);
            for (llvm::PHINode &phi : successor->phis())
                use(live, phi.getIncomingValueForBlock(&block));
        }
        for (llvm::Instruction &instruction : llvm::reverse(block)) {
            if (const auto found = index_.find(&instruction);
                found != index_.end() && !llvm::isa<llvm::PHINode>(instruction))
                live.reset(found->second);
            if (!llvm::isa<llvm::PHINode>(instruction))
                for (llvm::Value *operand : instruction.operands())
                    use(live, operand);
        }
        // A phi is defined on the edges into its block: "live in" here means needed after it.
        if (live == live_in_[&block])
            return false;
        live_in_[&block] = live;
        return true;
    }
    void use(llvm::BitVector &live, llvm::Value *value)
    {
        if (const auto found = index_.find(value); found != index_.end())
            live.set(found->second);
    }

    std::vector<llvm::Instruction *> values_;
    llvm::DenseMap<const llvm::Value *, unsigned> index_;
    llvm::DenseMap<const llvm::BasicBlock *, llvm::BitVector> live_in_;
};

/// Counts the instructions that computing the value anew takes; false if it cannot be.
bool is_recomputable(const llvm::Value *value, unsigned &budget)
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || is_position_call(*instruction))
        return true;
    if (budget == 0)
        return false;
    budget--;
    const bool pure =
        llvm::isa<llvm::CastInst, llvm::CmpInst, llvm::GetElementPtrInst, llvm::SelectInst>(instruction) ||
        (llvm::isa<llvm::BinaryOperator>(instruction) && !instruction->getType()->isFPOrFPVectorTy() &&
         !instruction->isIntDivRem());
    if (!pure)
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

/// Where a value must be available for a use.
llvm::Instruction *point_of(const llvm::Use &use)
{
    auto *user = llvm::cast<llvm::Instruction>(use.getUser());
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(user))
        return phi->getIncomingBlock(use)->getTerminator();
    return user;
}

/// Calls `make(point)` once per block with uses of the value outside of its own, and rewires these to the result.
template <typename Make> void replace_distant_uses(llvm::Instruction &value, Make make)
{
    std::vector<llvm::Use *> uses;
    for (llvm::Use &use : value.uses())
        if (point_of(use)->getParent() != value.getParent())
            uses.push_back(&use);
    std::map<llvm::BasicBlock *, llvm::Value *> made;
    for (llvm::Use *use : uses) {
        llvm::BasicBlock *block = point_of(*use)->getParent();
        auto [entry, fresh] = made.try_emplace(block, nullptr);
        if (fresh)
            entry->second = make(&*block->getFirstInsertionPt());
        use->set(entry->second);
    }
}

/// Keeps a value in memory: stored where it is defined, loaded in each other block that uses it.
llvm::AllocaInst *keep(llvm::Instruction &value)
{
    const bool bit = value.getType()->isIntegerTy(1); // a byte: arrays of bits do not vectorise
    llvm::IRBuilder<> entry(&*value.getFunction()->getEntryBlock().getFirstInsertionPt());
    llvm::Type *type = bit ? entry.getInt8Ty() : value.getType();
    llvm::AllocaInst *slot = entry.CreateAlloca(type, nullptr, "kept");
    replace_distant_uses(value, [&](llvm::Instruction *before) -> llvm::Value * {
        llvm::IRBuilder<> builder(before);
        llvm::Value *loaded = builder.CreateLoad(type, slot);
        return bit ? builder.CreateTrunc(loaded, builder.getInt1Ty()) : loaded;
    });
    llvm::Instruction *after =
        llvm::isa<llvm::PHINode>(value) ? &*value.getParent()->getFirstInsertionPt() : value.getNextNode();
    llvm::IRBuilder<> builder(after);
    builder.CreateStore(bit ? builder.CreateZExt(&value, type) : &value, slot);
    return slot;
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

bool is_wait_name(llvm::StringRef name)
{
    return name == "__vgc_barrier" || name == "__vgc_barrier_reduce" || name == "__vgc_warp32" ||
           name == "__vgc_warp64";
}

std::vector<Wait> split_at_waits(llvm::Function &kernel)
{
    std::vector<Wait> waits;
    for (llvm::Instruction &instruction : llvm::instructions(kernel))
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            call != nullptr && call->getCalledFunction() != nullptr &&
            is_wait_name(call->getCalledFunction()->getName()))
            waits.push_back(describe(*call));
    if (waits.size() + 1 > VGC_CPU_MAX_SITES)
        fail("kernel '" + kernel.getName() + "' has too many barriers and warp operations");
    for (Wait &wait : waits) {
        wait.resume = llvm::SplitBlock(wait.call->getParent(), wait.call->getNextNode());
        wait.block = wait.call->getParent();
        move_result(wait);
    }
    for (Wait &wait : waits)
        wait.block = wait.call->getParent(); // an earlier call's block was split again
    return waits;
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

std::vector<llvm::AllocaInst *> keep_across_waits(llvm::Function &kernel, const std::vector<Wait> &waits)
{
    std::vector<llvm::AllocaInst *> slots;
    for (llvm::Instruction &instruction : llvm::instructions(kernel))
        if (auto *slot = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
            if (!slot->isStaticAlloca())
                fail("kernel '" + kernel.getName() + "' uses variable-length local memory together with barriers");
            slots.push_back(slot);
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
            slots.push_back(keep(value));
    }
    return slots;
}

} // namespace vgc
