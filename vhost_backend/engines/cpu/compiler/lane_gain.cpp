// Whether lockstep is worth it. Lanes that leave an inner loop at different times idle until the last of them has, and
// an access whose addresses are scattered is done lane by lane, behind a test of the lane's mask each. A loop over the
// edges of a graph or the elements of a sparse row does nothing but that: thread by thread it is several times as fast.
#include "lockstep.h"

#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/Operator.h"

namespace vgc
{
namespace
{

const unsigned GATHER_COST = 8; // operations that have to be saved per scattered access
const unsigned MAX_DEPTH = 8;
const unsigned MIN_GATHERED_BITS = 32; // of elements that the processor gathers and scatters

} // namespace

std::optional<int64_t> UniformValues::stride(const llvm::Value *value, unsigned depth) const
{
    if (value == loop_.x)
        return 1;
    if (is_uniform(value))
        return 0;
    const auto *operation = llvm::dyn_cast<llvm::Instruction>(value);
    if (operation == nullptr || depth == MAX_DEPTH)
        return std::nullopt;
    auto of = [&](unsigned operand) { return stride(operation->getOperand(operand), depth + 1); };
    auto factor = [&] { return llvm::dyn_cast<llvm::ConstantInt>(operation->getOperand(1)); };
    switch (operation->getOpcode()) {
    case llvm::Instruction::ZExt:
    case llvm::Instruction::SExt:
    case llvm::Instruction::Trunc:
    case llvm::Instruction::Freeze:
        return of(0);
    case llvm::Instruction::Add:
        return of(0) && of(1) ? std::optional(*of(0) + *of(1)) : std::nullopt;
    case llvm::Instruction::Sub:
        return of(0) && of(1) ? std::optional(*of(0) - *of(1)) : std::nullopt;
    case llvm::Instruction::Mul:
        return of(0) && factor() != nullptr ? std::optional(*of(0) * factor()->getSExtValue()) : std::nullopt;
    case llvm::Instruction::Shl:
        return of(0) && factor() != nullptr && factor()->getZExtValue() < 32
                   ? std::optional(*of(0) << factor()->getZExtValue())
                   : std::nullopt;
    case llvm::Instruction::GetElementPtr:
        return address_stride(llvm::cast<llvm::GetElementPtrInst>(*operation), depth);
    default:
        return std::nullopt;
    }
}

std::optional<int64_t> UniformValues::address_stride(const llvm::GetElementPtrInst &address, unsigned depth) const
{
    const llvm::DataLayout &layout = function_.getParent()->getDataLayout();
    std::optional<int64_t> total = stride(address.getPointerOperand(), depth + 1);
    for (auto index = llvm::gep_type_begin(address); total && index != llvm::gep_type_end(address); ++index) {
        const std::optional<int64_t> step = index.isStruct() ? 0 : stride(index.getOperand(), depth + 1);
        if (!step)
            return std::nullopt;
        if (*step != 0)
            *total += *step * int64_t(index.getSequentialElementStride(layout).getFixedValue());
    }
    return total;
}

bool UniformValues::is_scattered(const llvm::Instruction &access) const
{
    const llvm::Value *address = llvm::getLoadStorePointerOperand(&access);
    if (address == nullptr)
        return false;
    const llvm::DataLayout &layout = function_.getParent()->getDataLayout();
    const std::optional<int64_t> bytes = stride(address);
    return !bytes || (*bytes != 0 && *bytes != int64_t(layout.getTypeStoreSize(
                                                   llvm::getLoadStoreType(const_cast<llvm::Instruction *>(&access)))));
}

size_t UniformValues::lane_size(const Blocks &blocks) const
{
    size_t sum = vector_size(blocks);
    for (const llvm::BasicBlock *block : blocks)
        for (const llvm::Instruction &instruction : *block)
            if (is_scattered(instruction) &&
                llvm::getLoadStoreType(const_cast<llvm::Instruction *>(&instruction))->getPrimitiveSizeInBits() <
                    MIN_GATHERED_BITS)
                sum += COST_BY_LANE;
    return sum;
}

bool UniformValues::has_common_rounds(const llvm::Loop &loop) const
{
    llvm::SmallVector<llvm::BasicBlock *, 4> exiting;
    loop.getExitingBlocks(exiting);
    for (const llvm::BasicBlock *block : exiting) {
        const auto *branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
        if (branch == nullptr || (branch->isConditional() && !is_uniform(branch->getCondition())))
            return false;
    }
    return true;
}

bool UniformValues::is_slow(const llvm::Loop &loop) const
{
    if (&loop == threads_ || !loop.isInnermost() || !body_.contains(loop.getHeader()) || has_common_rounds(loop))
        return false;
    unsigned scattered = 0, operations = 0;
    for (const llvm::BasicBlock *block : loop.blocks())
        for (const llvm::Instruction &instruction : *block) {
            scattered += is_scattered(instruction);
            operations += llvm::isa<llvm::CallInst>(instruction) ||
                          (!uniform_.contains(&instruction) &&
                           llvm::isa<llvm::BinaryOperator, llvm::UnaryOperator, llvm::SelectInst>(instruction));
        }
    return scattered > 0 && operations < GATHER_COST * scattered;
}

std::vector<llvm::Loop *> UniformValues::slow_loops() const
{
    std::vector<llvm::Loop *> slow;
    for (const llvm::Loop *loop : loops_.getLoopsInPreorder())
        if (is_slow(*loop))
            slow.push_back(const_cast<llvm::Loop *>(loop));
    return slow;
}

} // namespace vgc
