// Loops that NVRTC and nvcc have unrolled: they make a first loop of the rounds that are left over when the number of
// rounds is divided by four, and a main loop with four copies of the code. Thread by thread, where threads have few
// rounds and each its own number of them, the processor guesses the ends of two loops wrong instead of one.
//
// Where unrolled.cpp proves that a round of the main loop is several of the first, a third loop is made that does all
// rounds one by one, until the main loop's condition fails. It is entered if its number of rounds is what the two loops
// have together, which a test before it finds out: in code from a compiler always. The two loops stay for all else.
#include "reroll.h"

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

namespace vgc
{
namespace
{

const unsigned COPIES[] = {4, 8}; // that compilers make

/// What is known of a function's loops, until they change.
struct Knowledge {
    explicit Knowledge(llvm::Function &function)
        : names(llvm::Triple(function.getParent()->getTargetTriple())), library(names), assumptions(function),
          dominators(function), loops(dominators), evolution(function, library, assumptions, dominators, loops)
    {
    }
    llvm::TargetLibraryInfoImpl names;
    llvm::TargetLibraryInfo library;
    llvm::AssumptionCache assumptions;
    llvm::DominatorTree dominators;
    llvm::LoopInfo loops;
    llvm::ScalarEvolution evolution;
};

/// The main loop's condition to go on: a number that grows evenly, compared with one that stays.
struct Condition {
    llvm::CmpInst::Predicate predicate;
    llvm::Value *number, *limit;
};

/// The loop that does all rounds. Code that was emitted for nothing goes again.
class OneLoop
{
  public:
    OneLoop(Knowledge &knowledge, const UnrolledPair &pair, RoundMatch &match, unsigned copies)
        : knowledge_(knowledge), pair_(pair), match_(match), copies_(copies), layout_(pair.fork->getDataLayout()),
          builder_(pair.fork->getContext(), llvm::ConstantFolder(),
                   llvm::IRBuilderCallbackInserter([this](llvm::Instruction *made) { made_.push_back(made); }))
    {
    }

    bool run();

  private:
    bool is_private(const llvm::Use &use) const;
    bool has_no_other_uses() const;
    bool count_first();
    std::optional<Condition> main_condition() const;
    bool emit_loop();
    bool emit_condition(const Condition &condition);
    llvm::Value *is_usual(const Condition &condition, llvm::Value *begin, llvm::Value *limit, const llvm::APInt &step);
    llvm::Value *first_rounds();
    bool emit_tests();
    llvm::Value *expanded(const llvm::SCEV *number, llvm::Type *type);
    bool emit_results();
    void connect();
    void undo();

    llvm::Value *shifted(llvm::Value *value, const llvm::APInt &by);
    llvm::Value *number(llvm::Value *value);
    llvm::Value *leads_to(const llvm::BasicBlock *block, const llvm::BasicBlock *target, llvm::Value *condition);
    llvm::Value *copy(llvm::Value *value, llvm::function_ref<llvm::Value *(llvm::Value *)> operand);
    llvm::Value *before_loops(llvm::Value *value);
    llvm::Value *at_round_end(llvm::Value *value);
    llvm::Value *walk_at_round_end(const Walk &walk, llvm::Type *type);
    llvm::Value *behind_first(llvm::Value *value);
    llvm::Value *behind_main(llvm::Value *value);

    Knowledge &knowledge_;
    const UnrolledPair &pair_;
    RoundMatch &match_;
    const unsigned copies_;
    const llvm::DataLayout &layout_;
    std::vector<llvm::Instruction *> made_;
    llvm::IRBuilder<llvm::ConstantFolder, llvm::IRBuilderCallbackInserter> builder_;

    const llvm::SCEV *rounds_ = nullptr; // of the first loop, if it is entered
    llvm::BasicBlock *before_ = nullptr, *loop_ = nullptr, *end_ = nullptr;
    llvm::ValueToValueMapTy values_; // of the first loop, in the new one
    llvm::Value *enters_main_ = nullptr, *is_usual_ = nullptr;
    llvm::DenseMap<llvm::Value *, llvm::Value *> before_loops_, at_round_end_;
    std::vector<llvm::Value *> results_; // for the phis of `behind`
};

bool OneLoop::run()
{
    const auto condition = main_condition();
    if (!condition || !has_no_other_uses() || !count_first())
        return false;
    if (!emit_loop() || !emit_condition(*condition) || !emit_results() || !emit_tests()) {
        undo();
        return false;
    }
    match_.relax_flags(values_);
    connect();
    return true;
}

/// True if the use is in the two loops or beside them, or one that connect() serves.
bool OneLoop::is_private(const llvm::Use &use) const
{
    const auto *user = llvm::cast<llvm::Instruction>(use.getUser());
    const llvm::BasicBlock *block = user->getParent();
    if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(user); phi != nullptr && block == pair_.behind)
        block = phi->getIncomingBlock(use);
    return llvm::is_contained(
        {pair_.before, pair_.first, pair_.first_end, pair_.between, pair_.main_before, pair_.main, pair_.main_end},
        block);
}

/// True if all that the loops leave behind goes through the phis of `behind`, and nothing else happens beside them.
bool OneLoop::has_no_other_uses() const
{
    for (const llvm::BasicBlock *block :
         {pair_.before, pair_.first, pair_.first_end, pair_.between, pair_.main_before, pair_.main, pair_.main_end})
        for (const llvm::Instruction &instruction : *block) {
            if (block != pair_.first && block != pair_.main && !instruction.isTerminator() &&
                !llvm::isa<llvm::PHINode>(instruction) && !llvm::isSafeToSpeculativelyExecute(&instruction))
                return false;
            if (!llvm::all_of(instruction.uses(), [&](const llvm::Use &use) { return is_private(use); }))
                return false;
        }
    return true;
}

/// Finds the number of rounds of the first loop.
bool OneLoop::count_first()
{
    llvm::ScalarEvolution &evolution = knowledge_.evolution;
    const llvm::SCEV *again = evolution.getBackedgeTakenCount(pair_.loop);
    if (llvm::isa<llvm::SCEVCouldNotCompute>(again) || evolution.getTypeSizeInBits(again->getType()) > 64)
        return false;
    const llvm::SCEV *wide = evolution.getTripCountFromExitCount(again, builder_.getInt64Ty(), pair_.loop);
    if (evolution.getUnsignedRangeMax(wide).getActiveBits() > evolution.getTypeSizeInBits(again->getType()))
        return false;
    rounds_ = evolution.getTruncateOrNoop(wide, again->getType());
    const llvm::SCEVExpander expander(evolution, layout_, "rounds");
    return expander.isSafeToExpandAt(rounds_, pair_.fork->getTerminator());
}

/// The main loop's condition; none if another kind of it ends the loop.
std::optional<Condition> OneLoop::main_condition() const
{
    const auto *branch = llvm::cast<llvm::BranchInst>(pair_.main->getTerminator());
    const auto *compare = llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition());
    if (compare == nullptr || compare->getParent() != pair_.main)
        return std::nullopt;
    Condition condition{compare->getPredicate(), compare->getOperand(0), compare->getOperand(1)};
    if (branch->getSuccessor(0) != pair_.main)
        condition.predicate = llvm::CmpInst::getInversePredicate(condition.predicate);
    const auto *limit = llvm::dyn_cast<llvm::Instruction>(condition.limit);
    if (limit != nullptr && limit->getParent() == pair_.main) {
        std::swap(condition.number, condition.limit);
        condition.predicate = llvm::CmpInst::getSwappedPredicate(condition.predicate);
    }
    return condition;
}

/// Emits the first loop's code once more, without a way in or out yet.
bool OneLoop::emit_loop()
{
    auto block = [&](const char *name) {
        return llvm::BasicBlock::Create(pair_.fork->getContext(), name, pair_.fork->getParent(), pair_.before);
    };
    before_ = block("once.before");
    loop_ = block("once");
    end_ = block("once.end");
    for (llvm::Instruction &instruction : *pair_.first) {
        llvm::Instruction *made = instruction.clone();
        made->insertInto(loop_, loop_->end());
        values_[&instruction] = made;
    }
    for (llvm::Instruction &instruction : *pair_.first)
        for (llvm::Use &use : instruction.operands())
            if (!llvm::isa<llvm::BasicBlock>(use) && !values_.count(use))
                if ((values_[use] = before_loops(use)) == nullptr)
                    return false;
    values_[pair_.first] = loop_;
    values_[pair_.before] = before_;
    values_[pair_.first_end] = end_;
    for (llvm::Instruction &made : *loop_)
        llvm::RemapInstruction(&made, values_);
    builder_.SetInsertPoint(before_);
    builder_.CreateBr(loop_);
    builder_.SetInsertPoint(end_);
    builder_.CreateUnreachable();
    return true;
}

/// Emits the condition to go on, and the test before the loop.
bool OneLoop::emit_condition(const Condition &condition)
{
    const auto walk = match_.through_all(condition.number);
    llvm::Value *limit = before_loops(condition.limit);
    llvm::Value *entered = before_loops(llvm::cast<llvm::BranchInst>(pair_.between->getTerminator())->getCondition());
    if (!walk || limit == nullptr || entered == nullptr)
        return false;
    using Compare = llvm::CmpInst;
    if (!walk->step.abs().isPowerOf2() ||
        !(walk->step.isNonNegative()
              ? llvm::is_contained({Compare::ICMP_NE, Compare::ICMP_ULT, Compare::ICMP_SLT}, condition.predicate)
              : llvm::is_contained({Compare::ICMP_NE, Compare::ICMP_UGT, Compare::ICMP_SGT}, condition.predicate)))
        return false;
    llvm::Value *number = walk_at_round_end(*walk, condition.number->getType());
    if (number == nullptr)
        return false;
    builder_.SetInsertPoint(pair_.fork->getTerminator());
    limit = builder_.CreateFreeze(limit);
    enters_main_ = leads_to(pair_.between, pair_.main_before, entered);
    llvm::Value *begin = expanded(walk->begin, condition.number->getType());
    is_usual_ = is_usual(condition, shifted(begin, -walk->step * copies_), limit, walk->step);
    auto *branch = llvm::cast<llvm::BranchInst>(loop_->getTerminator());
    builder_.SetInsertPoint(branch);
    branch->setCondition(builder_.CreateICmp(condition.predicate, number, limit));
    branch->setSuccessor(0, loop_);
    branch->setSuccessor(1, end_);
    branch->setMetadata(llvm::LLVMContext::MD_prof, nullptr);
    return true;
}

/// Emits the tests of where the main loop begins behind the first.
bool OneLoop::emit_tests()
{
    auto *fork = llvm::cast<llvm::BranchInst>(pair_.fork->getTerminator());
    builder_.SetInsertPoint(fork);
    llvm::Value *skips_first = leads_to(pair_.fork, pair_.between, fork->getCondition());
    for (const llvm::SCEV *condition : match_.conditions()) {
        llvm::Value *number = expanded(condition, condition->getType());
        if (number == nullptr)
            return false;
        is_usual_ = builder_.CreateAnd(is_usual_, builder_.CreateOr(skips_first, builder_.CreateIsNull(number)));
    }
    is_usual_ = builder_.CreateFreeze(is_usual_);
    return true;
}

/// Emits a number at the fork; null if it is not known there.
llvm::Value *OneLoop::expanded(const llvm::SCEV *number, llvm::Type *type)
{
    llvm::SCEVExpander expander(knowledge_.evolution, layout_, "number");
    auto *fork = pair_.fork->getTerminator();
    if (!expander.isSafeToExpandAt(number, fork))
        return nullptr;
    llvm::Value *value = expander.expandCodeFor(number, type, fork);
    for (llvm::Instruction *made : expander.getAllInsertedInstructions())
        made_.push_back(made);
    return value;
}

/// Emits the test whether rounds from `begin`, in which the condition never holds too late, are those of both loops.
llvm::Value *OneLoop::is_usual(const Condition &condition, llvm::Value *begin, llvm::Value *limit,
                               const llvm::APInt &step)
{
    llvm::Value *from = number(begin), *to = number(limit);
    llvm::Value *way = step.isNonNegative() ? builder_.CreateSub(to, from) : builder_.CreateSub(from, to);
    llvm::Value *all = builder_.CreateLShr(way, step.abs().logBase2());
    llvm::Value *first = first_rounds();
    llvm::Type *wider = all->getType()->getIntegerBitWidth() > first->getType()->getIntegerBitWidth()
                            ? all->getType()
                            : first->getType();
    all = builder_.CreateZExt(all, wider);
    first = builder_.CreateZExt(first, wider);
    llvm::Value *main = builder_.CreateSub(all, first);
    const auto is_multiple = [&](llvm::Value *value, const llvm::APInt &of) {
        return builder_.CreateIsNull(builder_.CreateAnd(value, builder_.getInt(of - 1)));
    };
    llvm::Value *result = builder_.CreateICmp(condition.predicate, begin, limit);
    for (llvm::Value *also :
         {is_multiple(way, step.abs()), is_multiple(main, llvm::APInt(wider->getIntegerBitWidth(), copies_)),
          builder_.CreateICmpULE(first, all), builder_.CreateICmpEQ(enters_main_, builder_.CreateIsNotNull(main))})
        result = builder_.CreateAnd(result, also);
    return result;
}

/// Number of rounds of the first loop, none if it is skipped.
llvm::Value *OneLoop::first_rounds()
{
    llvm::Value *rounds = expanded(rounds_, rounds_->getType());
    llvm::Value *condition = llvm::cast<llvm::BranchInst>(pair_.fork->getTerminator())->getCondition();
    return builder_.CreateSelect(leads_to(pair_.fork, pair_.before, condition), rounds,
                                 llvm::ConstantInt::get(rounds->getType(), 0));
}

/// Emits the values that threads have behind the loop.
bool OneLoop::emit_results()
{
    for (llvm::PHINode &phi : pair_.behind->phis()) {
        builder_.SetInsertPoint(end_->getTerminator());
        llvm::Value *first = behind_first(phi.getIncomingValueForBlock(pair_.between));
        llvm::Value *main = first == nullptr ? nullptr : behind_main(phi.getIncomingValueForBlock(pair_.main_end));
        if (main == nullptr)
            return false;
        results_.push_back(first == main ? first : builder_.CreateSelect(enters_main_, main, first));
    }
    return true;
}

/// Makes the way into the loop, and out of it.
void OneLoop::connect()
{
    llvm::BasicBlock *apart = llvm::SplitBlock(pair_.fork, pair_.fork->getTerminator());
    apart->setName("apart");
    llvm::ReplaceInstWithInst(pair_.fork->getTerminator(), llvm::BranchInst::Create(before_, apart, is_usual_));
    pair_.fork->getTerminator()->setMetadata(llvm::LLVMContext::MD_prof,
                                             llvm::MDBuilder(apart->getContext()).createLikelyBranchWeights());
    llvm::ReplaceInstWithInst(end_->getTerminator(), llvm::BranchInst::Create(pair_.behind));
    size_t result = 0;
    for (llvm::PHINode &phi : pair_.behind->phis())
        phi.addIncoming(results_[result++], end_);
}

void OneLoop::undo()
{
    for (llvm::BasicBlock *block : {before_, loop_, end_})
        block->dropAllReferences();
    for (llvm::BasicBlock *block : {before_, loop_, end_}) {
        llvm::erase_if(made_, [&](const llvm::Instruction *made) { return made->getParent() == block; });
        block->eraseFromParent();
    }
    for (llvm::Instruction *made : made_)
        made->dropAllReferences();
    for (llvm::Instruction *made : made_)
        made->eraseFromParent();
}

llvm::Value *OneLoop::shifted(llvm::Value *value, const llvm::APInt &by)
{
    if (by.isZero())
        return value;
    return value->getType()->isPointerTy() ? builder_.CreatePtrAdd(value, builder_.getInt(by))
                                           : builder_.CreateAdd(value, builder_.getInt(by));
}

/// A number, or an address as one.
llvm::Value *OneLoop::number(llvm::Value *value)
{
    return value->getType()->isPointerTy() ? builder_.CreatePtrToInt(value, layout_.getIntPtrType(value->getType()))
                                           : value;
}

/// The condition of a block's branch, as that it leads to the target.
llvm::Value *OneLoop::leads_to(const llvm::BasicBlock *block, const llvm::BasicBlock *target, llvm::Value *condition)
{
    return block->getTerminator()->getSuccessor(0) == target ? condition : builder_.CreateNot(condition);
}

/// The value computed once more, with other operands; null if it has effects, or one of these is null.
llvm::Value *OneLoop::copy(llvm::Value *value, llvm::function_ref<llvm::Value *(llvm::Value *)> operand)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || llvm::isa<llvm::PHINode>(instruction) || instruction->mayReadOrWriteMemory() ||
        !llvm::isSafeToSpeculativelyExecute(instruction))
        return nullptr;
    llvm::SmallVector<llvm::Value *, 4> operands;
    for (llvm::Value *one : instruction->operands())
        if (operands.emplace_back(operand(one)) == nullptr)
            return nullptr;
    llvm::Instruction *made = instruction->clone();
    made->dropPoisonGeneratingFlags(); // other threads may compute it now, too
    for (unsigned i = 0; i < operands.size(); i++)
        made->setOperand(i, operands[i]);
    return builder_.Insert(made);
}

/// A value that does not depend on the loops, at the fork; null if it does.
llvm::Value *OneLoop::before_loops(llvm::Value *value)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || knowledge_.dominators.dominates(instruction, pair_.fork->getTerminator()))
        return value;
    if (!llvm::is_contained({pair_.before, pair_.between, pair_.main_before}, instruction->getParent()))
        return nullptr;
    if (const auto known = before_loops_.find(value); known != before_loops_.end())
        return known->second;
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(pair_.fork->getTerminator());
    llvm::Value *result = copy(value, [&](llvm::Value *operand) { return before_loops(operand); });
    before_loops_[value] = result;
    return result;
}

/// What the main loop's value is at the end of a round, in the new loop's last round that belongs to it.
llvm::Value *OneLoop::at_round_end(llvm::Value *value)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || instruction->getParent() != pair_.main)
        return before_loops(value);
    if (const auto known = at_round_end_.find(value); known != at_round_end_.end())
        return known->second;
    llvm::Value *result = nullptr;
    if (llvm::Value *matched = match_.last_copy_of(*instruction))
        result = values_[matched];
    if (result == nullptr)
        if (const auto walk = match_.through_all(value))
            result = walk_at_round_end(*walk, value->getType());
    if (result == nullptr)
        result = copy(value, [&](llvm::Value *operand) { return at_round_end(operand); });
    at_round_end_[value] = result;
    return result;
}

/// A number of the main loop at the end of its rounds: one that the first loop has, or else a new one.
llvm::Value *OneLoop::walk_at_round_end(const Walk &walk, llvm::Type *type)
{
    llvm::ScalarEvolution &evolution = knowledge_.evolution;
    const llvm::SCEV *begin = evolution.getAddExpr(walk.begin, evolution.getConstant(-walk.step * (copies_ - 1)));
    for (llvm::Instruction &instruction : *pair_.first)
        if (instruction.getType() == type)
            if (const auto own = match_.in_first(&instruction);
                own && own->step == walk.step && evolution.getMinusSCEV(own->begin, begin)->isZero())
                return values_[&instruction];
    llvm::Value *first = expanded(begin, type);
    if (first == nullptr)
        return nullptr;
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(loop_, loop_->begin());
    llvm::PHINode *made = builder_.CreatePHI(type, 2);
    builder_.SetInsertPoint(loop_->getTerminator());
    made->addIncoming(first, before_);
    made->addIncoming(shifted(made, walk.step), loop_);
    return made;
}

/// A value that `behind` gets from `between`, for threads that come from the first loop.
llvm::Value *OneLoop::behind_first(llvm::Value *value)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction != nullptr && instruction->getParent() == pair_.first)
        return values_[value];
    if (instruction == nullptr || !llvm::is_contained({pair_.between, pair_.first_end}, instruction->getParent()))
        return before_loops(value);
    if (joined(*instruction) != nullptr)
        return behind_first(instruction->getOperand(0));
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(instruction))
        return behind_first(
            phi->getIncomingValueForBlock(instruction->getParent() == pair_.between ? pair_.first_end : pair_.first));
    return copy(value, [&](llvm::Value *operand) { return behind_first(operand); });
}

/// A value that `behind` gets from the main loop's end.
llvm::Value *OneLoop::behind_main(llvm::Value *value)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || instruction->getParent() != pair_.main_end)
        return at_round_end(value);
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(instruction))
        return behind_main(phi->getIncomingValueForBlock(pair_.main));
    return copy(value, [&](llvm::Value *operand) { return behind_main(operand); });
}

/// Makes the loop for a pair; false if the loops do not belong together.
bool make_one(llvm::Function &function, const UnrolledPair &pair)
{
    const WaysApart apart(pair);
    Knowledge knowledge(function);
    UnrolledPair known = pair;
    known.loop = knowledge.loops.getLoopFor(pair.first);
    for (unsigned copies : COPIES) {
        RoundMatch match(known, knowledge.evolution, copies);
        if (match.prove() && OneLoop(knowledge, known, match, copies).run())
            return true;
    }
    return false;
}

} // namespace

void reroll(llvm::Function &function, const std::vector<llvm::BasicBlock *> &firsts)
{
    for (llvm::BasicBlock *header : firsts) {
        llvm::DominatorTree dominators(function);
        const llvm::LoopInfo loops(dominators);
        if (const auto pair = UnrolledPair::of(*loops.getLoopFor(header), loops))
            make_one(function, *pair);
    }
}

} // namespace vgc
