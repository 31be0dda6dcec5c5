// The proof that two loops are one that was unrolled: a value of the first loop is followed through each copy of its
// code in the main loop, from the stores and the values that rounds hand on back to what they are computed from.
//
// Numbers that grow by a constant per round (indices, addresses) are compared by their begin and step, since the main
// loop has `i + 1`, `i + 2` and `i + 3` where the first has `i`. All other values that rounds hand on (sums) are in
// each copy what the copy before has made of them. Whatever cannot be proven is no match.
#include "unrolled.h"

#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Operator.h"

namespace vgc
{
namespace
{

const unsigned MAX_DEPTH = 12;
const size_t MAX_CONDITIONS = 4;
const unsigned MAX_EFFORT = 20000; // comparisons of two values

/// The single block that the block leads to, null if there are several.
llvm::BasicBlock *only_target(const llvm::BasicBlock *block)
{
    return block == nullptr ? nullptr : const_cast<llvm::BasicBlock *>(block->getSingleSuccessor());
}

/// The target of a branch that is not `one`; null if it has not exactly these two.
llvm::BasicBlock *other_target(const llvm::BasicBlock *block, const llvm::BasicBlock *one)
{
    const auto *branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
    if (branch == nullptr || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1))
        return nullptr;
    return branch->getSuccessor(0) == one   ? branch->getSuccessor(1)
           : branch->getSuccessor(1) == one ? branch->getSuccessor(0)
                                            : nullptr;
}

/// The loop of one block that the block leads into, and nowhere else.
const llvm::Loop *loop_behind(const llvm::BasicBlock *block, const llvm::LoopInfo &loops)
{
    const llvm::BasicBlock *header = only_target(block);
    const llvm::Loop *loop = header == nullptr ? nullptr : loops.getLoopFor(header);
    return loop != nullptr && loop->getHeader() == header && loop->getNumBlocks() == 1 &&
                   loop->getLoopPreheader() == block
               ? loop
               : nullptr;
}

/// Bits of a constant number; null for other values.
const llvm::Constant *bits(const llvm::Value *value, const llvm::DataLayout &layout)
{
    auto *constant = llvm::dyn_cast<llvm::Constant>(const_cast<llvm::Value *>(value));
    if (!llvm::isa_and_nonnull<llvm::ConstantInt, llvm::ConstantFP>(constant))
        return nullptr;
    auto *type = llvm::IntegerType::get(constant->getContext(), constant->getType()->getPrimitiveSizeInBits());
    return llvm::ConstantFoldCastOperand(llvm::Instruction::BitCast, constant, type, layout);
}

llvm::Value *without_casts(llvm::Value *value)
{
    while (auto *cast = llvm::dyn_cast<llvm::BitCastInst>(value))
        value = cast->getOperand(0);
    return value;
}

bool has_same_metadata(const llvm::Instruction &one, const llvm::Instruction &other)
{
    llvm::SmallVector<std::pair<unsigned, llvm::MDNode *>, 4> first, second;
    one.getAllMetadataOtherThanDebugLoc(first);
    other.getAllMetadataOtherThanDebugLoc(second);
    return first == second;
}

/// True for instructions that may be matched: plain accesses, and what computes values.
bool is_plain(const llvm::Instruction &instruction)
{
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        return load->isSimple();
    if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
        return store->isSimple();
    if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call != nullptr && call->isConvergent())
        return false;
    return !instruction.mayReadOrWriteMemory() && !instruction.mayHaveSideEffects();
}

} // namespace

std::optional<UnrolledPair> UnrolledPair::of(const llvm::Loop &first, const llvm::LoopInfo &loops)
{
    UnrolledPair pair{};
    pair.loop = &first;
    pair.first = first.getHeader();
    pair.before = first.getLoopPreheader();
    pair.first_end = other_target(pair.first, pair.first);
    pair.between = only_target(pair.first_end);
    pair.fork = pair.before == nullptr ? nullptr : pair.before->getSinglePredecessor();
    if (loop_behind(pair.before, loops) != &first || pair.first_end == nullptr ||
        pair.first_end->getSinglePredecessor() != pair.first || pair.between == nullptr || pair.fork == nullptr ||
        other_target(pair.fork, pair.before) != pair.between || !pair.between->hasNPredecessors(2))
        return std::nullopt;
    for (llvm::BasicBlock *next : llvm::successors(pair.between))
        if (next->getSinglePredecessor() == pair.between && loop_behind(next, loops) != nullptr)
            pair.main_before = next;
    pair.main = only_target(pair.main_before);
    pair.behind = pair.main == nullptr ? nullptr : other_target(pair.between, pair.main_before);
    pair.main_end = pair.main == nullptr ? nullptr : other_target(pair.main, pair.main);
    if (pair.behind == nullptr || pair.main_end == nullptr || pair.main_end->getSinglePredecessor() != pair.main ||
        only_target(pair.main_end) != pair.behind)
        return std::nullopt;
    return pair;
}

WaysApart::WaysApart(const UnrolledPair &pair)
{
    llvm::Instruction *behind_phis = &*pair.between->getFirstNonPHIIt();
    for (llvm::PHINode &phi : pair.between->phis()) {
        auto *opaque = new llvm::FreezeInst(&phi, "", behind_phis->getIterator());
        phi.replaceUsesWithIf(opaque, [&](const llvm::Use &use) { return use.getUser() != opaque; });
        opaque_.push_back(opaque);
    }
}

WaysApart::~WaysApart()
{
    for (llvm::Instruction *opaque : opaque_) {
        opaque->replaceAllUsesWith(opaque->getOperand(0));
        opaque->eraseFromParent();
    }
}

const llvm::PHINode *joined(const llvm::Instruction &instruction)
{
    return llvm::isa<llvm::FreezeInst>(instruction) ? llvm::dyn_cast<llvm::PHINode>(instruction.getOperand(0))
                                                    : nullptr;
}

RoundMatch::RoundMatch(const UnrolledPair &pair, llvm::ScalarEvolution &evolution, unsigned copies)
    : pair_(pair), evolution_(evolution), layout_(pair.fork->getDataLayout()), copies_(copies)
{
}

bool RoundMatch::prove()
{
    for (llvm::BasicBlock *block : {pair_.first, pair_.main}) {
        unsigned stores = 0;
        for (llvm::Instruction &instruction : *block) {
            if (!instruction.isTerminator() && !is_plain(instruction))
                return false;
            stores_before_[&instruction] = stores;
            if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
                (block == pair_.first ? stores_ : main_stores_).push_back(store);
                stores++;
            }
        }
    }
    if (!pair_sums() || !match_stores())
        return false;
    for (auto [phi, main_phi] : sums_)
        if (!match(phi->getIncomingValueForBlock(pair_.first), main_phi->getIncomingValueForBlock(pair_.main),
                   copies_ - 1))
            return false;
    return llvm::all_of(*pair_.first, [&](const llvm::Instruction &one) { return has_all_of(one); });
}

/// True unless the first loop's instruction may only run where the code does, and a copy of it was not found.
bool RoundMatch::has_all_of(const llvm::Instruction &value) const
{
    if (value.isTerminator() || llvm::isa<llvm::PHINode, llvm::StoreInst>(value) ||
        llvm::isSafeToSpeculativelyExecute(&value))
        return true;
    for (unsigned copy = 0; copy < copies_; copy++)
        if (!places_.contains({&value, copy}))
            return false;
    return true;
}

/// True for a phi that only has a constant added per round.
bool RoundMatch::is_walking_phi(const llvm::PHINode &phi) const
{
    const auto *next = llvm::dyn_cast<llvm::Instruction>(phi.getIncomingValueForBlock(phi.getParent()));
    return next != nullptr && next->getNumOperands() == 2 && next->getOperand(0) == &phi &&
           llvm::isa<llvm::ConstantInt>(next->getOperand(1)) &&
           (next->getOpcode() == llvm::Instruction::Add ||
            (llvm::isa<llvm::GetElementPtrInst>(next) &&
             layout_.getIndexTypeSizeInBits(phi.getType()) == next->getOperand(1)->getType()->getIntegerBitWidth()));
}

/// True if the first loop's value is a sum of its walking phis and values from outside, all in one width.
bool RoundMatch::is_linear(const llvm::Value *value, unsigned depth) const
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || instruction->getParent() != pair_.first)
        return true;
    if (depth == MAX_DEPTH)
        return false;
    const auto of = [&](const llvm::Value *operand) { return is_linear(operand, depth + 1); };
    if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(instruction))
        return is_walking_phi(*phi);
    switch (instruction->getOpcode()) {
    case llvm::Instruction::Add:
    case llvm::Instruction::Sub:
        return llvm::all_of(instruction->operands(), of);
    case llvm::Instruction::Mul:
    case llvm::Instruction::Shl:
        return llvm::isa<llvm::ConstantInt>(instruction->getOperand(1)) && of(instruction->getOperand(0));
    case llvm::Instruction::GetElementPtr:
        return llvm::all_of(instruction->operands(), of) &&
               llvm::all_of(llvm::drop_begin(instruction->operands()), [&](const llvm::Value *index) {
                   return llvm::isa<llvm::ConstantInt>(index) ||
                          index->getType()->getIntegerBitWidth() ==
                              layout_.getIndexTypeSizeInBits(instruction->getType());
               });
    default:
        return false;
    }
}

std::optional<Walk> RoundMatch::walk(llvm::Value *value, const llvm::BasicBlock *block)
{
    if (!evolution_.isSCEVable(value->getType()))
        return std::nullopt;
    const auto *number = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(value));
    if (number == nullptr || !number->isAffine() || number->getLoop()->getHeader() != block)
        return std::nullopt;
    const auto *step = llvm::dyn_cast<llvm::SCEVConstant>(number->getStepRecurrence(evolution_));
    return step == nullptr ? std::nullopt : std::optional(Walk{number->getStart(), step->getAPInt()});
}

std::optional<Walk> RoundMatch::in_first(llvm::Value *value)
{
    return is_linear(value) ? walk(value, pair_.first) : std::nullopt;
}

std::optional<Walk> RoundMatch::through_all(llvm::Value *value)
{
    const auto main = walk(value, pair_.main);
    if (!main || main->step.srem(copies_) != 0)
        return std::nullopt;
    const llvm::APInt step = main->step.sdiv(llvm::APInt(main->step.getBitWidth(), copies_));
    const llvm::SCEV *begin = on_way(main->begin, pair_.fork);
    const llvm::SCEV *again = evolution_.getBackedgeTakenCount(pair_.loop);
    if (llvm::isa<llvm::SCEVCouldNotCompute>(again))
        return std::nullopt;
    llvm::Type *type = evolution_.getEffectiveSCEVType(begin->getType());
    const llvm::SCEV *rounds = evolution_.getTruncateOrZeroExtend(
        evolution_.getTripCountFromExitCount(again, llvm::Type::getInt64Ty(type->getContext()), pair_.loop), type);
    const llvm::SCEV *run = evolution_.getMulExpr(rounds, evolution_.getConstant(step));
    const llvm::SCEV *off =
        evolution_.getMinusSCEV(on_way(main->begin, pair_.first_end), evolution_.getAddExpr(begin, run));
    return must_be_zero(off) ? std::optional(Walk{begin, step}) : std::nullopt;
}

/// Notes what a test before the loops has to find; false if it is known not to be so.
bool RoundMatch::must_be_zero(const llvm::SCEV *number)
{
    if (llvm::isa<llvm::SCEVCouldNotCompute>(number) || evolution_.isKnownNonZero(number))
        return false;
    if (!number->isZero() && !llvm::is_contained(conditions_, number))
        conditions_.push_back(number);
    return conditions_.size() <= MAX_CONDITIONS;
}

/// A number as it is outside of both loops, but inside of those around them.
const llvm::SCEV *RoundMatch::behind(const llvm::SCEV *number)
{
    return evolution_.getSCEVAtScope(number, pair_.loop->getParentLoop());
}

/// A number between the loops, for threads that come from `from`.
const llvm::SCEV *RoundMatch::on_way(const llvm::SCEV *number, llvm::BasicBlock *from)
{
    llvm::ValueToSCEVMapTy known;
    for (llvm::Instruction &instruction : *pair_.between)
        if (const llvm::PHINode *phi = joined(instruction); phi != nullptr && evolution_.isSCEVable(phi->getType()))
            known[&instruction] = behind(evolution_.getSCEV(phi->getIncomingValueForBlock(from)));
    return llvm::SCEVParameterRewriter::rewrite(behind(number), evolution_, known);
}

/// A value between the loops, for threads that come from `from`, without casts that keep its bits.
llvm::Value *RoundMatch::on_way(llvm::Value *value, llvm::BasicBlock *from) const
{
    for (;;) {
        value = without_casts(value);
        if (auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
            instruction != nullptr && instruction->getParent() == pair_.between && joined(*instruction) != nullptr)
            value = instruction->getOperand(0);
        auto *phi = llvm::dyn_cast<llvm::PHINode>(value);
        if (phi == nullptr || (phi->getParent() != pair_.between && phi->getParent() != pair_.first_end))
            return value;
        value = phi->getIncomingValueForBlock(phi->getParent() == pair_.between ? from : pair_.first);
    }
}

/// True if the value is defined (not poison) wherever the number is that it takes the place of, with all that it is
/// computed from outside of the first loop.
bool RoundMatch::stands_for(llvm::Value *value, const llvm::SCEV *number)
{
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr)
        return true;
    if (instruction->getParent() != pair_.first) {
        llvm::SmallVector<llvm::Instruction *, 4> would_lose_flags;
        return evolution_.canReuseInstruction(number, instruction, would_lose_flags) && would_lose_flags.empty();
    }
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(instruction))
        return stands_for(phi->getIncomingValueForBlock(pair_.before), number);
    return llvm::all_of(instruction->operands(), [&](llvm::Value *operand) { return stands_for(operand, number); });
}

/// Finds for each value that the main loop's rounds hand on the one of the first loop that it begins with.
bool RoundMatch::pair_sums()
{
    for (llvm::PHINode &main_phi : pair_.main->phis()) {
        if (walk(&main_phi, pair_.main))
            continue;
        const auto found = llvm::find_if(
            pair_.first->phis(), [&](llvm::PHINode &phi) { return !is_walking_phi(phi) && begins_as(phi, main_phi); });
        if (found == pair_.first->phis().end())
            return false;
        sums_.push_back({&*found, &main_phi});
    }
    return true;
}

bool RoundMatch::begins_as(llvm::PHINode &phi, llvm::PHINode &main_phi) const
{
    if (phi.getType() != main_phi.getType())
        return false;
    llvm::Value *begin = main_phi.getIncomingValueForBlock(pair_.main_before);
    llvm::Value *skipped = on_way(begin, pair_.fork);
    llvm::Value *first = without_casts(phi.getIncomingValueForBlock(pair_.before));
    const llvm::Constant *number = bits(first, layout_);
    return on_way(begin, pair_.first_end) == without_casts(phi.getIncomingValueForBlock(pair_.first)) &&
           (skipped == first || (number != nullptr && number == bits(skipped, layout_)));
}

bool RoundMatch::match_stores()
{
    if (main_stores_.size() != copies_ * stores_.size())
        return false;
    for (size_t i = 0; i < main_stores_.size(); i++)
        if (!match_operation(*stores_[i % stores_.size()], *main_stores_[i], unsigned(i / stores_.size())))
            return false;
    return true;
}

/// True if the first loop's value is the main loop's other one, in the copy with that number.
bool RoundMatch::match(llvm::Value *value, llvm::Value *other, unsigned copy)
{
    if (value->getType() != other->getType() || effort_++ > MAX_EFFORT)
        return false;
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || instruction->getParent() != pair_.first)
        return match_outside(value, other);
    if (match_walk(value, other, copy))
        return true;
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(value)) {
        if (copy > 0)
            return match(phi->getIncomingValueForBlock(pair_.first), other, copy - 1);
        return llvm::is_contained(sums_, std::pair{phi, llvm::dyn_cast<llvm::PHINode>(other)});
    }
    auto *operation = llvm::dyn_cast<llvm::Instruction>(other);
    return operation != nullptr && operation->getParent() == pair_.main &&
           match_operation(*instruction, *operation, copy);
}

bool RoundMatch::match_outside(llvm::Value *value, llvm::Value *other)
{
    if (value == other)
        return true;
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(other);
    if ((instruction != nullptr && instruction->getParent() == pair_.main) || !evolution_.isSCEVable(value->getType()))
        return false;
    const llvm::SCEV *number = behind(evolution_.getSCEV(other));
    return behind(evolution_.getSCEV(value)) == number && stands_for(value, number);
}

/// True if both are numbers that grow evenly, and the main loop's goes on where the first loop's ends.
bool RoundMatch::match_walk(llvm::Value *value, llvm::Value *other, unsigned copy)
{
    const auto first = in_first(value), main = walk(other, pair_.main);
    if (!first || !main || main->step != first->step * copies_)
        return false;
    const llvm::SCEV *begin = on_way(main->begin, pair_.fork);
    const llvm::SCEV *before = evolution_.getConstant(first->step * copy);
    const llvm::SCEV *end =
        behind(llvm::cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(value))->getPostIncExpr(evolution_));
    const llvm::SCEV *skipped = evolution_.getMinusSCEV(begin, evolution_.getAddExpr(first->begin, before));
    const llvm::SCEV *run =
        evolution_.getMinusSCEV(on_way(main->begin, pair_.first_end), evolution_.getAddExpr(end, before));
    return skipped->isZero() && stands_for(value, begin) && must_be_zero(run);
}

bool RoundMatch::match_operation(llvm::Instruction &value, llvm::Instruction &other, unsigned copy)
{
    const auto [place, is_new] = places_.try_emplace({&value, copy}, matched_.size());
    if (!is_new)
        return matched_[place->second].other == &other;
    const size_t own = matched_.size();
    matched_.push_back({&value, copy, &other});
    const bool is_same =
        value.isSameOperationAs(&other) && has_same_metadata(value, other) &&
        (!value.mayReadFromMemory() || stores_before_[&other] == copy * stores_.size() + stores_before_[&value]);
    if (is_same && match_operands(value, other, copy, false))
        return true;
    forget_from(own + 1);
    if (is_same && value.isCommutative() && match_operands(value, other, copy, true))
        return true;
    forget_from(own);
    return false;
}

bool RoundMatch::match_operands(llvm::Instruction &value, llvm::Instruction &other, unsigned copy, bool swapped)
{
    for (unsigned i = 0; i < value.getNumOperands(); i++)
        if (!match(value.getOperand(i), other.getOperand(swapped && i < 2 ? 1 - i : i), copy))
            return false;
    return true;
}

/// Takes back what was matched for a match that failed.
void RoundMatch::forget_from(size_t place)
{
    for (; matched_.size() > place; matched_.pop_back())
        places_.erase({matched_.back().value, matched_.back().copy});
}

llvm::Instruction *RoundMatch::last_copy_of(const llvm::Instruction &value) const
{
    for (const Matched &one : matched_)
        if (one.other == &value && one.copy == copies_ - 1)
            return one.value;
    return nullptr;
}

void RoundMatch::relax_flags(llvm::ValueToValueMapTy &made)
{
    const auto copy_of = [&](llvm::Instruction &one) {
        return llvm::cast<llvm::Instruction>(static_cast<llvm::Value *>(made[&one]));
    };
    for (const Matched &one : matched_)
        copy_of(*one.value)->andIRFlags(one.other);
    for (llvm::Instruction &instruction : *pair_.first)
        if (!instruction.isTerminator() && is_linear(&instruction))
            copy_of(instruction)->dropPoisonGeneratingFlags();
}

} // namespace vgc
