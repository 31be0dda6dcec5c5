// The new code around the loops over lanes: a loop over groups of lanes, and in it, for each piece, a check whether any
// lane has it next, computations that are the same for all lanes, and the choice of the lanes' next pieces.
#include <set>

#include "lockstep.h"

#include "llvm/IR/CFG.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace vgc
{

llvm::AllocaInst *LaneCode::allocate(llvm::Type *type, unsigned count, const char *name)
{
    builder_.SetInsertPoint(&*loop_.entry->getFirstInsertionPt());
    llvm::AllocaInst *memory =
        builder_.CreateAlloca(count == 1 ? type : llvm::ArrayType::get(type, count), nullptr, name);
    memory->setAlignment(llvm::Align(64));
    return memory;
}

llvm::BasicBlock *LaneCode::block(const llvm::Twine &name)
{
    return llvm::BasicBlock::Create(context_, name, &function_, loop_.row_end);
}

llvm::Type *LaneCode::lanes_of(llvm::Type *type)
{
    return llvm::FixedVectorType::get(type, lanes_);
}

void LaneCode::emit()
{
    next_ = allocate(builder_.getInt32Ty(), lanes_, "next");
    if (loop_.next_store != nullptr) {
        all_ = allocate(builder_.getInt32Ty(), lanes_, "all");
        any_ = allocate(builder_.getInt32Ty(), lanes_, "any");
        all_total_ = allocate(builder_.getInt32Ty(), 1, "all.total");
        any_total_ = allocate(builder_.getInt32Ty(), 1, "any.total");
    }
    for (llvm::AllocaInst *slot : slots_)
        arrays_[slot] = allocate(slot->getAllocatedType(), lanes_, "lanes");
    for (llvm::PHINode *phi : uniform_phis_)
        uniform_slots_[phi] = nullptr;
    for (auto &[value, slot] : uniform_slots_)
        slot = allocate(value->getType(), 1, "uniform");
    for (size_t i = 0; i < pieces_.size(); i++) {
        pieces_[i].check = block("check" + llvm::Twine(i));
        pieces_[i].before = block("before" + llvm::Twine(i));
        pieces_[i].after = block("after" + llvm::Twine(i));
    }
    chunk_end_ = block("chunk.end");
    emit_chunks();
    for (size_t i = 0; i < pieces_.size(); i++)
        emit_piece(unsigned(i));
    emit_chunk_end();
    remove_old();
}

void LaneCode::emit_chunks()
{
    chunk_ = block("chunk");
    chunk_->moveBefore(pieces_[0].check);
    loop_.row->getTerminator()->replaceSuccessorWith(loop_.thread, chunk_);
    builder_.SetInsertPoint(chunk_);
    llvm::Type *u32 = builder_.getInt32Ty();
    first_ = builder_.CreatePHI(u32, 2, "chunk.first");
    first_->addIncoming(loop_.row_x, loop_.row);
    llvm::Value *left = builder_.CreateSub(loop_.row_limit, first_);
    llvm::Value *numbers = builder_.CreateStepVector(lanes_of(u32));
    llvm::Value *inside = builder_.CreateICmpULT(numbers, builder_.CreateVectorSplat(lanes_, left));
    builder_.CreateStore(builder_.CreateSelect(inside, splat(0), splat(DONE)), next_);
    last_lane_ = builder_.getInt32(lanes_);
    if (lanes_ > LANE_STEP) {
        llvm::Value *used = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, last_lane_);
        last_lane_ = builder_.CreateAnd(builder_.CreateAdd(used, builder_.getInt32(LANE_STEP - 1)), ~(LANE_STEP - 1));
    }
    if (all_ != nullptr) {
        builder_.CreateStore(llvm::Constant::getAllOnesValue(lanes_of(u32)), all_);
        builder_.CreateStore(llvm::Constant::getNullValue(lanes_of(u32)), any_);
    }
    llvm::ValueToValueMapTy values; // position of the group's first thread, for error texts
    values[loop_.x] = first_;
    for (llvm::Instruction &instruction : *loop_.thread)
        if (!llvm::isa<llvm::PHINode>(instruction) && !instruction.isTerminator())
            copy(instruction, values);
    builder_.CreateBr(pieces_[0].before);
}

llvm::Instruction *LaneCode::copy(llvm::Instruction &instruction, llvm::ValueToValueMapTy &values)
{
    llvm::Instruction *clone = builder_.Insert(instruction.clone());
    llvm::RemapInstruction(clone, values, llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals);
    values[&instruction] = clone;
    return clone;
}

llvm::Constant *LaneCode::splat(unsigned piece)
{
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes_), builder_.getInt32(piece));
}

llvm::Value *LaneCode::any_lane_at(unsigned piece)
{
    llvm::Value *numbers = builder_.CreateLoad(lanes_of(builder_.getInt32Ty()), next_);
    return builder_.CreateOrReduce(builder_.CreateICmpEQ(numbers, splat(piece)));
}

llvm::Value *LaneCode::all_lanes_at(unsigned piece)
{
    llvm::Value *numbers = builder_.CreateLoad(lanes_of(builder_.getInt32Ty()), next_);
    return builder_.CreateAndReduce(builder_.CreateICmpEQ(numbers, splat(piece)));
}

llvm::BasicBlock *LaneCode::check_behind(unsigned piece)
{
    return piece + 1 < pieces_.size() ? pieces_[piece + 1].check : chunk_end_;
}

llvm::Value *LaneCode::once(llvm::Value *value, llvm::ValueToValueMapTy &known, const Piece &piece)
{
    if (!in_body(value))
        return value;
    if (const auto found = known.find(value); found != known.end())
        return found->second;
    auto *instruction = llvm::cast<llvm::Instruction>(value);
    const auto slot = uniform_slots_.find(instruction);
    const bool here = llvm::isa<llvm::LoadInst>(instruction) && piece.start == instruction->getParent();
    if (slot != uniform_slots_.end() && !here)
        return known[value] = builder_.CreateLoad(value->getType(), slot->second);
    llvm::Instruction *clone = instruction->clone();
    for (llvm::Use &operand : clone->operands())
        operand.set(once(operand.get(), known, piece));
    builder_.Insert(clone);
    if (slot != uniform_slots_.end())
        builder_.CreateStore(clone, slot->second);
    return known[value] = clone;
}

std::optional<LaneCode::Way> LaneCode::common_way(const Piece &piece, llvm::ValueToValueMapTy &known)
{
    if (piece.only_exit == nullptr)
        return std::nullopt;
    const auto *branch = llvm::cast<llvm::BranchInst>(piece.only_exit->getTerminator());
    Way way;
    for (unsigned i = 0; i < branch->getNumSuccessors(); i++) {
        way.to[i] = branch->getSuccessor(i);
        if (way.to[i] == loop_.latch || !leaves(way.to[i]))
            return std::nullopt;
    }
    if (branch->isConditional()) {
        if (!is_uniform(branch->getCondition()))
            return std::nullopt;
        way.condition = once(branch->getCondition(), known, piece);
    }
    return way;
}

void LaneCode::emit_piece(unsigned number)
{
    Piece &piece = pieces_[number];
    builder_.SetInsertPoint(piece.check);
    builder_.CreateCondBr(any_lane_at(number), piece.before, check_behind(number));

    llvm::ValueToValueMapTy known;
    builder_.SetInsertPoint(piece.before);
    for (llvm::BasicBlock *part : piece.blocks)
        for (llvm::Instruction &instruction : *part)
            compute_once(instruction, known, piece);
    const std::optional<Way> way = common_way(piece, known);
    const Updates updates = phi_updates(piece, known);
    if (llvm::Value *all = way ? nullptr : all_go_on(piece, known))
        emit_round(number, known, updates, all);
    emit_lanes(number, known, way ? Exit::TOGETHER : Exit::APART, piece.after);

    builder_.SetInsertPoint(piece.after);
    for (auto &[slot, value] : updates)
        builder_.CreateStore(value, slot);
    if (way)
        emit_common_way(number, *way);
    else
        emit_ways(number);
}

bool LaneCode::counts_up(const llvm::Value *value, unsigned depth) const
{
    if (value == loop_.x)
        return true;
    const auto *operation = llvm::dyn_cast<llvm::Instruction>(value);
    if (operation == nullptr || is_uniform(value) || depth == MAX_RECOMPUTED)
        return false;
    auto counts = [&](unsigned operand) { return counts_up(operation->getOperand(operand), depth + 1); };
    auto uniform = [&](unsigned operand) { return is_uniform(operation->getOperand(operand)); };
    switch (operation->getOpcode()) {
    case llvm::Instruction::ZExt:
    case llvm::Instruction::SExt:
        return counts(0);
    case llvm::Instruction::Add:
        return (uniform(1) && counts(0)) || (uniform(0) && counts(1));
    case llvm::Instruction::Sub:
        return uniform(1) && counts(0);
    default:
        return false;
    }
}

llvm::Value *LaneCode::at(llvm::Value *x, llvm::Value *value, llvm::ValueToValueMapTy &known, const Piece &piece)
{
    if (value == loop_.x)
        return x;
    if (is_uniform(value))
        return once(value, known, piece);
    llvm::Instruction *clone = llvm::cast<llvm::Instruction>(value)->clone();
    clone->dropPoisonGeneratingFlags(); // some lanes may not come here
    for (llvm::Use &operand : clone->operands())
        operand.set(at(x, operand.get(), known, piece));
    return builder_.Insert(clone);
}

llvm::Value *LaneCode::all_go_on(const Piece &piece, llvm::ValueToValueMapTy &known)
{
    if (piece.only_exit == nullptr)
        return nullptr;
    const auto *branch = llvm::cast<llvm::BranchInst>(piece.only_exit->getTerminator());
    const auto *compare = branch->isConditional() ? llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition()) : nullptr;
    if (compare == nullptr || compare->isEquality() ||
        (branch->getSuccessor(0) == piece.start) == (branch->getSuccessor(1) == piece.start))
        return nullptr;
    const unsigned side = counts_up(compare->getOperand(0)) ? 0 : 1;
    if (!counts_up(compare->getOperand(side)) || !is_uniform(compare->getOperand(1 - side)))
        return nullptr;
    const llvm::CmpInst::Predicate passes =
        branch->getSuccessor(0) == piece.start ? compare->getPredicate() : compare->getInversePredicate();
    llvm::Value *lanes = builder_.CreateBinaryIntrinsic(
        llvm::Intrinsic::umin, builder_.CreateSub(loop_.row_limit, first_), builder_.getInt32(lanes_));
    llvm::Value *steps = builder_.CreateSub(lanes, builder_.getInt32(1));
    llvm::Value *first = at(first_, compare->getOperand(side), known, piece);
    llvm::Value *last = at(builder_.CreateAdd(first_, steps), compare->getOperand(side), known, piece);
    llvm::Value *bound = once(compare->getOperand(1 - side), known, piece);
    auto pass = [&](llvm::Value *value) {
        return side == 0 ? builder_.CreateICmp(passes, value, bound) : builder_.CreateICmp(passes, bound, value);
    };
    llvm::Value *by_ones =
        builder_.CreateICmpEQ(builder_.CreateSub(last, first), builder_.CreateZExt(steps, first->getType()));
    llvm::Value *in_order =
        builder_.CreateICmp(compare->isSigned() ? llvm::CmpInst::ICMP_SLE : llvm::CmpInst::ICMP_ULE, first, last);
    llvm::Value *ends = builder_.CreateAnd(pass(first), pass(last));
    return builder_.CreateFreeze(builder_.CreateAnd(builder_.CreateAnd(by_ones, in_order), ends));
}

void LaneCode::emit_round(unsigned number, llvm::ValueToValueMapTy &known, const Updates &updates, llvm::Value *all)
{
    llvm::BasicBlock *round = block("round"), *again = block("again"), *last = block("last");
    builder_.CreateCondBr(all, round, last);
    builder_.SetInsertPoint(round);
    prefetch_next_round(pieces_[number], updates);
    emit_lanes(number, known, Exit::AGAIN, again);
    builder_.SetInsertPoint(again);
    for (auto &[slot, value] : updates)
        builder_.CreateStore(value, slot);
    builder_.CreateBr(pieces_[number].before);
    builder_.SetInsertPoint(last);
}

void LaneCode::compute_once(llvm::Instruction &instruction, llvm::ValueToValueMapTy &known, const Piece &piece)
{
    if (uniform_.contains(&instruction)) {
        once(&instruction, known, piece);
        return;
    }
    for (llvm::Value *operand : instruction.operands())
        if (const auto *other = llvm::dyn_cast<llvm::Instruction>(operand);
            other != nullptr && uniform_.contains(other))
            once(operand, known, piece);
}

LaneCode::Updates LaneCode::phi_updates(const Piece &piece, llvm::ValueToValueMapTy &known)
{
    Updates updates;
    for (llvm::PHINode *phi : uniform_phis_)
        for (unsigned i = 0; i < phi->getNumIncomingValues(); i++)
            if (piece.blocks.contains(phi->getIncomingBlock(i)))
                updates.push_back({uniform_slots_[phi], once(phi->getIncomingValue(i), known, piece)});
    return updates;
}

void LaneCode::emit_common_way(unsigned number, const Way &way)
{
    llvm::BasicBlock *ends[2] = {nullptr, nullptr};
    for (unsigned i = 0; i < 2 && way.to[i] != nullptr; i++)
        ends[i] = block("way");
    if (way.condition != nullptr)
        builder_.CreateCondBr(way.condition, ends[0], ends[1]);
    else
        builder_.CreateBr(ends[0]);
    for (unsigned i = 0; i < 2 && ends[i] != nullptr; i++) {
        builder_.SetInsertPoint(ends[i]);
        const unsigned target = numbers_[way.to[i]];
        if (target != number) {
            llvm::Value *numbers = builder_.CreateLoad(lanes_of(builder_.getInt32Ty()), next_);
            llvm::Value *mine = builder_.CreateICmpEQ(numbers, splat(number));
            builder_.CreateStore(builder_.CreateSelect(mine, splat(target), numbers), next_);
        }
        builder_.CreateBr(target <= number ? pieces_[target].before : check_behind(number));
    }
}

void LaneCode::emit_ways(unsigned number)
{
    std::set<unsigned> back;
    for (llvm::BasicBlock *part : pieces_[number].blocks)
        for (llvm::BasicBlock *successor : llvm::successors(part))
            if (numbers_.contains(successor) && numbers_[successor] <= number)
                back.insert(numbers_[successor]);
    for (const unsigned target : back) {
        llvm::BasicBlock *otherwise = block("otherwise");
        builder_.CreateCondBr(any_lane_at(target), pieces_[target].before, otherwise);
        builder_.SetInsertPoint(otherwise);
    }
    builder_.CreateBr(check_behind(number));
}

void LaneCode::emit_chunk_end()
{
    builder_.SetInsertPoint(chunk_end_);
    llvm::Type *u32 = builder_.getInt32Ty();
    if (all_ != nullptr) {
        auto add = [&](llvm::AllocaInst *total, llvm::AllocaInst *lanes, bool is_and) {
            llvm::Value *values = builder_.CreateLoad(lanes_of(u32), lanes);
            llvm::Value *reduced = is_and ? builder_.CreateAndReduce(values) : builder_.CreateOrReduce(values);
            llvm::Value *before = builder_.CreateLoad(u32, total);
            builder_.CreateStore(is_and ? builder_.CreateAnd(before, reduced) : builder_.CreateOr(before, reduced),
                                 total);
        };
        add(all_total_, all_, true);
        add(any_total_, any_, false);
    }
    llvm::Value *following = builder_.CreateAdd(first_, builder_.getInt32(lanes_), "", true, true);
    first_->addIncoming(following, chunk_end_);
    builder_.CreateCondBr(builder_.CreateICmpULT(following, loop_.row_limit), chunk_, loop_.row_end);
}

void LaneCode::remove_old()
{
    builder_.SetInsertPoint(loop_.entry->getTerminator());
    if (all_ != nullptr) {
        builder_.CreateStore(builder_.getInt32(~0u), all_total_);
        builder_.CreateStore(builder_.getInt32(0), any_total_);
    }
    builder_.SetInsertPoint(&*loop_.row_end->getFirstInsertionPt());
    for (auto [old, total] : {std::pair{loop_.all, all_total_}, {loop_.any, any_total_}}) {
        llvm::Value *result = old->getIncomingValueForBlock(loop_.latch);
        if (total != nullptr)
            result->replaceUsesWithIf(builder_.CreateLoad(builder_.getInt32Ty(), total), [&](llvm::Use &use) {
                return llvm::cast<llvm::Instruction>(use.getUser())->getParent() != loop_.latch &&
                       llvm::cast<llvm::Instruction>(use.getUser())->getParent() != loop_.thread;
            });
        else
            old->replaceUsesWithIf(old->getIncomingValueForBlock(loop_.row), [&](llvm::Use &use) {
                return llvm::cast<llvm::Instruction>(use.getUser())->getParent() != loop_.latch;
            });
    }
    std::vector<llvm::BasicBlock *> dead = {loop_.thread, loop_.latch};
    dead.insert(dead.end(), body_.begin(), body_.end());
    llvm::DeleteDeadBlocks(dead);
    for (llvm::AllocaInst *slot : slots_)
        slot->eraseFromParent();
}

} // namespace vgc
