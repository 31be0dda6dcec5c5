// Results where C++ defines none and a GPU has one: divisions by zero, shifts by too much, conversions of not-a-number,
// variables that nothing was written to, constants that clang has folded such operations to. This is done before any
// optimisation, which takes such operations for impossible.
#include "compiler.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

namespace vgc
{
namespace
{

using llvm::BinaryOperator;
using llvm::Instruction;
using llvm::Value;

/// Replaces all uses of `old` but those in `expression`, which is computed from it.
void replace(Instruction &old, Value *expression, llvm::ArrayRef<const Value *> inside)
{
    old.replaceUsesWithIf(expression, [&](const llvm::Use &use) {
        return use.getUser() != expression && !llvm::is_contained(inside, use.getUser());
    });
}

/// Division by zero gives ones, and the least number divided by -1 itself; neither is a fault.
void define_division(BinaryOperator &division)
{
    const bool is_signed = division.getOpcode() == Instruction::SDiv || division.getOpcode() == Instruction::SRem;
    const bool is_rest = division.getOpcode() == Instruction::SRem || division.getOpcode() == Instruction::URem;
    Value *divisor = division.getOperand(1);
    llvm::Type *type = divisor->getType();
    const llvm::APInt *constant = nullptr;
    if (llvm::PatternMatch::match(divisor, llvm::PatternMatch::m_APInt(constant)) && !constant->isZero() &&
        !(is_signed && constant->isAllOnes()))
        return;
    llvm::IRBuilder<> before(&division), after(division.getNextNode());
    Value *one = llvm::ConstantInt::get(type, 1), *ones = llvm::Constant::getAllOnesValue(type);
    Value *zero = llvm::Constant::getNullValue(type);
    Value *by_zero = before.CreateICmpEQ(divisor, zero);
    Value *by_minus_one = is_signed ? before.CreateICmpEQ(divisor, ones) : nullptr;
    Value *special = is_signed ? before.CreateOr(by_zero, by_minus_one) : by_zero;
    division.setOperand(1, before.CreateSelect(special, one, divisor));
    division.dropPoisonGeneratingFlags();
    Value *result = &division;
    if (is_signed)
        result = after.CreateSelect(by_minus_one, is_rest ? zero : before.CreateNeg(division.getOperand(0)), result);
    Value *defined = after.CreateSelect(by_zero, ones, result);
    replace(division, defined, {result});
}

/// Shifts by the width or more leave zeroes, or copies of the sign.
void define_shift(BinaryOperator &shift)
{
    using namespace llvm::PatternMatch;
    Value *amount = shift.getOperand(1);
    llvm::Type *type = amount->getType();
    const unsigned width = type->getScalarSizeInBits();
    const llvm::APInt *bound = nullptr;
    if (match(amount, m_APInt(bound)) && bound->ult(width))
        return;
    if (match(amount, m_And(m_Value(), m_APInt(bound))) && bound->ult(width))
        return;
    llvm::IRBuilder<> before(&shift), after(shift.getNextNode());
    Value *fits = before.CreateICmpULT(amount, llvm::ConstantInt::get(type, width));
    if (shift.getOpcode() == Instruction::AShr) {
        shift.setOperand(1, before.CreateSelect(fits, amount, llvm::ConstantInt::get(type, width - 1)));
        return;
    }
    shift.dropPoisonGeneratingFlags();
    replace(shift, after.CreateSelect(fits, &shift, llvm::Constant::getNullValue(type)), {});
}

/// Not-a-number becomes the highest bit alone if the float or the integer has 64 bits, otherwise 0.
void define_conversion(llvm::IntrinsicInst &conversion)
{
    Value *from = conversion.getArgOperand(0);
    llvm::Type *to = conversion.getType();
    const unsigned width = to->getScalarSizeInBits();
    if (width < 32 || (width < 64 && !from->getType()->getScalarType()->isDoubleTy()))
        return;
    llvm::IRBuilder<> after(conversion.getNextNode());
    Value *highest = llvm::ConstantInt::get(to, llvm::APInt::getSignMask(width));
    replace(conversion, after.CreateSelect(after.CreateFCmpUNO(from, from), highest, &conversion), {});
}

/// Constants that C++ does not define, as 1 << 32, are zeroes. Clang leaves poison, and code that branches on it would
/// be dropped. The poison in which vectors and structures begin is overwritten.
void define_constants(Instruction &instruction)
{
    if (llvm::isa<llvm::ShuffleVectorInst>(instruction))
        return;
    const bool is_insertion = llvm::isa<llvm::InsertElementInst, llvm::InsertValueInst>(instruction);
    for (unsigned i = is_insertion ? 1 : 0; i < instruction.getNumOperands(); i++)
        if (Value *operand = instruction.getOperand(i); llvm::isa<llvm::PoisonValue>(operand))
            instruction.setOperand(i, llvm::Constant::getNullValue(operand->getType()));
}

/// Lets variables without a value be passed and returned, as lanes do that only receive in a shuffle. Clang says of all
/// parameters that they have one: code that comes to a call without it would be dropped.
void allow_unwritten(Instruction &instruction)
{
    auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call == nullptr)
        return;
    call->removeRetAttr(llvm::Attribute::NoUndef);
    for (unsigned i = 0; i < call->arg_size(); i++)
        call->removeParamAttr(i, llvm::Attribute::NoUndef);
}

void allow_unwritten(llvm::Function &function)
{
    function.removeRetAttr(llvm::Attribute::NoUndef);
    for (llvm::Argument &argument : function.args())
        argument.removeAttr(llvm::Attribute::NoUndef);
}

bool is_division(const Instruction &instruction)
{
    return instruction.isIntDivRem();
}

} // namespace

void define_results(llvm::Module &module)
{
    std::vector<Instruction *> found;
    for (llvm::Function &function : module) {
        allow_unwritten(function);
        for (Instruction &instruction : llvm::instructions(function)) {
            allow_unwritten(instruction);
            define_constants(instruction);
            if (is_division(instruction) || instruction.isShift() || llvm::isa<llvm::IntrinsicInst>(instruction))
                found.push_back(&instruction);
        }
    }
    for (Instruction *instruction : found) {
        if (auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(instruction)) {
            if (intrinsic->getIntrinsicID() == llvm::Intrinsic::fptosi_sat ||
                intrinsic->getIntrinsicID() == llvm::Intrinsic::fptoui_sat)
                define_conversion(*intrinsic);
        } else if (is_division(*instruction))
            define_division(*llvm::cast<BinaryOperator>(instruction));
        else
            define_shift(*llvm::cast<BinaryOperator>(instruction));
    }
}

} // namespace vgc
