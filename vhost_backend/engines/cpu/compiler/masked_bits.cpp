// Vectors that mix the bits of two others, such as copysign, where a condition chooses between the mixture and one of
// the two. LLVM makes one masked vpternlog of both, and if one operand is read from memory it may give that the truth
// table of another order of operands (llvm/llvm-project#157929, mended since). Here the condition moves to the operand
// that is not kept: mixed with itself, the kept one is the result wherever the condition does not hold.
#include "compiler.h"

#include <array>
#include <optional>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"

namespace vgc
{
namespace
{

using llvm::Constant;
using llvm::Value;
using namespace llvm::PatternMatch;

/// Two values and the bits that come from each; bits are of one of them only.
struct Mixture {
    std::array<Value *, 2> sources;
    std::array<Constant *, 2> masks;
};

/// The value before changes of its elements' type.
Value *without_casts(Value *value)
{
    Value *before = nullptr;
    while (match(value, m_BitCast(m_Value(before))) && before->getType()->isVectorTy() &&
           before->getType()->getScalarSizeInBits() == value->getType()->getScalarSizeInBits())
        value = before;
    return value;
}

std::optional<Mixture> mixture(Value *value)
{
    Value *first = nullptr, *second = nullptr;
    Constant *mask = nullptr, *rest = nullptr;
    if (match(value, m_Or(m_And(m_Value(first), m_ImmConstant(mask)), m_And(m_Value(second), m_ImmConstant(rest)))) &&
        rest == llvm::ConstantExpr::getNot(mask))
        return Mixture{{first, second}, {mask, rest}};
    if (!match(value, m_CopySign(m_Value(first), m_Value(second))))
        return std::nullopt;
    const unsigned bits = value->getType()->getScalarSizeInBits();
    llvm::Type *integers = value->getType()->getWithNewType(llvm::Type::getIntNTy(value->getContext(), bits));
    return Mixture{{first, second},
                   {Constant::getIntegerValue(integers, llvm::APInt::getSignedMaxValue(bits)),
                    Constant::getIntegerValue(integers, llvm::APInt::getSignMask(bits))}};
}

/// Moves the condition of a select if its arm `mixed` mixes the other one, `kept`; false if it does not.
bool move_condition(llvm::SelectInst &choice, Value *mixed, Value *kept)
{
    const std::optional<Mixture> found = mixture(without_casts(mixed));
    if (!found)
        return false;
    const auto is_kept = [&](Value *source) { return without_casts(source) == without_casts(kept); };
    const bool keeps_first = is_kept(found->sources[0]);
    if (!keeps_first && !is_kept(found->sources[1]))
        return false;
    llvm::IRBuilder<> b(&choice);
    llvm::Type *integers = found->masks[0]->getType();
    Value *same = b.CreateBitCast(found->sources[keeps_first ? 0 : 1], integers);
    Value *other = b.CreateBitCast(found->sources[keeps_first ? 1 : 0], integers);
    other = choice.getTrueValue() == mixed ? b.CreateSelect(choice.getCondition(), other, same)
                                           : b.CreateSelect(choice.getCondition(), same, other);
    Value *result = b.CreateOr(b.CreateAnd(same, found->masks[keeps_first ? 0 : 1]),
                               b.CreateAnd(other, found->masks[keeps_first ? 1 : 0]));
    choice.replaceAllUsesWith(b.CreateBitCast(result, choice.getType()));
    llvm::RecursivelyDeleteTriviallyDeadInstructions(&choice);
    return true;
}

} // namespace

void unmask_mixtures(llvm::Module &module)
{
    std::vector<llvm::WeakVH> choices; // null once deleted with another that used it
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (auto *choice = llvm::dyn_cast<llvm::SelectInst>(&instruction);
                choice != nullptr && choice->getCondition()->getType()->isVectorTy())
                choices.emplace_back(choice);
    for (llvm::WeakVH &choice : choices)
        if (auto *select = llvm::cast_or_null<llvm::SelectInst>(choice); select != nullptr)
            if (!move_condition(*select, select->getTrueValue(), select->getFalseValue()))
                move_condition(*select, select->getFalseValue(), select->getTrueValue());
}

} // namespace vgc
