// Code that a single thread of a row runs, as in `if (threadIdx.x == 0) total[blockIdx.x] = sum;`, keeps the whole row
// from good vectors: its accesses to memory are done under a mask, element by element, in each round. It is taken out
// of the loop and done behind it, once, if the row has that thread and it comes there.
//
// Threads do not access each other's memory between waits (the loops are annotated so), so only what the thread itself
// does behind this code must not touch the same memory. What the code uses is computed again for its thread.
//
// LLVM has one block do what several of such blocks end with, as in `if (x == 0) a[0] = f(1); if (x == 9) a[1] =
// f(2);`. Each of them gets it back.
#include "lone_threads.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/LoopIterator.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{
namespace
{

const unsigned MIN_BITS = 32;   // of the compared numbers: no loop has as many rounds as they have values
const unsigned MAX_DEPTH = 8;   // of expressions that are computed again
const size_t MAX_MOVED = 40;    // instructions
const size_t MAX_ACCESSES = 64; // that those behind the code are compared with
const unsigned MAX_SHARERS = 8; // blocks with a common end

/// Expressions of a loop in its round number `at`.
class InRound : public llvm::SCEVRewriteVisitor<InRound>
{
  public:
    InRound(llvm::ScalarEvolution &evolution, const llvm::Loop &loop, const llvm::SCEV *at)
        : SCEVRewriteVisitor(evolution), loop_(loop), at_(at)
    {
    }
    const llvm::SCEV *visitAddRecExpr(const llvm::SCEVAddRecExpr *expression)
    {
        return expression->getLoop() == &loop_ ? expression->evaluateAtIteration(at_, SE) : expression;
    }

  private:
    const llvm::Loop &loop_;
    const llvm::SCEV *at_;
};

/// What is known of a function.
struct Knowledge {
    llvm::ScalarEvolution &evolution;
    const llvm::DominatorTree &dominators;
    const llvm::PostDominatorTree &behind;
    llvm::AAResults &aliases;
};

/// A condition, and whether it must be true or false.
using Condition = std::pair<llvm::Value *, bool>;

/// A block of a loop that runs in one round only.
class LoneBlock
{
  public:
    LoneBlock(llvm::BasicBlock &block, const llvm::Loop &loop, const Knowledge &known)
        : block_(block), loop_(loop), known_(known),
          expander_(known.evolution, block.getModule()->getDataLayout(), "lone")
    {
    }

    /// True if the block can be taken out of the loop.
    bool is_movable()
    {
        return block_.getSinglePredecessor() != nullptr && block_.getSingleSuccessor() != nullptr &&
               block_.getSingleSuccessor() != loop_.getHeader() && block_.size() <= MAX_MOVED && find_conditions() &&
               llvm::all_of(conditions_, [&](const Condition &one) { return is_known(one.first, 0); }) &&
               has_movable_code() && !conflicts();
    }

    /// True if the block is the common end of blocks that run in one round each.
    bool is_shared() const
    {
        return llvm::pred_size(&block_) > 1 && llvm::pred_size(&block_) <= MAX_SHARERS &&
               block_.getSingleSuccessor() != nullptr && block_.getSingleSuccessor() != loop_.getHeader() &&
               block_.size() <= MAX_MOVED &&
               llvm::none_of(block_, [&](const llvm::Instruction &one) { return is_used_elsewhere(one); }) &&
               llvm::all_of(llvm::predecessors(&block_),
                            [&](llvm::BasicBlock *before) { return leads_in_one_round(*before, block_); });
    }

    /// Gives each block before this one a copy of it, and removes it.
    void give_back()
    {
        llvm::BasicBlock *after = block_.getSingleSuccessor();
        const llvm::SmallVector<llvm::BasicBlock *, MAX_SHARERS> sharers(llvm::predecessors(&block_));
        for (llvm::BasicBlock *sharer : sharers) {
            if (sharer->getSingleSuccessor() == nullptr)
                sharer = llvm::SplitEdge(sharer, &block_);
            llvm::ValueToValueMapTy values;
            llvm::Instruction *end = sharer->getTerminator();
            for (llvm::Instruction &instruction : block_) {
                if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(&instruction)) {
                    values[phi] = phi->getIncomingValueForBlock(sharer);
                    continue;
                }
                if (instruction.isTerminator())
                    continue;
                llvm::Instruction *copy = instruction.clone();
                llvm::RemapInstruction(copy, values, llvm::RF_IgnoreMissingLocals | llvm::RF_NoModuleLevelChanges);
                copy->insertBefore(end);
                values[&instruction] = copy;
            }
            end->replaceSuccessorWith(&block_, after);
            for (llvm::PHINode &phi : after->phis())
                phi.addIncoming(phi.getIncomingValueForBlock(&block_), sharer);
        }
        llvm::DeleteDeadBlock(&block_);
    }

    /// Emits the code between the loop and what is behind it, and removes the block from the loop.
    void move()
    {
        llvm::BasicBlock *exit = loop_.getExitBlock(), *latch = loop_.getLoopLatch();
        llvm::BasicBlock *test = llvm::SplitEdge(latch, exit);
        llvm::BasicBlock *lone = llvm::SplitBlock(test, test->getTerminator());
        llvm::BasicBlock *after = llvm::SplitBlock(lone, lone->getTerminator());
        llvm::Instruction *end = test->getTerminator();
        llvm::IRBuilder<> builder(end);
        const llvm::SCEV *rounds = known_.evolution.getBackedgeTakenCount(&loop_);
        llvm::Type *type = rounds->getType();
        llvm::Value *is_there = builder.CreateICmpULE(
            expand(known_.evolution.getTruncateOrZeroExtend(round_, type), type), expand(rounds, type));
        llvm::ValueToValueMapTy values;
        for (const auto &[condition, wanted] : llvm::reverse(conditions_)) { // the outermost first
            llvm::Value *here = emit(condition, end, values);
            builder.SetInsertPoint(end);
            is_there = builder.CreateLogicalAnd(is_there, wanted ? here : builder.CreateNot(here));
        }
        builder.CreateCondBr(is_there, lone, after);
        end->eraseFromParent();
        for (llvm::Instruction &instruction : block_) {
            if (instruction.isTerminator() || instruction.isDebugOrPseudoInst())
                continue;
            llvm::Instruction *copy = instruction.clone();
            for (llvm::Use &operand : copy->operands())
                operand.set(emit(operand.get(), lone->getTerminator(), values));
            copy->setMetadata(llvm::LLVMContext::MD_access_group, nullptr);
            copy->insertBefore(lone->getTerminator());
            values[&instruction] = copy;
        }
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::reverse(block_)))
            if (!instruction.isTerminator())
                instruction.eraseFromParent();
    }

  private:
    /// Finds the conditions under which a round comes to the block, and the round from one of them.
    bool find_conditions()
    {
        const llvm::BasicBlock *block = &block_;
        while (block != loop_.getHeader()) {
            const auto *above = known_.dominators.getNode(block)->getIDom();
            const llvm::BasicBlock *before = above->getBlock();
            if (!loop_.contains(before))
                return false;
            if (!known_.behind.dominates(block, before) && // else all ways lead here
                (block->getSinglePredecessor() != before || !add_branch(*before, *block)))
                return false;
            block = before;
        }
        return round_ != nullptr;
    }

    /// Adds the condition under which one block leads to another; false if it is not known.
    bool add_branch(const llvm::BasicBlock &from, const llvm::BasicBlock &to)
    {
        const auto *branch = llvm::dyn_cast<llvm::BranchInst>(from.getTerminator());
        if (branch == nullptr || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1))
            return false;
        add(branch->getCondition(), branch->getSuccessor(0) == &to);
        return true;
    }

    /// True if a block leads to another in one round.
    bool leads_in_one_round(llvm::BasicBlock &from, const llvm::BasicBlock &to) const
    {
        LoneBlock lone(from, loop_, known_);
        return loop_.contains(&from) && (from.getSingleSuccessor() != nullptr || lone.add_branch(from, to)) &&
               lone.find_conditions();
    }

    /// Adds a condition: its parts, if all are needed.
    void add(llvm::Value *condition, bool wanted)
    {
        const auto *compare = llvm::dyn_cast<llvm::ICmpInst>(condition);
        if (compare != nullptr && round_ == nullptr && compare->isEquality() &&
            wanted == (compare->getPredicate() == llvm::CmpInst::ICMP_EQ)) {
            if ((round_ = round_of(*compare)) != nullptr)
                return;
            round_ = round_of_parts(*compare);
        }
        conditions_.push_back({condition, wanted});
    }

    /// Number of the only round in which a part of a number is zero, as all of them are then: LLVM makes (a | b) == 0
    /// of a + b == 0. Null if it is not known.
    const llvm::SCEV *round_of_parts(const llvm::ICmpInst &compare)
    {
        const auto *whole = llvm::dyn_cast<llvm::BinaryOperator>(compare.getOperand(0));
        const auto *zero = llvm::dyn_cast<llvm::ConstantInt>(compare.getOperand(1));
        if (whole == nullptr || whole->getOpcode() != llvm::Instruction::Or || zero == nullptr || !zero->isZero())
            return nullptr;
        const llvm::SCEV *round = round_of(whole->getOperand(0), compare.getOperand(1));
        return round != nullptr ? round : round_of(whole->getOperand(1), compare.getOperand(1));
    }

    /// Number of the only round in which both sides are equal; null if it is not known.
    const llvm::SCEV *round_of(const llvm::ICmpInst &compare)
    {
        const llvm::SCEV *round = round_of(compare.getOperand(0), compare.getOperand(1));
        return round != nullptr ? round : round_of(compare.getOperand(1), compare.getOperand(0));
    }

    /// Number of the only round in which a value that counts the rounds is the other one; null if it is not known.
    const llvm::SCEV *round_of(llvm::Value *counts, llvm::Value *other)
    {
        llvm::ScalarEvolution &evolution = known_.evolution;
        if (!counts->getType()->isIntegerTy() || counts->getType()->getIntegerBitWidth() < MIN_BITS)
            return nullptr;
        const auto *counter = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(counts));
        const llvm::SCEV *bound = evolution.getSCEV(other);
        if (counter == nullptr || counter->getLoop() != &loop_ || !counter->isAffine() ||
            !counter->getStepRecurrence(evolution)->isOne() || !evolution.isLoopInvariant(bound, &loop_))
            return nullptr;
        const llvm::SCEV *round = evolution.getMinusSCEV(bound, counter->getStart());
        return expander_.isSafeToExpandAt(round, loop_.getLoopPreheader()->getTerminator()) ? round : nullptr;
    }

    bool has_movable_code()
    {
        for (llvm::Instruction &instruction : block_) {
            if (instruction.isTerminator() || instruction.isDebugOrPseudoInst())
                continue;
            if (llvm::isa<llvm::PHINode>(instruction) || is_used_elsewhere(instruction) || !may_move(instruction))
                return false;
            if (instruction.mayReadOrWriteMemory())
                accesses_.push_back(&instruction);
            for (llvm::Value *operand : instruction.operands())
                if (!is_own(operand) && !is_known(operand, 0))
                    return false;
        }
        return llvm::any_of(accesses_, [](const llvm::Instruction *access) { return access->mayWriteToMemory(); });
    }

    /// True if other blocks use the value: also phis on the way from here, which LLVM's own function leaves out.
    bool is_used_elsewhere(const llvm::Instruction &instruction) const
    {
        return llvm::any_of(instruction.users(), [&](const llvm::User *user) {
            return llvm::cast<llvm::Instruction>(user)->getParent() != &block_;
        });
    }

    static bool may_move(const llvm::Instruction &instruction)
    {
        if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
            return load->isSimple();
        if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
            return store->isSimple();
        if (llvm::isa<llvm::CallBase>(instruction) && !llvm::isa<llvm::IntrinsicInst>(instruction))
            return false;
        return !instruction.mayReadOrWriteMemory() && !instruction.mayHaveSideEffects();
    }

    bool is_own(const llvm::Value *value) const
    {
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        return instruction != nullptr && instruction->getParent() == &block_;
    }

    /// The value in the block's round; null if it is not known before the loop.
    const llvm::SCEV *in_round(llvm::Value *value)
    {
        if (!known_.evolution.isSCEVable(value->getType()))
            return nullptr;
        InRound rewriter(
            known_.evolution, loop_,
            known_.evolution.getTruncateOrZeroExtend(
                round_, known_.evolution.getEffectiveSCEVType(llvm::Type::getInt64Ty(block_.getContext()))));
        const llvm::SCEV *found = rewriter.visit(known_.evolution.getSCEV(value));
        return known_.evolution.isLoopInvariant(found, &loop_) &&
                       expander_.isSafeToExpandAt(found, loop_.getLoopPreheader()->getTerminator())
                   ? found
                   : nullptr;
    }

    /// True if the value of the block's round can be computed behind the loop.
    bool is_known(llvm::Value *value, unsigned depth)
    {
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (instruction == nullptr || !loop_.contains(instruction) || in_round(value) != nullptr)
            return true;
        if (depth == MAX_DEPTH || llvm::isa<llvm::PHINode>(instruction) || instruction->mayReadOrWriteMemory() ||
            !llvm::isSafeToSpeculativelyExecute(instruction))
            return false;
        return llvm::all_of(instruction->operands(),
                            [&](llvm::Value *operand) { return is_known(operand, depth + 1); });
    }

    /// Emits an expression before the loop.
    llvm::Value *expand(const llvm::SCEV *expression, llvm::Type *type)
    {
        return expander_.expandCodeFor(expression, type, loop_.getLoopPreheader()->getTerminator());
    }

    llvm::Value *emit(llvm::Value *value, llvm::Instruction *before, llvm::ValueToValueMapTy &values)
    {
        if (const auto found = values.find(value); found != values.end())
            return found->second;
        auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (instruction == nullptr || !loop_.contains(instruction))
            return value;
        if (const llvm::SCEV *expression = in_round(value))
            return expand(expression, value->getType());
        llvm::Instruction *copy = instruction->clone();
        for (llvm::Use &operand : copy->operands())
            operand.set(emit(operand.get(), before, values));
        copy->insertBefore(before);
        return copy;
    }

    /// True if what the thread does behind the block may touch the same memory.
    bool conflicts()
    {
        llvm::SmallPtrSet<llvm::BasicBlock *, 8> seen;
        llvm::SmallVector<llvm::BasicBlock *, 8> work = {block_.getSingleSuccessor()};
        size_t compared = 0;
        while (!work.empty()) {
            llvm::BasicBlock *block = work.pop_back_val();
            if (!loop_.contains(block) || block == loop_.getHeader() || !seen.insert(block).second)
                continue;
            for (const llvm::Instruction &instruction : *block)
                if (instruction.mayReadOrWriteMemory() && (++compared > MAX_ACCESSES || is_conflict(instruction)))
                    return true;
            llvm::append_range(work, llvm::successors(block));
        }
        return false;
    }

    bool is_conflict(const llvm::Instruction &later)
    {
        if (!may_move(later) || !llvm::isa<llvm::LoadInst, llvm::StoreInst>(later))
            return true; // also what orders other accesses, as stores with release do
        for (const llvm::Instruction *access : accesses_)
            if ((later.mayWriteToMemory() || access->mayWriteToMemory()) &&
                !known_.aliases.isNoAlias(llvm::MemoryLocation::get(&later), llvm::MemoryLocation::get(access)))
                return true;
        return false;
    }

    llvm::BasicBlock &block_;
    const llvm::Loop &loop_;
    const Knowledge &known_;
    llvm::SCEVExpander expander_;
    const llvm::SCEV *round_ = nullptr;
    std::vector<Condition> conditions_;
    std::vector<llvm::Instruction *> accesses_;
};

/// Moves the last block of a loop over threads that can be moved, or divides it; false if all stay.
bool move_last(const llvm::LoopInfo &loops, const Knowledge &known)
{
    for (llvm::Loop *loop : const_cast<llvm::LoopInfo &>(loops).getLoopsInPreorder()) {
        if (!loop->isInnermost() || !loop->isLoopSimplifyForm() || !loop->isAnnotatedParallel() ||
            loop->getExitingBlock() != loop->getLoopLatch() || loop->getExitBlock() == nullptr ||
            llvm::isa<llvm::SCEVCouldNotCompute>(known.evolution.getBackedgeTakenCount(loop)))
            continue;
        llvm::LoopBlocksRPO order(loop);
        order.perform(&loops);
        const std::vector<llvm::BasicBlock *> blocks(order.begin(), order.end());
        for (llvm::BasicBlock *block : llvm::reverse(blocks)) {
            LoneBlock lone(*block, *loop, known);
            const bool is_shared = lone.is_shared();
            if (!is_shared && !lone.is_movable())
                continue;
            is_shared ? lone.give_back() : lone.move();
            return true;
        }
    }
    return false;
}

} // namespace

llvm::PreservedAnalyses MoveLoneThreads::run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses)
{
    bool changed = false;
    for (;;) {
        const llvm::LoopInfo &loops = analyses.getResult<llvm::LoopAnalysis>(function);
        const Knowledge known = {analyses.getResult<llvm::ScalarEvolutionAnalysis>(function),
                                 analyses.getResult<llvm::DominatorTreeAnalysis>(function),
                                 analyses.getResult<llvm::PostDominatorTreeAnalysis>(function),
                                 analyses.getResult<llvm::AAManager>(function)};
        if (!move_last(loops, known))
            return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
        analyses.invalidate(function, llvm::PreservedAnalyses::none());
        changed = true;
    }
}

} // namespace vgc
