#include "liveness.h"

#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

namespace vgc
{

Liveness::Liveness(llvm::Function &function)
{
    for (llvm::Instruction &instruction : llvm::instructions(function))
        if (!instruction.getType()->isVoidTy() && !llvm::isa<llvm::AllocaInst>(instruction)) {
            numbers_[&instruction] = unsigned(values_.size());
            values_.push_back(&instruction);
        }
    for (llvm::BasicBlock &block : function)
        live_in_[&block].resize(unsigned(values_.size()));
    repeat_backwards(function, [this](llvm::BasicBlock &block) { return update(block); });
}

void Liveness::collect(const llvm::BasicBlock &block, std::set<unsigned> &into) const
{
    for (const unsigned number : live_in_.find(&block)->second.set_bits())
        into.insert(number);
}

bool Liveness::update(llvm::BasicBlock &block)
{
    llvm::BitVector live(unsigned(values_.size()));
    for (llvm::BasicBlock *successor : llvm::successors(&block)) {
        llvm::BitVector needed = live_in_[successor];
        for (llvm::PHINode &phi : successor->phis())
            needed.reset(numbers_[&phi]);
        live |= needed;
        for (llvm::PHINode &phi : successor->phis())
            use(live, phi.getIncomingValueForBlock(&block));
    }
    for (llvm::Instruction &instruction : llvm::reverse(block)) {
        if (llvm::isa<llvm::PHINode>(instruction))
            continue;
        if (const auto found = numbers_.find(&instruction); found != numbers_.end())
            live.reset(found->second);
        for (llvm::Value *operand : instruction.operands())
            use(live, operand);
    }
    if (live == live_in_[&block])
        return false;
    live_in_[&block] = live;
    return true;
}

void Liveness::use(llvm::BitVector &live, llvm::Value *value)
{
    if (const auto found = numbers_.find(value); found != numbers_.end())
        live.set(found->second);
}

llvm::Instruction *point_of(const llvm::Use &use)
{
    auto *user = llvm::cast<llvm::Instruction>(use.getUser());
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(user))
        return phi->getIncomingBlock(use)->getTerminator();
    return user;
}

bool is_pure(const llvm::Instruction &instruction)
{
    if (llvm::isa<llvm::CastInst, llvm::CmpInst, llvm::GetElementPtrInst, llvm::SelectInst, llvm::FreezeInst>(
            instruction))
        return true;
    return llvm::isa<llvm::BinaryOperator>(instruction) && !instruction.isIntDivRem();
}

llvm::AllocaInst *keep(llvm::Instruction &value)
{
    const bool bit = value.getType()->isIntegerTy(1); // becomes a byte: arrays of bits do not vectorise
    llvm::IRBuilder<> entry(&*value.getFunction()->getEntryBlock().getFirstInsertionPt());
    llvm::Type *type = bit ? entry.getInt8Ty() : value.getType();
    llvm::AllocaInst *slot = entry.CreateAlloca(type, nullptr, ".kept"); // no variable of a program has this name
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

} // namespace vgc
