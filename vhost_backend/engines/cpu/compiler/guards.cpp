// Hoisting of bounds checks like `if (i < n)`, which most kernels begin with and which all threads of nearly every row
// pass. The check is made once per row of threads; loop unswitching then makes a second loop without it, which accesses
// memory without masks and is two to three times as fast.
//
// A comparison qualifies if one side is the same for the whole row and the other grows by a constant from thread to
// thread. If the values first, first + 1, ..., last do not overflow and both ends pass the comparison, all values pass
// it; if neither does, none passes it. The latter makes a third loop, for the comparisons that a thread begins with
// only: it is empty as a rule, where accesses under masks of zeros, of memory that is not there, would take a thousand
// times as long.
//
// Indices are widened the same way: a[i] with an int i is consecutive only if i does not wrap within the row, which the
// optimiser cannot know. The address is computed from the row's first index, in 64 bits: a signed index that wraps
// between neighbours would jump across 4 GiB, which no array allows.
//
// Threads with several elements each, as Triton has them, compare each. A version of the loop for every comparison
// would be too much: rows whose threads pass all of them have a body of their own.
#include "guards.h"

#include "liveness.h"

#include <optional>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{
namespace
{

const unsigned MAX_DEPTH = 8;  // greatest depth of expressions that are analysed
const unsigned MIN_BITS = 32;  // smallest width of compared values: a row's length must fit
const size_t MANY = 4;         // comparisons with one bound: a version of the loop for each would be too much
const size_t MAX_TWICE = 2000; // instructions of a body that is copied
const unsigned MAX_SHIFT = 12, MAX_SCALE = 1 << MAX_SHIFT; // of an index, in an address

class RowGuards
{
  public:
    RowGuards(const ThreadRow &row, llvm::ArrayRef<llvm::BasicBlock *> body)
        : row_(row), order_(body), body_(body.begin(), body.end()), builder_(row.before)
    {
        llvm::Value *last_x = builder_.CreateSub(row.end_x, builder_.getInt32(1), "last.x");
        first_[row.x] = row.first_x;
        last_[row.x] = last_x;
        steps_ = builder_.CreateSub(last_x, row.first_x, "steps");
    }

    /// Makes comparisons constant true for rows whose threads all pass them, and those that threads begin with constant
    /// false for rows of which none does. Threads with several elements have many; `divide` is for those.
    void relax(llvm::ArrayRef<llvm::ICmpInst *> compares)
    {
        llvm::MapVector<std::pair<llvm::Value *, llvm::CmpInst::Predicate>, llvm::SmallVector<Guard, 2>> guards;
        for (llvm::ICmpInst *compare : compares)
            if (const std::optional<Guard> guard = guard_of(*compare))
                guards[{guard->bound, guard->predicate}].push_back(*guard);
        for (const auto &[key, group] : guards)
            for (const Guard &guard : group)
                if (group.size() >= MANY)
                    many_.push_back(guard);
                else if (guard.step == 1)
                    relax(guard);
    }

    /// Gives rows whose threads pass all of many comparisons a body of their own, without these: one condition of the
    /// loop, whatever their number.
    void divide()
    {
        llvm::BasicBlock *first = row_.x->getParent(), *entry = first->getSingleSuccessor();
        if (many_.empty() || entry == nullptr || !body_.contains(entry) || !may_divide())
            return;
        llvm::Value *all = builder_.getTrue();
        for (const Guard &guard : many_)
            all = builder_.CreateAnd(all, ends_of(guard).all);
        all = builder_.CreateFreeze(all);
        llvm::ValueToValueMapTy copies;
        llvm::SmallVector<llvm::BasicBlock *, 16> copied;
        for (llvm::BasicBlock *block : order_)
            if (block != first)
                copied.push_back(llvm::cast<llvm::BasicBlock>(
                    copies[block] = llvm::CloneBasicBlock(block, copies, ".all", first->getParent())));
        llvm::remapInstructionsInBlocks(copied, copies);
        for (llvm::BasicBlock *block : order_)
            for (llvm::BasicBlock *next : llvm::successors(block))
                if (block != first && !body_.contains(next))
                    for (llvm::PHINode &phi : next->phis())
                        phi.addIncoming(copy_of(copies, phi.getIncomingValueForBlock(block)),
                                        llvm::cast<llvm::BasicBlock>(copies[block]));
        llvm::BranchInst::Create(llvm::cast<llvm::BasicBlock>(copies[entry]), entry, all,
                                 first->getTerminator()->getIterator());
        first->getTerminator()->eraseFromParent();
        for (const Guard &guard : many_)
            copies[guard.compare]->replaceAllUsesWith(builder_.getTrue());
    }

    /// Makes the index of an address, extended from 32 bits, a sum of the first thread's and the distance from it.
    void widen(llvm::SExtInst &cast)
    {
        if (!cast.getType()->isIntegerTy(64) || !cast.getOperand(0)->getType()->isIntegerTy(32) || cast.use_empty() ||
            !is_of_addresses(cast, 0))
            return;
        const std::optional<int> step = growth(cast.getOperand(0), 0);
        if (!step || *step == 0)
            return;
        const auto distance = [&](llvm::IRBuilder<> &builder, llvm::Value *x) {
            return builder.CreateMul(builder.CreateZExt(x, cast.getType()),
                                     llvm::ConstantInt::getSigned(cast.getType(), *step));
        };
        llvm::Value *first = builder_.CreateSExt(at(first_, cast.getOperand(0)), cast.getType());
        llvm::Value *origin = builder_.CreateSub(first, distance(builder_, row_.first_x));
        llvm::IRBuilder<> here(&cast);
        cast.replaceAllUsesWith(here.CreateAdd(distance(here, row_.x), origin));
        cast.eraseFromParent();
    }

  private:
    using Copies = llvm::DenseMap<llvm::Value *, llvm::Value *>;

    bool is_in_loop(const llvm::Instruction *instruction) const
    {
        return instruction != nullptr && body_.contains(instruction->getParent());
    }

    /// True if the index is but for addresses, in elements or, as compilers to PTX have it, in bytes.
    static bool is_of_addresses(const llvm::Value &index, unsigned depth)
    {
        return depth < MAX_DEPTH &&
               llvm::all_of(
                   index.users(),
                   [&](const llvm::User *user) {
                       if (const auto *operation = llvm::dyn_cast<llvm::BinaryOperator>(user))
                           return (operation->getOpcode() == llvm::Instruction::Add || is_scaled(*operation)) &&
                                  is_of_addresses(*operation, depth + 1);
                       return llvm::isa<llvm::GetElementPtrInst>(user);
                   });
    }

    /// True for a number times a small constant.
    static bool is_scaled(const llvm::Instruction &operation)
    {
        const unsigned opcode = operation.getOpcode();
        return (opcode == llvm::Instruction::Shl || opcode == llvm::Instruction::Mul) && scale(operation) > 0;
    }

    /// The constant by which Shl or Mul multiplies; 0 if it is not known or large.
    static int scale(const llvm::Instruction &operation)
    {
        const auto *constant = llvm::dyn_cast<llvm::ConstantInt>(operation.getOperand(1));
        const bool shifts = operation.getOpcode() == llvm::Instruction::Shl;
        if (constant == nullptr || constant->getValue().ugt(shifts ? MAX_SHIFT : MAX_SCALE))
            return 0;
        return int(shifts ? 1ull << constant->getZExtValue() : constant->getZExtValue());
    }

    /// Difference of the value between neighbouring threads, overflow aside; none if it is not known.
    std::optional<int> growth(const llvm::Value *value, unsigned depth) const
    {
        if (value == row_.x)
            return 1;
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (!is_in_loop(instruction))
            return 0;
        if (depth == MAX_DEPTH)
            return std::nullopt;
        if (instruction->getType()->isIntegerTy() && instruction->getType()->getIntegerBitWidth() < MIN_BITS)
            return std::nullopt; // wraps within a row
        auto of = [&](unsigned operand) { return growth(instruction->getOperand(operand), depth + 1); };
        switch (instruction->getOpcode()) {
        case llvm::Instruction::ZExt:
        case llvm::Instruction::SExt:
        case llvm::Instruction::Trunc:
            return of(0);
        case llvm::Instruction::Add:
            return of(0) && of(1) ? std::optional(*of(0) + *of(1)) : std::nullopt;
        case llvm::Instruction::Sub:
            return of(0) && of(1) ? std::optional(*of(0) - *of(1)) : std::nullopt;
        case llvm::Instruction::Shl:
        case llvm::Instruction::Mul:
            if (const int factor = scale(*instruction); factor > 0) {
                const std::optional<int> step = of(0);
                return step && std::abs(*step) <= int(MAX_SCALE) ? std::optional(*step * factor) : std::nullopt;
            }
            [[fallthrough]];
        default:
            return is_pure(*instruction) &&
                           llvm::all_of(instruction->operands(),
                                        [&](const llvm::Value *operand) { return growth(operand, depth + 1) == 0; })
                       ? std::optional(0)
                       : std::nullopt;
        }
    }

    /// Value for the thread at one end of the row, computed before the row.
    llvm::Value *at(Copies &end, llvm::Value *value)
    {
        if (const auto found = end.find(value); found != end.end())
            return found->second;
        auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        if (!is_in_loop(instruction))
            return value;
        llvm::Instruction *copy = instruction->clone();
        for (llvm::Use &operand : copy->operands())
            operand.set(at(end, operand.get()));
        copy->dropPoisonGeneratingFlags(); // the original may be executed only behind another check
        builder_.Insert(copy);
        return end[value] = copy;
    }

    /// Comparison of a value that grows with one that is the same for the row.
    struct Guard {
        llvm::ICmpInst *compare;
        llvm::CmpInst::Predicate predicate; // with the growing value on the left
        llvm::Value *grows;
        llvm::Value *bound;
        int step; // from thread to thread
    };

    std::optional<Guard> guard_of(llvm::ICmpInst &compare) const
    {
        const llvm::Type *type = compare.getOperand(0)->getType();
        if (compare.isEquality() || !type->isIntegerTy() || type->getIntegerBitWidth() < MIN_BITS)
            return std::nullopt;
        for (unsigned side = 0; side < 2; side++) {
            const std::optional<int> step = growth(compare.getOperand(side), 0);
            if (step && *step > 0 && *step <= int(MAX_SCALE) && growth(compare.getOperand(1 - side), 0) == 0)
                return Guard{&compare, side == 0 ? compare.getPredicate() : compare.getSwappedPredicate(),
                             compare.getOperand(side), compare.getOperand(1 - side), *step};
        }
        return std::nullopt;
    }

    /// Facts of a row and a comparison: whether all threads pass it, and whether any may.
    struct Ends {
        llvm::Value *all;
        llvm::Value *some;
    };

    Ends ends_of(const Guard &guard)
    {
        llvm::Value *first = at(first_, guard.grows), *last = at(last_, guard.grows), *bound = at(first_, guard.bound);
        llvm::Value *distance = builder_.CreateZExt(steps_, first->getType());
        if (guard.step > 1)
            distance = builder_.CreateMul(distance, llvm::ConstantInt::get(first->getType(), guard.step));
        llvm::Value *by_steps = builder_.CreateICmpEQ(builder_.CreateSub(last, first), distance);
        const bool is_signed = llvm::CmpInst::isSigned(guard.predicate);
        llvm::Value *in_order =
            builder_.CreateICmp(is_signed ? llvm::CmpInst::ICMP_SLE : llvm::CmpInst::ICMP_ULE, first, last);
        llvm::Value *is_monotone = builder_.CreateAnd(by_steps, in_order);
        llvm::Value *first_passes = builder_.CreateICmp(guard.predicate, first, bound);
        llvm::Value *last_passes = builder_.CreateICmp(guard.predicate, last, bound);
        return {builder_.CreateAnd(is_monotone, builder_.CreateAnd(first_passes, last_passes)),
                builder_.CreateOr(builder_.CreateNot(is_monotone), builder_.CreateOr(first_passes, last_passes))};
    }

    void relax(const Guard &guard)
    {
        const Ends ends = ends_of(guard);
        llvm::Value *all = builder_.CreateFreeze(ends.all);
        llvm::IRBuilder<> after(guard.compare->getNextNode());
        llvm::Value *relaxed = after.CreateSelect(all, after.getTrue(), guard.compare, "passes");
        llvm::Value *used = relaxed;
        if (is_of_beginning(*guard.compare))
            used = after.CreateSelect(builder_.CreateFreeze(ends.some), relaxed, after.getFalse(), "passes");
        guard.compare->replaceUsesWithIf(used, [&](const llvm::Use &use) { return use.getUser() != relaxed; });
    }

    /// True if the body has no loop, which lanes.cpp may take apart, is not too large to have it twice, its values are
    /// used in it only, and the comparisons are in what is copied.
    bool may_divide() const
    {
        llvm::SmallVector<std::pair<const llvm::BasicBlock *, const llvm::BasicBlock *>, 4> backward;
        llvm::FindFunctionBackedges(*row_.x->getFunction(), backward);
        if (llvm::any_of(backward, [&](const auto &edge) { return body_.contains(edge.second); }))
            return false;
        size_t size = 0;
        for (const llvm::BasicBlock *block : order_) {
            if (block == row_.x->getParent())
                continue;
            size += block->size();
            for (const llvm::Instruction &instruction : *block)
                for (const llvm::User *user : instruction.users())
                    if (const auto *use = llvm::cast<llvm::Instruction>(user);
                        !body_.contains(use->getParent()) && !llvm::isa<llvm::PHINode>(use))
                        return false;
        }
        return size <= MAX_TWICE && llvm::none_of(many_, [&](const Guard &guard) {
                   return guard.compare->getParent() == row_.x->getParent();
               });
    }

    static llvm::Value *copy_of(const llvm::ValueToValueMapTy &copies, llvm::Value *value)
    {
        const auto found = copies.find(value);
        return found == copies.end() ? value : static_cast<llvm::Value *>(found->second);
    }

    /// True in blocks that each thread runs through before its first branch.
    bool is_of_beginning(const llvm::Instruction &instruction) const
    {
        const llvm::BasicBlock *block = row_.x->getParent();
        while (block != instruction.getParent() && block->getSingleSuccessor() != nullptr &&
               body_.contains(block->getSingleSuccessor()))
            block = block->getSingleSuccessor();
        return block == instruction.getParent();
    }

    const ThreadRow &row_;
    const llvm::ArrayRef<llvm::BasicBlock *> order_;
    const llvm::SmallPtrSet<llvm::BasicBlock *, 16> body_;
    llvm::IRBuilder<> builder_;
    Copies first_, last_;
    llvm::Value *steps_;
    llvm::SmallVector<Guard, 8> many_;
};

} // namespace

void hoist_guards(const ThreadRow &row, llvm::ArrayRef<llvm::BasicBlock *> body)
{
    llvm::SmallVector<llvm::ICmpInst *, 8> compares;
    for (llvm::BasicBlock *block : body)
        for (llvm::Instruction &instruction : *block)
            if (auto *compare = llvm::dyn_cast<llvm::ICmpInst>(&instruction))
                compares.push_back(compare);
    llvm::SmallVector<llvm::SExtInst *, 8> indices;
    for (llvm::BasicBlock *block : body)
        for (llvm::Instruction &instruction : *block)
            if (auto *cast = llvm::dyn_cast<llvm::SExtInst>(&instruction))
                indices.push_back(cast);
    RowGuards guards(row, body);
    guards.relax(compares);
    for (llvm::SExtInst *index : indices)
        guards.widen(*index);
    guards.divide();
}

} // namespace vgc
