// A thread's code with loops in it cannot be vectorised over threads as it stands. So some threads of a row are taken
// at a time, the *lanes*, and run in lockstep, as the threads of a warp on a GPU:
//
//  - The code is cut into *pieces* without loops: a piece begins at the region's entry, at a loop's header, behind a
//    loop, at the end of a loop with loops inside. Pieces are numbered such that a loop's come one after the other,
//    and those behind it after them. So no lane begins a loop's next round before all lanes in it are done with this.
//  - Each lane has a number: the piece that it does next. Again and again, the piece with the lowest number that any
//    lane has is run for all lanes that have it, in a loop over the lanes, which is what the optimiser vectorises.
//  - What a lane carries from piece to piece is in arrays with an element per lane, which become vector registers.
//  - What is the same in all lanes that run in lockstep (loop counters, what is computed or loaded with them) is
//    computed once. That is what makes most addresses consecutive.
#include "lanes.h"

#include <map>
#include <set>

#include "liveness.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/LoopIterator.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{
namespace
{

const unsigned LANES = 32;            // what they carry fits into vector registers
const unsigned STREAMING_LANES = 256; // what they load is long enough to be fetched ahead
const unsigned LANE_STEP = 64;        // loops over lanes end at multiples of this
const unsigned DONE = 255;            // the piece of lanes that have come to the latch
const unsigned MAX_PIECES = 64;
const unsigned MAX_RECOMPUTED = 12;

using Blocks = llvm::SetVector<llvm::BasicBlock *>;

bool is_lane_type(const llvm::Type *type)
{
    return type->isPointerTy() || type->isFloatTy() || type->isDoubleTy() || type->isHalfTy() ||
           (type->isIntegerTy() && type->getIntegerBitWidth() <= 64);
}

/// Marks that say nothing about values.
bool is_annotation(const llvm::Instruction &instruction)
{
    const auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return intrinsic != nullptr && (intrinsic->isAssumeLikeIntrinsic() || intrinsic->isLifetimeStartOrEnd());
}

/// Whether the loop vectoriser can have this in a loop body.
bool is_vectorisable(const llvm::Instruction &instruction)
{
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        return load->isSimple() && is_lane_type(load->getType());
    if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
        return store->isSimple() && is_lane_type(store->getValueOperand()->getType());
    if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        return is_annotation(instruction) ||
               (call->getCalledFunction() != nullptr && llvm::isTriviallyVectorizable(call->getIntrinsicID()));
    if (instruction.isTerminator())
        return llvm::isa<llvm::BranchInst>(instruction);
    return is_lane_type(instruction.getType()) &&
           llvm::isa<llvm::PHINode, llvm::BinaryOperator, llvm::UnaryOperator, llvm::CastInst, llvm::CmpInst,
                     llvm::SelectInst, llvm::GetElementPtrInst, llvm::FreezeInst>(instruction);
}

/// An update of memory of which the thread does not hear again: no thread can wait for another one through it.
bool is_silent_atomic(const llvm::Instruction &instruction)
{
    const auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction);
    return update != nullptr && update->use_empty() && !update->isVolatile();
}

/// Code without loops, and how lanes leave it.
struct Piece {
    llvm::BasicBlock *start;
    Blocks blocks;
    llvm::BasicBlock *only_exit = nullptr; // the one block that leads out, if there is just one
    // made by emit
    llvm::BasicBlock *check = nullptr; // does any lane have this piece next?
    llvm::BasicBlock *before = nullptr;
    llvm::BasicBlock *after = nullptr;
};

class Lockstep
{
  public:
    explicit Lockstep(ThreadLoop &loop)
        : loop_(loop), function_(*loop.function), context_(function_.getContext()), builder_(context_)
    {
    }

    bool run()
    {
        if (!analyse())
            return false;
        split_inductions();
        if (has_atomics_ && !streams_)
            return false; // nothing to gain: no vectors, and no order of accesses that is better
        lanes_ = streams_ ? STREAMING_LANES : LANES;
        find_uniform();
        widen_indices();
        find_uniform();
        find_pieces();
        if (pieces_.size() > MAX_PIECES)
            return false;
        demote();
        emit();
        return true;
    }

  private:
    // ---- may it be done? ------------------------------------------------------------------------------------

    bool analyse()
    {
        dominators_.recalculate(function_);
        loops_.analyze(dominators_);
        llvm::Loop *threads = loops_.getLoopFor(loop_.thread);
        if (threads == nullptr || threads->getSubLoops().empty())
            return false;
        for (llvm::BasicBlock *block : threads->blocks())
            if (block != loop_.thread && block != loop_.latch && !accept(*block))
                return false;
        llvm::LoopBlocksRPO order(threads);
        order.perform(&loops_);
        if (llvm::containsIrreducibleCFG<llvm::BasicBlock *>(order, loops_))
            return false;
        for (llvm::Loop *inner : threads->getSubLoops())
            llvm::simplifyLoop(inner, &dominators_, &loops_, nullptr, nullptr, nullptr, false);
        for (llvm::Loop *inner : threads->getSubLoops())
            llvm::formLCSSARecursively(*inner, dominators_, &loops_, nullptr);
        dominators_.recalculate(function_);
        loops_.releaseMemory();
        loops_.analyze(dominators_);
        threads_ = loops_.getLoopFor(loop_.thread);
        for (llvm::BasicBlock *block : threads_->blocks())
            if (block != loop_.thread && block != loop_.latch)
                body_.insert(block);
        for (llvm::BasicBlock *block : body_)
            for (llvm::Instruction &instruction : llvm::make_early_inc_range(*block))
                if (is_annotation(instruction))
                    instruction.eraseFromParent();
        return true;
    }

    bool accept(const llvm::BasicBlock &block)
    {
        for (const llvm::Instruction &instruction : block) {
            const bool is_atomic = is_silent_atomic(instruction);
            has_atomics_ |= is_atomic;
            if (!is_atomic && !is_vectorisable(instruction))
                return false;
        }
        return true;
    }

    bool in_body(const llvm::Value *value) const
    {
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        return instruction != nullptr && body_.contains(const_cast<llvm::BasicBlock *>(instruction->getParent()));
    }

    bool is_header(llvm::BasicBlock *block) const
    {
        return body_.contains(block) && loops_.isLoopHeader(block);
    }

    // ---- what all lanes agree about ---------------------------------------------------------------------------

    /// Computed once for all lanes: or defined before the loop over threads.
    bool is_uniform(const llvm::Value *value) const
    {
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (instruction == nullptr || uniform_.contains(instruction))
            return true;
        return !in_body(instruction) && instruction->getParent() != loop_.thread;
    }

    /// A load that every lane of a piece does first thing, before any store, can be done once for all.
    bool is_first_in_piece(const llvm::LoadInst &load) const
    {
        const llvm::BasicBlock *block = load.getParent();
        if (!starts_piece(const_cast<llvm::BasicBlock *>(block)))
            return false;
        for (const llvm::Instruction &instruction : *block) {
            if (&instruction == &load)
                return true;
            if (instruction.mayWriteToMemory())
                return false;
        }
        return false;
    }

    bool may_be_uniform(const llvm::Instruction &instruction) const
    {
        if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(&instruction)) {
            if (!is_header(const_cast<llvm::BasicBlock *>(phi->getParent())))
                return false;
        } else if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
            if (!is_first_in_piece(*load))
                return false;
        } else if (!is_pure(instruction) && !is_safe_division(instruction)) {
            return false;
        }
        for (const llvm::Value *operand : instruction.operands())
            if (!is_uniform(operand))
                return false;
        return true;
    }

    static bool is_safe_division(const llvm::Instruction &instruction)
    {
        if (!instruction.isIntDivRem())
            return false;
        const auto *by = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(1));
        return by != nullptr && !by->isZero() && !by->isMinusOne();
    }

    /// Begins with everything, and takes out what is not until nothing changes.
    void find_uniform()
    {
        uniform_.clear();
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

    /// i += step, where only the first i differs between lanes: becomes first + u, u += step, with u uniform.
    void split_inductions()
    {
        find_uniform();
        for (llvm::BasicBlock *block : body_.getArrayRef().vec())
            if (is_header(block))
                for (llvm::PHINode &phi : llvm::make_early_inc_range(block->phis()))
                    if (!uniform_.contains(&phi) && phi.getType()->isIntegerTy())
                        split_induction(phi);
    }

    void split_induction(llvm::PHINode &phi)
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
        llvm::Value *sum = builder_.CreateAdd(first, offset, "", next->hasNoUnsignedWrap(), next->hasNoSignedWrap());
        builder_.SetInsertPoint(latch->getTerminator());
        offset->addIncoming(llvm::ConstantInt::get(phi.getType(), 0), before);
        offset->addIncoming(builder_.CreateAdd(offset, step), latch);
        phi.replaceAllUsesWith(sum);
        phi.eraseFromParent();
        streams_ = true;
    }

    // ---- indices ----------------------------------------------------------------------------------------------

    /// By how much a 32-bit value grows from lane to lane; none if that is not a constant. `checked`: only what is
    /// known not to wrap.
    std::optional<int64_t> growth(const llvm::Value *value, bool checked, unsigned depth = 0) const
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

    /// The value in 64 bits.
    llvm::Value *extended(llvm::Value *value, llvm::CastInst &cast)
    {
        auto *operation = llvm::dyn_cast<llvm::BinaryOperator>(value);
        if (value == loop_.x)
            return builder_.CreateZExt(value, cast.getType());
        if (is_uniform(value) || operation == nullptr)
            return builder_.CreateCast(cast.getOpcode(), value, cast.getType());
        llvm::Value *left = extended(operation->getOperand(0), cast);
        return builder_.CreateBinOp(operation->getOpcode(), left, extended(operation->getOperand(1), cast));
    }

    /// An index that is computed in 32 bits and then extended is consecutive only if it does not wrap from one lane
    /// to the next. If it is signed, that would take it from one end of 4 GiB to the other: no array is like that.
    void widen_indices()
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
                builder_.SetInsertPoint(cast);
                cast->replaceAllUsesWith(extended(cast->getOperand(0), *cast));
                cast->eraseFromParent();
            }
    }

    // ---- pieces -----------------------------------------------------------------------------------------------

    bool starts_piece(llvm::BasicBlock *block) const
    {
        if (block == loop_.thread->getSingleSuccessor() || is_header(block))
            return true;
        if (const llvm::Loop *loop = loops_.getLoopFor(block);
            loop != threads_ && loop->getLoopLatch() == block && !loop->isInnermost())
            return true; // lanes wait here for those that are in an inner loop still
        for (llvm::BasicBlock *from : llvm::predecessors(block))
            if (const llvm::Loop *left = loops_.getLoopFor(from);
                left != nullptr && left != threads_ && !left->contains(block))
                return true;
        return false;
    }

    /// Blocks in reverse post-order, but with the blocks of a loop together.
    void order_blocks(const llvm::Loop *level, std::vector<llvm::BasicBlock *> &ordered)
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

    void find_pieces()
    {
        std::vector<llvm::BasicBlock *> ordered;
        order_blocks(threads_, ordered);
        for (llvm::BasicBlock *block : ordered)
            if (starts_piece(block)) {
                numbers_[block] = unsigned(pieces_.size());
                pieces_.push_back({block, {}});
            }
        for (Piece &piece : pieces_)
            fill(piece);
    }

    bool leaves(llvm::BasicBlock *successor) const
    {
        return successor == loop_.latch || numbers_.contains(successor);
    }

    void fill(Piece &piece)
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

    // ---- what lanes carry from piece to piece -----------------------------------------------------------------

    bool is_recomputable(const llvm::Value *value, unsigned &budget) const
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

    llvm::Value *recompute(llvm::Value *value, llvm::Instruction *before)
    {
        if (!in_body(value) || is_uniform(value))
            return value;
        llvm::Instruction *clone = llvm::cast<llvm::Instruction>(value)->clone();
        for (llvm::Use &operand : clone->operands())
            operand.set(recompute(operand.get(), before));
        clone->insertBefore(before);
        return clone;
    }

    /// A phi at a piece's start: stored on the way in, loaded there.
    void demote_phi(llvm::PHINode &phi)
    {
        builder_.SetInsertPoint(&*loop_.entry->getFirstInsertionPt());
        const bool bit = phi.getType()->isIntegerTy(1);
        llvm::Type *type = bit ? builder_.getInt8Ty() : phi.getType();
        llvm::AllocaInst *slot = builder_.CreateAlloca(type, nullptr, "carried");
        for (unsigned i = 0; i < phi.getNumIncomingValues(); i++) {
            builder_.SetInsertPoint(phi.getIncomingBlock(i)->getTerminator());
            llvm::Value *value = phi.getIncomingValue(i);
            builder_.CreateStore(bit ? builder_.CreateZExt(value, type) : value, slot);
        }
        builder_.SetInsertPoint(&*phi.getParent()->getFirstInsertionPt());
        llvm::Value *loaded = builder_.CreateLoad(type, slot);
        phi.replaceAllUsesWith(bit ? builder_.CreateTrunc(loaded, builder_.getInt1Ty()) : loaded);
        phi.eraseFromParent();
        slots_.insert(slot);
    }

    void demote()
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

    // ---- the new code -----------------------------------------------------------------------------------------

    llvm::AllocaInst *allocate(llvm::Type *type, unsigned count, const char *name)
    {
        builder_.SetInsertPoint(&*loop_.entry->getFirstInsertionPt());
        llvm::AllocaInst *memory =
            builder_.CreateAlloca(count == 1 ? type : llvm::ArrayType::get(type, count), nullptr, name);
        memory->setAlignment(llvm::Align(64));
        return memory;
    }

    llvm::BasicBlock *block(const llvm::Twine &name)
    {
        return llvm::BasicBlock::Create(context_, name, &function_, loop_.row_end);
    }

    llvm::Type *lanes_of(llvm::Type *type)
    {
        return llvm::FixedVectorType::get(type, lanes_);
    }

    void emit()
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

    /// The loop over groups of threads of the row.
    void emit_chunks()
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
            last_lane_ =
                builder_.CreateAnd(builder_.CreateAdd(used, builder_.getInt32(LANE_STEP - 1)), ~(LANE_STEP - 1));
        }
        if (all_ != nullptr) {
            builder_.CreateStore(llvm::Constant::getAllOnesValue(lanes_of(u32)), all_);
            builder_.CreateStore(llvm::Constant::getNullValue(lanes_of(u32)), any_);
        }
        llvm::ValueToValueMapTy values; // the position of the group's first thread, for messages
        values[loop_.x] = first_;
        for (llvm::Instruction &instruction : *loop_.thread)
            if (!llvm::isa<llvm::PHINode>(instruction) && !instruction.isTerminator())
                copy(instruction, values);
        builder_.CreateBr(pieces_[0].before);
    }

    llvm::Instruction *copy(llvm::Instruction &instruction, llvm::ValueToValueMapTy &values)
    {
        llvm::Instruction *clone = builder_.Insert(instruction.clone());
        llvm::RemapInstruction(clone, values, llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals);
        values[&instruction] = clone;
        return clone;
    }

    llvm::Constant *splat(unsigned piece)
    {
        return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes_), builder_.getInt32(piece));
    }

    llvm::Value *any_lane_at(unsigned piece)
    {
        llvm::Value *numbers = builder_.CreateLoad(lanes_of(builder_.getInt32Ty()), next_);
        return builder_.CreateOrReduce(builder_.CreateICmpEQ(numbers, splat(piece)));
    }

    llvm::BasicBlock *check_behind(unsigned piece)
    {
        return piece + 1 < pieces_.size() ? pieces_[piece + 1].check : chunk_end_;
    }

    /// A uniform value at the builder's place, before the lanes of a piece; memorised in `known`.
    llvm::Value *once(llvm::Value *value, llvm::ValueToValueMapTy &known, const Piece &piece)
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

    /// Where a piece's lanes go if they all go the same way: decided once.
    struct Way {
        llvm::Value *condition = nullptr; // null: always the first
        llvm::BasicBlock *to[2] = {nullptr, nullptr};
    };

    std::optional<Way> common_way(const Piece &piece, llvm::ValueToValueMapTy &known)
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

    void emit_piece(unsigned number)
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
        std::vector<std::pair<llvm::AllocaInst *, llvm::Value *>> updates = phi_updates(piece, known);
        emit_lanes(number, known, way.has_value());

        builder_.SetInsertPoint(piece.after);
        for (auto &[slot, value] : updates)
            builder_.CreateStore(value, slot);
        if (way)
            emit_common_way(number, *way);
        else
            emit_ways(number);
    }

    /// The instruction, if it is uniform, or what it takes from others that are.
    void compute_once(llvm::Instruction &instruction, llvm::ValueToValueMapTy &known, const Piece &piece)
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

    /// What the uniform phis of loops become that the piece leads to.
    std::vector<std::pair<llvm::AllocaInst *, llvm::Value *>> phi_updates(const Piece &piece,
                                                                          llvm::ValueToValueMapTy &known)
    {
        std::vector<std::pair<llvm::AllocaInst *, llvm::Value *>> updates;
        for (llvm::PHINode *phi : uniform_phis_)
            for (unsigned i = 0; i < phi->getNumIncomingValues(); i++)
                if (piece.blocks.contains(phi->getIncomingBlock(i)))
                    updates.push_back({uniform_slots_[phi], once(phi->getIncomingValue(i), known, piece)});
        return updates;
    }

    /// All lanes of the piece go the same way.
    void emit_common_way(unsigned number, const Way &way)
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

    /// Lanes part: back to the lowest piece that any of them has next.
    void emit_ways(unsigned number)
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

    /// The loop over lanes that the optimiser vectorises. `together`: lanes are sent on behind the loop.
    void emit_lanes(unsigned number, llvm::ValueToValueMapTy &known, bool together)
    {
        Piece &piece = pieces_[number];
        llvm::BasicBlock *head = block("lane"), *body = block("lane.body"), *end = block("lane.end");
        llvm::BasicBlock *before = builder_.GetInsertBlock();
        builder_.CreateBr(head);
        builder_.SetInsertPoint(head);
        llvm::Type *u32 = builder_.getInt32Ty();
        llvm::PHINode *lane = builder_.CreatePHI(u32, 2, "lane");
        lane->addIncoming(builder_.getInt32(0), before);

        llvm::ValueToValueMapTy values;
        for (auto entry : known)
            values[entry.first] = static_cast<llvm::Value *>(entry.second);
        values[loop_.x] = builder_.CreateAdd(first_, lane, "x", true, true);
        for (llvm::Instruction &instruction : *loop_.thread)
            if (!llvm::isa<llvm::PHINode, llvm::StoreInst>(instruction) && !instruction.isTerminator())
                copy(instruction, values);
        Carried carried(*this, piece, lane, together);
        carried.load(values);
        llvm::Value *mine = builder_.CreateICmpEQ(carried.next(), builder_.getInt32(number));
        builder_.CreateCondBr(mine, body, end);

        clone_piece(piece, values, body, end, carried, together);
        builder_.SetInsertPoint(end);
        carried.store();
        llvm::Value *following = builder_.CreateAdd(lane, builder_.getInt32(1), "", true, true);
        lane->addIncoming(following, end);
        llvm::BranchInst *again =
            builder_.CreateCondBr(builder_.CreateICmpULT(following, last_lane_), head, piece.after);
        again->setMetadata(llvm::LLVMContext::MD_loop, vectorise());
    }

    /// What a lane brings into a piece and takes out of it, in local variables for the time between. They are loaded
    /// and stored for all lanes, whether these run the piece or not: so the arrays can live in registers.
    class Carried
    {
      public:
        Carried(Lockstep &owner, const Piece &piece, llvm::Value *lane, bool together)
            : owner_(owner), lane_(lane), writes_next_(!together)
        {
            std::set<llvm::AllocaInst *> used;
            for (llvm::BasicBlock *part : piece.blocks)
                for (llvm::Instruction &instruction : *part)
                    if (auto *slot =
                            llvm::dyn_cast_or_null<llvm::AllocaInst>(llvm::getLoadStorePointerOperand(&instruction));
                        slot != nullptr && owner.slots_.contains(slot) && used.insert(slot).second)
                        add(slot, owner.arrays_[slot], slot->getAllocatedType());
            next_local_ = add(nullptr, owner.next_, owner.builder_.getInt32Ty());
            if (owner.all_ != nullptr) {
                all_local_ = add(nullptr, owner.all_, owner.builder_.getInt32Ty());
                any_local_ = add(nullptr, owner.any_, owner.builder_.getInt32Ty());
            }
        }

        void load(llvm::ValueToValueMapTy &values)
        {
            for (Entry &entry : entries_) {
                entry.element = owner_.builder_.CreateInBoundsGEP(entry.type, entry.array, lane_);
                llvm::LoadInst *value = owner_.builder_.CreateLoad(entry.type, entry.element);
                value->setMetadata(llvm::LLVMContext::MD_access_group, owner_.loop_.access_group);
                owner_.builder_.CreateStore(value, entry.local);
                if (entry.slot != nullptr)
                    values[entry.slot] = entry.local;
                if (entry.local == next_local_)
                    next_ = value;
            }
        }

        void store()
        {
            for (Entry &entry : entries_) {
                if (entry.local == next_local_ && !writes_next_)
                    continue;
                llvm::Value *value = owner_.builder_.CreateLoad(entry.type, entry.local);
                owner_.builder_.CreateStore(value, entry.element)
                    ->setMetadata(llvm::LLVMContext::MD_access_group, owner_.loop_.access_group);
            }
        }

        llvm::Value *next() const
        {
            return next_;
        }
        void go_to(unsigned piece)
        {
            owner_.builder_.CreateStore(owner_.builder_.getInt32(piece), next_local_);
        }
        /// The lane has come to a site.
        void reach(llvm::Value *site)
        {
            for (auto [local, how] :
                 {std::pair{all_local_, llvm::Instruction::And}, {any_local_, llvm::Instruction::Or}}) {
                llvm::Value *before = owner_.builder_.CreateLoad(owner_.builder_.getInt32Ty(), local);
                owner_.builder_.CreateStore(owner_.builder_.CreateBinOp(how, before, site), local);
            }
        }

      private:
        struct Entry {
            llvm::AllocaInst *slot; // the placeholder in the old code
            llvm::AllocaInst *array;
            llvm::AllocaInst *local;
            llvm::Type *type;
            llvm::Value *element = nullptr;
        };
        llvm::AllocaInst *add(llvm::AllocaInst *slot, llvm::AllocaInst *array, llvm::Type *type)
        {
            const llvm::IRBuilderBase::InsertPointGuard guard(owner_.builder_);
            owner_.builder_.SetInsertPoint(&*owner_.loop_.entry->getFirstInsertionPt());
            llvm::AllocaInst *local = owner_.builder_.CreateAlloca(type, nullptr, "local");
            entries_.push_back({slot, array, local, type});
            return local;
        }
        Lockstep &owner_;
        llvm::Value *lane_;
        bool writes_next_;
        std::vector<Entry> entries_;
        llvm::AllocaInst *next_local_ = nullptr, *all_local_ = nullptr, *any_local_ = nullptr;
        llvm::Value *next_ = nullptr;
    };

    void clone_piece(Piece &piece, llvm::ValueToValueMapTy &values, llvm::BasicBlock *body, llvm::BasicBlock *end,
                     Carried &carried, bool together)
    {
        llvm::SmallVector<llvm::BasicBlock *, 8> clones;
        for (llvm::BasicBlock *part : piece.blocks) {
            // uniform instructions keep the value that was computed before the lanes
            llvm::BasicBlock *clone = llvm::BasicBlock::Create(context_, part->getName(), &function_, end);
            for (llvm::Instruction &instruction : *part)
                if (!uniform_.contains(&instruction) && !instruction.isTerminator()) {
                    llvm::Instruction *twin = instruction.clone();
                    twin->insertInto(clone, clone->end());
                    values[&instruction] = twin;
                }
            values[part] = clone;
            clones.push_back(clone);
        }
        for (llvm::BasicBlock *part : piece.blocks)
            clone_end(*part, values, end, carried, together);
        for (llvm::BasicBlock *part : piece.blocks)
            for (llvm::PHINode &phi : part->phis())
                if (!uniform_.contains(&phi))
                    for (unsigned i = phi.getNumIncomingValues(); i-- > 0;)
                        if (!piece.blocks.contains(phi.getIncomingBlock(i)))
                            llvm::cast<llvm::PHINode>(values[&phi])->removeIncomingValue(i, false);
        llvm::remapInstructionsInBlocks(clones, values);
        builder_.SetInsertPoint(body);
        builder_.CreateBr(llvm::cast<llvm::BasicBlock>(values[piece.start]));
    }

    /// The end of a cloned block. Ways out of the piece set the lane's next piece.
    void clone_end(llvm::BasicBlock &part, llvm::ValueToValueMapTy &values, llvm::BasicBlock *end, Carried &carried,
                   bool together)
    {
        auto *clone = llvm::cast<llvm::BasicBlock>(values[&part]);
        auto *branch = llvm::cast<llvm::BranchInst>(part.getTerminator());
        llvm::BasicBlock *to[2] = {nullptr, nullptr};
        for (unsigned i = 0; i < branch->getNumSuccessors(); i++) {
            llvm::BasicBlock *successor = branch->getSuccessor(i);
            to[i] = leaves(successor) ? (together ? end : way_out(part, successor, values, end, carried))
                                      : llvm::cast<llvm::BasicBlock>(values[successor]);
        }
        builder_.SetInsertPoint(clone);
        if (to[1] == nullptr || to[0] == to[1]) {
            builder_.CreateBr(to[0]);
            return;
        }
        // remapped with the block's other instructions
        builder_.CreateCondBr(branch->getCondition(), to[0], to[1]);
    }

    llvm::BasicBlock *way_out(llvm::BasicBlock &from, llvm::BasicBlock *to, llvm::ValueToValueMapTy &values,
                              llvm::BasicBlock *end, Carried &carried)
    {
        llvm::BasicBlock *way = block("way.out");
        way->moveBefore(end);
        builder_.SetInsertPoint(way);
        if (to != loop_.latch) {
            carried.go_to(numbers_[to]);
        } else {
            carried.go_to(DONE);
            if (loop_.next_store != nullptr) {
                llvm::Value *site = loop_.next->getIncomingValueForBlock(&from);
                llvm::ValueToValueMapTy at_latch;
                for (llvm::Instruction &instruction : *loop_.thread)
                    if (const auto found = values.find(&instruction); found != values.end())
                        at_latch[&instruction] = static_cast<llvm::Value *>(found->second);
                at_latch[loop_.next] = site;
                copy_latch(at_latch);
                carried.reach(site);
            }
        }
        builder_.CreateBr(end);
        return way;
    }

    /// The address computation and store of ctx->next, as the latch has them.
    void copy_latch(llvm::ValueToValueMapTy &values)
    {
        for (llvm::Instruction &instruction : *loop_.latch) {
            if (llvm::isa<llvm::PHINode>(instruction))
                continue;
            copy(instruction, values);
            if (&instruction == loop_.next_store)
                return;
        }
    }

    llvm::MDNode *vectorise()
    {
        auto number = [&](const char *name, unsigned value) {
            return llvm::MDNode::get(context_, {llvm::MDString::get(context_, name),
                                                llvm::ConstantAsMetadata::get(builder_.getInt32(value))});
        };
        llvm::Metadata *enable =
            llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.vectorize.enable"),
                                         llvm::ConstantAsMetadata::get(builder_.getTrue())});
        llvm::Metadata *no_unroll =
            llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.unroll.disable")});
        llvm::Metadata *parallel = llvm::MDNode::get(
            context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), loop_.access_group});
        llvm::MDNode *node = llvm::MDNode::getDistinct(
            context_, {nullptr, parallel, enable, no_unroll, number("llvm.loop.vectorize.width", vector_width()),
                       number("llvm.loop.interleave.count", std::min(4u, lanes_ / vector_width()))});
        node->replaceOperandWith(0, node);
        return node;
    }

    /// 32-bit lanes of a vector register of this host.
    unsigned vector_width() const
    {
        const llvm::StringRef features = function_.getFnAttribute("target-features").getValueAsString();
        return features.contains("+avx512f") ? 16 : features.contains("+avx") ? 8 : 4;
    }

    /// After the last piece: adds up where lanes have come to, and goes on with the next group.
    void emit_chunk_end()
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

    /// Takes the old loop away; who used its results gets the totals.
    void remove_old()
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

    ThreadLoop &loop_;
    llvm::Function &function_;
    llvm::LLVMContext &context_;
    llvm::IRBuilder<> builder_;
    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
    llvm::Loop *threads_ = nullptr;
    Blocks body_;
    llvm::SmallPtrSet<const llvm::Instruction *, 32> uniform_;
    std::vector<Piece> pieces_;
    llvm::DenseMap<llvm::BasicBlock *, unsigned> numbers_;
    llvm::SetVector<llvm::AllocaInst *> slots_; // placeholders: one per lane
    llvm::DenseMap<llvm::AllocaInst *, llvm::AllocaInst *> arrays_;
    std::vector<llvm::PHINode *> uniform_phis_;
    llvm::MapVector<llvm::Instruction *, llvm::AllocaInst *> uniform_slots_;
    llvm::AllocaInst *next_ = nullptr, *all_ = nullptr, *any_ = nullptr, *all_total_ = nullptr, *any_total_ = nullptr;
    llvm::BasicBlock *chunk_ = nullptr, *chunk_end_ = nullptr;
    llvm::PHINode *first_ = nullptr;
    llvm::Value *last_lane_ = nullptr; // exclusive
    unsigned lanes_ = LANES;
    bool has_atomics_ = false;
    bool streams_ = false; // goes through memory with a stride, one thread beside the other
};

} // namespace

bool turn_inside_out(ThreadLoop &loop)
{
    return Lockstep(loop).run();
}

} // namespace vgc
