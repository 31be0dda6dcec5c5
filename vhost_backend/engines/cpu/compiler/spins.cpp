// Threads that wait in a loop for what another thread of their block stores. On a GPU all threads go on at some time,
// while a region would run such a thread for ever. So each round of a loop that does nothing but look yields
// (VGC_SITE_YIELD), as it does where the program asks for it with __nanosleep().
//
// A loop looks if whether it goes on depends on a volatile or atomic load, any load if the loop has a fence, an
// exchange, a compare-and-swap, or an atomic operation that changes nothing, always at the same address. A
// compare-and-swap that expects what it read before (any update that the hardware lacks is made so) is no such: of its
// threads one always succeeds. Nor is a loop that counts up to a number.
#include "compiler.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace vgc
{
namespace
{

const size_t MAX_LOOKED_AT = 256; // instructions that a loop's exit depends on
const uint64_t MAX_KEPT = 4096;   // bytes of local memory per thread

/// True for an update that writes what it read.
bool changes_nothing(const llvm::AtomicRMWInst &update)
{
    const auto *operand = llvm::dyn_cast<llvm::ConstantInt>(update.getValOperand());
    switch (update.getOperation()) {
    case llvm::AtomicRMWInst::Add:
    case llvm::AtomicRMWInst::Sub:
    case llvm::AtomicRMWInst::Or:
    case llvm::AtomicRMWInst::Xor:
    case llvm::AtomicRMWInst::UMax:
        return operand != nullptr && operand->isZero();
    case llvm::AtomicRMWInst::And:
    case llvm::AtomicRMWInst::UMin:
        return operand != nullptr && operand->isMinusOne();
    default:
        return false;
    }
}

/// True for a loop in which memory is read again each round.
bool has_fence(const llvm::Loop &loop)
{
    return llvm::any_of(loop.blocks(), [](const llvm::BasicBlock *block) {
        return llvm::any_of(*block, [](const llvm::Instruction &one) { return llvm::isa<llvm::FenceInst>(one); });
    });
}

/// True if the loop looks again and again at what other threads may store.
bool is_look(const llvm::Instruction &instruction, const llvm::Loop &loop)
{
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        return ((load->isVolatile() && load->getMetadata(PINNED) == nullptr) || load->isAtomic() || has_fence(loop)) &&
               loop.isLoopInvariant(load->getPointerOperand()) &&
               !llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(load->getPointerOperand()));
    if (const auto *swap = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
        return loop.isLoopInvariant(swap->getPointerOperand()) && loop.isLoopInvariant(swap->getCompareOperand());
    if (const auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
        return loop.isLoopInvariant(update->getPointerOperand()) &&
               (changes_nothing(*update) ||
                (update->getOperation() == llvm::AtomicRMWInst::Xchg && loop.isLoopInvariant(update->getValOperand())));
    return false;
}

/// What the loop's exits depend on within it: values, and conditions that choose between values.
class Exits
{
  public:
    explicit Exits(const llvm::Loop &loop) : loop_(loop)
    {
        llvm::SmallVector<llvm::BasicBlock *, 4> blocks;
        loop.getExitingBlocks(blocks);
        for (const llvm::BasicBlock *block : blocks)
            if (!counts(*block))
                add_end(*block);
    }

    bool depend_on_looks()
    {
        for (size_t i = 0; i < found_.size() && i < MAX_LOOKED_AT; i++) {
            if (is_look(*found_[i], loop_))
                return true;
            for (const llvm::Value *operand : found_[i]->operands())
                add(operand);
            if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(found_[i]))
                for (const llvm::BasicBlock *from : phi->blocks())
                    add_choices(*from);
        }
        return false;
    }

  private:
    /// True for an exit that the loop reaches by counting up to a number, whatever that is.
    bool counts(const llvm::BasicBlock &block) const
    {
        const auto *branch = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
        const auto *compare = branch != nullptr && branch->isConditional()
                                  ? llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition())
                                  : nullptr;
        return compare != nullptr &&
               llvm::any_of(compare->operands(), [&](const llvm::Use &operand) { return is_count(operand.get()); });
    }

    bool is_count(const llvm::Value *value) const
    {
        if (const auto *cast = llvm::dyn_cast<llvm::CastInst>(value))
            return is_count(cast->getOperand(0));
        if (const auto *sum = llvm::dyn_cast<llvm::BinaryOperator>(value))
            return sum->getOpcode() == llvm::Instruction::Add && loop_.contains(sum) &&
                   loop_.isLoopInvariant(sum->getOperand(1)) && llvm::isa<llvm::PHINode>(sum->getOperand(0)) &&
                   is_count(sum->getOperand(0));
        const auto *phi = llvm::dyn_cast<llvm::PHINode>(value);
        if (phi == nullptr || phi->getParent() != loop_.getHeader())
            return false;
        return llvm::all_of(phi->blocks(), [&](const llvm::BasicBlock *from) {
            const llvm::Value *next = phi->getIncomingValueForBlock(from);
            const auto *sum = llvm::dyn_cast<llvm::BinaryOperator>(next);
            return !loop_.contains(from) || (sum != nullptr && sum->getOpcode() == llvm::Instruction::Add &&
                                             sum->getOperand(0) == phi && loop_.isLoopInvariant(sum->getOperand(1)));
        });
    }

    void add(const llvm::Value *value)
    {
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (instruction != nullptr && loop_.contains(instruction) && known_.insert(instruction).second)
            found_.push_back(instruction);
    }

    void add_end(const llvm::BasicBlock &block)
    {
        const llvm::Instruction *end = block.getTerminator();
        if (const auto *branch = llvm::dyn_cast<llvm::BranchInst>(end); branch != nullptr && branch->isConditional())
            add(branch->getCondition());
        if (const auto *choice = llvm::dyn_cast<llvm::SwitchInst>(end))
            add(choice->getCondition());
    }

    /// Adds the conditions of the block's end, and of those before it that lead to this block alone.
    void add_choices(const llvm::BasicBlock &block)
    {
        for (const llvm::BasicBlock *at = &block; at != nullptr && loop_.contains(at);
             at = at->getSinglePredecessor()) {
            add_end(*at);
            if (at == loop_.getHeader())
                break;
        }
    }

    const llvm::Loop &loop_;
    llvm::SmallVector<const llvm::Instruction *> found_;
    llvm::SmallPtrSet<const llvm::Instruction *, 16> known_;
};

} // namespace

bool can_wait(const llvm::Function &kernel)
{
    uint64_t bytes = 0;
    for (const llvm::Instruction &instruction : llvm::instructions(kernel)) {
        const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        if (call != nullptr && call->getCalledFunction() != nullptr &&
            is_wait_name(call->getCalledFunction()->getName()))
            return true;
        const auto *slot = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
        if (slot == nullptr)
            continue;
        bytes += slot->isStaticAlloca() ? slot->getAllocationSize(kernel.getParent()->getDataLayout())->getFixedValue()
                                        : MAX_KEPT + 1;
    }
    return bytes <= MAX_KEPT;
}

void yield_in_spins(llvm::Module &module, const Program &program)
{
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), false);
    for (const Kernel &kernel : program.kernels) {
        if (!can_wait(*kernel.function))
            continue;
        const llvm::DominatorTree dominators(*kernel.function);
        const llvm::LoopInfo loops(dominators);
        llvm::SmallVector<std::pair<llvm::BasicBlock *, llvm::BasicBlock *>> rounds;
        for (const llvm::Loop *loop : loops.getLoopsInPreorder()) {
            llvm::SmallVector<llvm::BasicBlock *, 4> latches;
            loop->getLoopLatches(latches);
            if (Exits(*loop).depend_on_looks())
                for (llvm::BasicBlock *latch : latches)
                    rounds.emplace_back(latch, loop->getHeader());
        }
        for (const auto &[latch, header] : rounds) {
            llvm::FunctionCallee yield = module.getOrInsertFunction("__vgc_yield", type);
            llvm::cast<llvm::Function>(yield.getCallee())->setDoesNotThrow();
            llvm::IRBuilder<>(llvm::SplitEdge(latch, header)->getTerminator()).CreateCall(yield);
        }
    }
}

} // namespace vgc
