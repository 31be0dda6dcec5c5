// Minimum and maximum of zeroes: a GPU takes -0 for less than +0, LLVM's minnum and maxnum leave the sign open. This is
// done after the simplification, when it is known which operands are constants or cannot be -0.
#include "compiler.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

namespace vgc
{
namespace
{

using llvm::CmpInst;
using llvm::Value;

bool is_least(const llvm::IntrinsicInst &call)
{
    return call.getIntrinsicID() == llvm::Intrinsic::minnum;
}

/// True if both operands may be zeroes, and one of them -0.
bool has_open_sign(const llvm::IntrinsicInst &call)
{
    if (call.hasNoSignedZeros())
        return false;
    const llvm::SimplifyQuery query(call.getModule()->getDataLayout(), &call);
    const bool is_open = !llvm::cannotBeNegativeZero(call.getArgOperand(0), 0, query) ||
                         !llvm::cannotBeNegativeZero(call.getArgOperand(1), 0, query);
    const llvm::APFloat *constant = nullptr;
    for (const llvm::Use &operand : call.args())
        if (llvm::PatternMatch::match(operand.get(), llvm::PatternMatch::m_APFloat(constant)))
            return is_open && constant->isZero();
    return is_open;
}

/// Minimum or maximum of a number, which may be NaN, and a zero: the number if it is beyond the zero.
Value *beyond_zero(llvm::IRBuilder<> &b, Value *number, Value *zero, bool is_negative, bool is_least)
{
    const bool takes_zeroes = is_least != is_negative; // the number is the zero that goes first, or has the same sign
    const CmpInst::Predicate below = takes_zeroes ? CmpInst::FCMP_OLE : CmpInst::FCMP_OLT;
    const CmpInst::Predicate above = takes_zeroes ? CmpInst::FCMP_OGE : CmpInst::FCMP_OGT;
    return b.CreateSelect(b.CreateFCmp(is_least ? below : above, number, zero), number, zero);
}

/// The bits of equal numbers differ in the sign of zeroes only.
Value *of_numbers(llvm::IRBuilder<> &b, llvm::IntrinsicInst &call)
{
    Value *left = call.getArgOperand(0), *right = call.getArgOperand(1);
    llvm::Type *type = call.getType(), *bits = type->getWithNewType(b.getIntNTy(type->getScalarSizeInBits()));
    Value *first = b.CreateBitCast(left, bits), *second = b.CreateBitCast(right, bits);
    Value *equal = is_least(call) ? b.CreateOr(first, second) : b.CreateAnd(first, second);
    return b.CreateSelect(b.CreateFCmpOEQ(left, right), b.CreateBitCast(equal, type), &call);
}

void order_zeroes(llvm::IntrinsicInst &call)
{
    llvm::IRBuilder<> after(call.getNextNode());
    Value *ordered = nullptr;
    const llvm::APFloat *zero = nullptr;
    for (unsigned i = 0; i < 2 && ordered == nullptr; i++)
        if (llvm::PatternMatch::match(call.getArgOperand(i), llvm::PatternMatch::m_APFloat(zero)))
            ordered = beyond_zero(after, call.getArgOperand(1 - i), call.getArgOperand(i), zero->isNegative(),
                                  is_least(call));
    if (ordered == nullptr)
        ordered = of_numbers(after, call);
    call.replaceUsesWithIf(ordered, [&](const llvm::Use &use) { return use.getUser() != ordered; });
}

} // namespace

void order_zeroes(llvm::Module &module)
{
    std::vector<llvm::IntrinsicInst *> found;
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
                call != nullptr && (is_least(*call) || call->getIntrinsicID() == llvm::Intrinsic::maxnum) &&
                has_open_sign(*call))
                found.push_back(call);
    for (llvm::IntrinsicInst *call : found)
        order_zeroes(*call);
}

} // namespace vgc
