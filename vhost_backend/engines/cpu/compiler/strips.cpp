// Kernels whose threads only ask for their index in the grid, blockIdx.x * blockDim.x + threadIdx.x, and share nothing
// with their block, do not notice where a block ends. The runtime runs neighbouring blocks of such kernels as one with
// longer rows (../pe.c): blocks of 4 x 4 threads then fill vectors, and cost a call for many of them.
//
// In such a strip blockIdx.x is that of its first block, and threadIdx.x counts on through all of them. So the kernel
// must use both for nothing but that sum, to which other terms may have been added in between.
#include "strips.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

namespace vgc
{
namespace
{

/// How a value differs in a strip from what it is in the thread's own block.
enum class Part {
    NONE,        // not at all
    THREAD,      // threadIdx.x
    THREAD_TERM, // that plus values that do not differ
    BLOCK,       // blockIdx.x
    WIDTH,       // blockDim.x, which does not differ
    ORIGIN,      // blockIdx.x * blockDim.x
    ORIGIN_TERM, // that plus values that do not differ
    UNKNOWN,
};

bool is_thread(Part part)
{
    return part == Part::THREAD || part == Part::THREAD_TERM;
}

bool is_origin(Part part)
{
    return part == Part::ORIGIN || part == Part::ORIGIN_TERM;
}

bool is_same(Part part)
{
    return part == Part::NONE || part == Part::WIDTH;
}

class Indices
{
  public:
    /// False if the instruction, whose operands have been seen, uses a part of an index otherwise than for the index.
    bool take(llvm::Instruction &instruction)
    {
        const Part part = part_of(instruction);
        if (part != Part::NONE)
            parts_[&instruction] = part;
        return part != Part::UNKNOWN;
    }
    bool has_sum() const
    {
        return has_sum_;
    }
    /// True if a phi, one of whose operands may have been seen after it, takes part of an index.
    bool is_taken_by(const llvm::PHINode &phi) const
    {
        return !llvm::all_of(phi.incoming_values(), [&](const llvm::Value *value) { return is_same(of(value)); });
    }
    void forget_wrapping() const
    {
        for (const auto &[instruction, part] : parts_)
            if (part == Part::THREAD_TERM || part == Part::ORIGIN_TERM)
                instruction->dropPoisonGeneratingFlags();
        for (llvm::Instruction *sum : mixed_)
            sum->dropPoisonGeneratingFlags();
    }

  private:
    Part of(const llvm::Value *value) const
    {
        return parts_.lookup(llvm::dyn_cast<llvm::Instruction>(const_cast<llvm::Value *>(value)));
    }

    Part part_of(llvm::Instruction &instruction)
    {
        if (is_position_call(instruction))
            return llvm::StringSwitch<Part>(llvm::cast<llvm::CallInst>(instruction).getCalledFunction()->getName())
                .Case("__vgc_tid_x", Part::THREAD)
                .Case("__vgc_ctaid_x", Part::BLOCK)
                .Case("__vgc_ntid_x", Part::WIDTH)
                .Cases("__vgc_tid_y", "__vgc_tid_z", "__vgc_ctaid_y", "__vgc_ctaid_z", "__vgc_ntid_y", Part::NONE)
                .Cases("__vgc_ntid_z", "__vgc_nctaid_x", "__vgc_nctaid_y", "__vgc_nctaid_z", Part::NONE)
                .Default(Part::UNKNOWN);
        if (llvm::all_of(instruction.operands(), [&](const llvm::Value *operand) { return is_same(of(operand)); })) {
            const bool widens = llvm::isa<llvm::ZExtInst, llvm::SExtInst>(instruction);
            return widens ? of(instruction.getOperand(0)) : Part::NONE;
        }
        const Part first = of(instruction.getOperand(0));
        switch (instruction.getOpcode()) {
        case llvm::Instruction::ZExt:
        case llvm::Instruction::SExt:
            return first == Part::THREAD_TERM || first == Part::ORIGIN_TERM ? Part::UNKNOWN : first;
        case llvm::Instruction::Mul:
            return product(first, of(instruction.getOperand(1)));
        case llvm::Instruction::Add:
            return sum(instruction, first, of(instruction.getOperand(1)));
        default:
            return Part::UNKNOWN;
        }
    }

    static Part product(Part first, Part second)
    {
        const bool is_product =
            (first == Part::BLOCK && second == Part::WIDTH) || (first == Part::WIDTH && second == Part::BLOCK);
        return is_product ? Part::ORIGIN : Part::UNKNOWN;
    }

    Part sum(llvm::Instruction &instruction, Part first, Part second)
    {
        if ((is_thread(first) && is_origin(second)) || (is_origin(first) && is_thread(second))) {
            if (first == Part::THREAD_TERM || first == Part::ORIGIN_TERM || second == Part::THREAD_TERM ||
                second == Part::ORIGIN_TERM)
                mixed_.push_back(&instruction);
            has_sum_ = true;
            return Part::NONE;
        }
        const Part differing = is_same(first) ? second : first;
        if (!is_same(first) && !is_same(second))
            return Part::UNKNOWN;
        if (is_thread(differing))
            return Part::THREAD_TERM;
        return is_origin(differing) ? Part::ORIGIN_TERM : Part::UNKNOWN;
    }

    llvm::DenseMap<llvm::Instruction *, Part> parts_; // those that are not NONE
    std::vector<llvm::Instruction *> mixed_;          // sums of parts that have other terms
    bool has_sum_ = false;
};

/// True for instructions by which threads may see what others have done, or how they are grouped.
bool may_notice(const llvm::Instruction &instruction)
{
    if (const auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
        return update->isVolatile() || !update->use_empty();
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        return !load->isSimple();
    if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
        return !store->isSimple();
    if (llvm::isa<llvm::FenceInst, llvm::AtomicCmpXchgInst>(instruction))
        return true;
    const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call == nullptr || is_position_call(instruction))
        return false;
    const llvm::Function *callee = call->getCalledFunction();
    return callee == nullptr || (!callee->isIntrinsic() && !callee->doesNotAccessMemory());
}

} // namespace

bool runs_in_strips(llvm::Function &kernel)
{
    Indices indices;
    if (kernel.hasFnAttribute(CLUSTERS))
        return false;
    for (llvm::BasicBlock *block : llvm::ReversePostOrderTraversal<llvm::Function *>(&kernel))
        for (llvm::Instruction &instruction : *block)
            if (may_notice(instruction) || !indices.take(instruction))
                return false;
    for (const llvm::BasicBlock &block : kernel)
        for (const llvm::PHINode &phi : block.phis())
            if (indices.is_taken_by(phi))
                return false;
    if (!indices.has_sum())
        return false;
    indices.forget_wrapping();
    return true;
}

} // namespace vgc
