// The pieces of the code, in the order in which they are run, and the values that lanes carry between them: a value
// that is needed in a later piece than its own is stored and loaded, or computed again if that is cheap.
#include "liveness.h"
#include "lockstep.h"

#include "llvm/Analysis/LoopIterator.h"
#include "llvm/IR/CFG.h"

namespace vgc
{
namespace
{

const unsigned MAX_PIECES = 64;
const unsigned FEW_PIECES = 12;
const unsigned MAX_COPIES = 4;      // of each instruction, on average, that pieces have
const size_t MIN_COPIED = 4000;     // instructions; fewer may be copied more often
const unsigned COST_OF_CARRIED = 6; // instructions for a value that a lane brings into a piece
const unsigned COST_OF_PIECE = 40;  // instructions around a piece

} // namespace

void LanePieces::order_blocks(const llvm::Loop *level, std::vector<llvm::BasicBlock *> &ordered)
{
    llvm::LoopBlocksRPO order(const_cast<llvm::Loop *>(level));
    order.perform(&loops_);
    llvm::SmallPtrSet<const llvm::Loop *, 4> seen;
    for (llvm::BasicBlock *block : order) {
        const llvm::Loop *inner = loops_.getLoopFor(block);
        if (inner == level) {
            if (body_.contains(block))
                ordered.push_back(block);
            continue;
        }
        while (inner->getParentLoop() != level)
            inner = inner->getParentLoop();
        if (seen.insert(inner).second)
            order_blocks(inner, ordered);
    }
}

bool LanePieces::find_pieces()
{
    std::vector<llvm::BasicBlock *> ordered;
    order_blocks(threads_, ordered);
    Blocks starts;
    for (llvm::BasicBlock *block : ordered)
        if (starts_piece(block))
            starts.insert(block);
    cut(ordered, starts);
    const size_t limit = std::max<size_t>(MIN_COPIED, MAX_COPIES * lane_size(body_));
    if (size() > limit) {
        add_joins(starts);
        cut(ordered, starts);
    }
    return pieces_.size() <= MAX_PIECES && size() <= limit && (pieces_.size() <= FEW_PIECES || carried() <= limit);
}

void LanePieces::cut(const std::vector<llvm::BasicBlock *> &ordered, const Blocks &starts)
{
    pieces_.clear();
    numbers_.clear();
    for (llvm::BasicBlock *block : ordered)
        if (starts.contains(block)) {
            numbers_[block] = unsigned(pieces_.size());
            pieces_.push_back({block, {}});
        }
    for (Piece &piece : pieces_)
        fill(piece);
}

size_t LanePieces::size() const
{
    size_t sum = 0;
    for (const Piece &piece : pieces_)
        sum += lane_size(piece.blocks);
    return sum;
}

size_t LanePieces::carried() const
{
    const Liveness liveness(function_);
    size_t sum = 0;
    for (const Piece &piece : pieces_) {
        std::set<unsigned> live;
        liveness.collect(*piece.start, live);
        for (const unsigned number : live)
            sum += in_body(liveness.value(number)) && !is_uniform(liveness.value(number)) ? 1 : 0;
    }
    return sum * COST_OF_CARRIED + pieces_.size() * COST_OF_PIECE;
}

void LanePieces::add_joins(Blocks &starts) const
{
    llvm::DenseMap<const llvm::BasicBlock *, size_t> first; // piece that has a block
    for (size_t i = 0; i < pieces_.size(); i++)
        for (llvm::BasicBlock *block : pieces_[i].blocks)
            first.try_emplace(block, i);
    for (const Piece &piece : pieces_)
        for (llvm::BasicBlock *block : piece.blocks)
            for (llvm::BasicBlock *from : llvm::predecessors(block))
                if (const auto found = first.find(from), mine = first.find(block);
                    found != first.end() && !leaves(block) && found->second != mine->second)
                    starts.insert(block);
}

bool LanePieces::leaves(llvm::BasicBlock *successor) const
{
    return successor == loop_.latch || numbers_.contains(successor);
}

void LanePieces::fill(Piece &piece)
{
    piece.blocks.insert(piece.start);
    unsigned exits = 0;
    for (size_t i = 0; i < piece.blocks.size(); i++) {
        bool is_exit = false;
        for (llvm::BasicBlock *successor : llvm::successors(piece.blocks[i]))
            if (leaves(successor))
                is_exit = true;
            else
                piece.blocks.insert(successor);
        if (is_exit) {
            exits++;
            piece.only_exit = piece.blocks[i];
        }
    }
    if (exits != 1)
        piece.only_exit = nullptr;
}

bool LanePieces::is_recomputable(const llvm::Value *value, unsigned &budget) const
{
    if (!in_body(value) || is_uniform(value))
        return true;
    const auto *instruction = llvm::cast<llvm::Instruction>(value);
    if (budget == 0 || !is_pure(*instruction))
        return false;
    budget--;
    for (const llvm::Value *operand : instruction->operands())
        if (!is_recomputable(operand, budget))
            return false;
    return true;
}

llvm::Value *LanePieces::recompute(llvm::Value *value, llvm::Instruction *before)
{
    if (!in_body(value) || is_uniform(value))
        return value;
    llvm::Instruction *clone = llvm::cast<llvm::Instruction>(value)->clone();
    for (llvm::Use &operand : clone->operands())
        operand.set(recompute(operand.get(), before));
    clone->insertBefore(before);
    return clone;
}

void LanePieces::demote_phi(llvm::PHINode &phi)
{
    builder_.SetInsertPoint(&*loop_.entry->getFirstInsertionPt());
    const bool bit = phi.getType()->isIntegerTy(1);
    llvm::Type *type = bit ? builder_.getInt8Ty() : phi.getType();
    llvm::AllocaInst *slot = builder_.CreateAlloca(type, nullptr, "carried");
    for (unsigned i = 0; i < phi.getNumIncomingValues(); i++) {
        builder_.SetInsertPoint(phi.getIncomingBlock(i)->getTerminator());
        llvm::Value *value = phi.getIncomingValue(i);
        stored_for_[builder_.CreateStore(bit ? builder_.CreateZExt(value, type) : value, slot)] = phi.getParent();
    }
    builder_.SetInsertPoint(&*phi.getParent()->getFirstInsertionPt());
    llvm::Value *loaded = builder_.CreateLoad(type, slot);
    phi.replaceAllUsesWith(bit ? builder_.CreateTrunc(loaded, builder_.getInt1Ty()) : loaded);
    phi.eraseFromParent();
    slots_.insert(slot);
}

void LanePieces::demote()
{
    for (const Piece &piece : pieces_)
        for (llvm::PHINode &phi : llvm::make_early_inc_range(piece.start->phis()))
            if (!is_uniform(&phi))
                demote_phi(phi);
            else
                uniform_phis_.push_back(&phi);
    const Liveness liveness(function_);
    std::set<unsigned> crossing;
    for (const Piece &piece : pieces_)
        liveness.collect(*piece.start, crossing);
    for (const unsigned number : crossing) {
        llvm::Instruction &value = *liveness.value(number);
        unsigned budget = MAX_RECOMPUTED;
        if (!in_body(&value))
            continue;
        if (uniform_.contains(&value)) {
            if (llvm::isa<llvm::LoadInst>(value))
                uniform_slots_[&value] = nullptr;
            continue;
        }
        if (is_recomputable(&value, budget))
            replace_distant_uses(value, [&](llvm::Instruction *before) { return recompute(&value, before); });
        else
            slots_.insert(keep(value));
    }
}

} // namespace vgc
