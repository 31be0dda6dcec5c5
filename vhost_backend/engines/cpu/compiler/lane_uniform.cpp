// Values that are the same in all lanes. The more of them there are, the more addresses are consecutive from lane to
// lane: loop counters are split into a part that lanes share and a start per lane, and indices are widened where they
// cannot wrap.
#include "apart.h"
#include "liveness.h"
#include "lockstep.h"

#include "llvm/Transforms/Utils/Local.h"

namespace vgc
{

bool UniformValues::is_uniform(const llvm::Value *value) const
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || uniform_.contains(instruction))
        return true;
    return !in_body(instruction) && instruction->getParent() != loop_.thread;
}

bool UniformValues::may_be_uniform(const llvm::Instruction &instruction) const
{
    if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(&instruction)) {
        if (!is_header(const_cast<llvm::BasicBlock *>(phi->getParent())))
            return false;
    } else if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
        if (!first_loads_.contains(load))
            return false;
    } else if (!is_pure(instruction) && !is_safe_division(instruction)) {
        return false;
    }
    for (const llvm::Value *operand : instruction.operands())
        if (!is_uniform(operand))
            return false;
    return true;
}

bool UniformValues::is_safe_division(const llvm::Instruction &instruction)
{
    if (!instruction.isIntDivRem())
        return false;
    const auto *by = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(1));
    return by != nullptr && !by->isZero() && !by->isMinusOne();
}

void UniformValues::find_uniform()
{
    uniform_.clear();
    first_loads_.clear();
    for (llvm::BasicBlock *block : body_)
        if (starts_piece(block))
            find_first_loads(*block, first_loads_);
    for (llvm::BasicBlock *block : body_)
        for (llvm::Instruction &instruction : *block)
            if (!instruction.isTerminator() && !instruction.getType()->isVoidTy())
                uniform_.insert(&instruction);
    for (bool changed = true; changed;) {
        changed = false;
        for (llvm::BasicBlock *block : body_)
            for (llvm::Instruction &instruction : *block)
                if (uniform_.contains(&instruction) && !may_be_uniform(instruction))
                    changed |= uniform_.erase(&instruction);
    }
}

void UniformValues::split_inductions()
{
    find_uniform();
    for (llvm::BasicBlock *block : body_.getArrayRef().vec())
        if (is_header(block))
            for (llvm::PHINode &phi : llvm::make_early_inc_range(block->phis()))
                if (!uniform_.contains(&phi) && phi.getType()->isIntegerTy())
                    split_induction(phi);
}

void UniformValues::split_induction(llvm::PHINode &phi)
{
    const llvm::Loop *loop = loops_.getLoopFor(phi.getParent());
    llvm::BasicBlock *latch = loop->getLoopLatch(), *before = loop->getLoopPreheader();
    auto *next = llvm::dyn_cast<llvm::BinaryOperator>(phi.getIncomingValueForBlock(latch));
    llvm::Value *first = phi.getIncomingValueForBlock(before);
    if (next == nullptr || next->getOpcode() != llvm::Instruction::Add)
        return;
    llvm::Value *step = next->getOperand(next->getOperand(0) == &phi ? 1 : 0);
    const bool adds_to_phi = next->getOperand(0) == &phi || next->getOperand(1) == &phi;
    if (!adds_to_phi || !is_uniform(step) || !loop->isLoopInvariant(step))
        return;
    builder_.SetInsertPoint(&phi);
    llvm::PHINode *offset = builder_.CreatePHI(phi.getType(), 2, "offset");
    builder_.SetInsertPoint(&*phi.getParent()->getFirstInsertionPt());
    auto *sum = llvm::cast<llvm::BinaryOperator>(
        builder_.CreateAdd(first, offset, "", next->hasNoUnsignedWrap(), next->hasNoSignedWrap()));
    builder_.SetInsertPoint(latch->getTerminator());
    offset->addIncoming(llvm::ConstantInt::get(phi.getType(), 0), before);
    offset->addIncoming(builder_.CreateAdd(offset, step), latch);
    phi.replaceAllUsesWith(sum);
    phi.eraseFromParent();
    splits_.push_back({offset, sum, next});
    streams_ = true;
}

void UniformValues::join_inductions(const llvm::BasicBlock *header)
{
    for (const Split &split : splits_) {
        if (split.sum->getParent() != header)
            continue;
        llvm::PHINode *offset = split.offset;
        builder_.SetInsertPoint(offset);
        llvm::PHINode *phi = builder_.CreatePHI(offset->getType(), 2);
        for (llvm::BasicBlock *from : offset->blocks())
            phi->addIncoming(loops_.getLoopFor(header)->contains(from) ? split.next : split.sum->getOperand(0), from);
        split.sum->replaceAllUsesWith(phi);
        split.sum->eraseFromParent();
        llvm::RecursivelyDeleteDeadPHINode(offset);
    }
}

std::optional<int64_t> UniformValues::growth(const llvm::Value *value, bool checked, unsigned depth) const
{
    if (value == loop_.x)
        return 1;
    if (is_uniform(value))
        return 0;
    const auto *operation = llvm::dyn_cast<llvm::BinaryOperator>(value);
    if (operation == nullptr || depth == MAX_RECOMPUTED)
        return std::nullopt;
    const auto left = growth(operation->getOperand(0), checked, depth + 1);
    const auto right = growth(operation->getOperand(1), checked, depth + 1);
    const auto *constant = llvm::dyn_cast<llvm::ConstantInt>(operation->getOperand(1));
    if (!left || !right)
        return std::nullopt;
    switch (operation->getOpcode()) {
    case llvm::Instruction::Add:
        return checked && !operation->hasNoUnsignedWrap() ? std::nullopt : std::optional(*left + *right);
    case llvm::Instruction::Sub:
        return checked ? std::nullopt : std::optional(*left - *right);
    case llvm::Instruction::Mul:
        return checked || constant == nullptr ? std::nullopt : std::optional(*left * constant->getSExtValue());
    default:
        return std::nullopt;
    }
}

llvm::Value *UniformValues::extended(llvm::Value *value, llvm::CastInst &cast)
{
    auto *operation = llvm::dyn_cast<llvm::BinaryOperator>(value);
    if (value == loop_.x)
        return builder_.CreateZExt(value, cast.getType());
    if (is_uniform(value) || operation == nullptr)
        return builder_.CreateCast(cast.getOpcode(), value, cast.getType());
    llvm::Value *left = extended(operation->getOperand(0), cast);
    return builder_.CreateBinOp(operation->getOpcode(), left, extended(operation->getOperand(1), cast));
}

void UniformValues::widen_indices()
{
    for (llvm::BasicBlock *block : body_)
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(*block)) {
            auto *cast = llvm::dyn_cast<llvm::CastInst>(&instruction);
            if (cast == nullptr || !cast->getType()->isIntegerTy(64) ||
                !cast->getOperand(0)->getType()->isIntegerTy(32) || is_uniform(cast))
                continue;
            const bool is_signed = llvm::isa<llvm::SExtInst>(cast);
            if (growth(cast->getOperand(0), !is_signed).value_or(0) == 0)
                continue;
            if (is_signed && !llvm::all_of(cast->users(), [](const llvm::User *user) {
                    return llvm::isa<llvm::GetElementPtrInst>(user);
                }))
                continue; // other values may wrap
            builder_.SetInsertPoint(cast);
            cast->replaceAllUsesWith(extended(cast->getOperand(0), *cast));
            cast->eraseFromParent();
        }
}

} // namespace vgc
