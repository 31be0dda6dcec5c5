#include "rounding.h"

#include "llvm/IR/InlineAsm.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

llvm::Type *integer_of(Builder &b, Value *value)
{
    return b.getIntNTy(value->getType()->getScalarSizeInBits());
}

Value *zero_like(Value *value)
{
    return llvm::ConstantFP::get(value->getType(), 0.0);
}

Value *fused(Builder &b, Value *left, Value *right, Value *addend)
{
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {left->getType()}, {left, right, addend});
}

Value *is_infinite(Builder &b, Value *value)
{
    Value *size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
    return b.CreateFCmpOEQ(size, llvm::ConstantFP::getInfinity(value->getType()));
}

/// The next value up or down; not for the infinity or the zero on that side.
Value *step(Builder &b, Value *value, bool up)
{
    llvm::Type *integer = integer_of(b, value);
    Value *bits = b.CreateBitCast(value, integer), *one = llvm::ConstantInt::get(integer, 1);
    Value *away = b.CreateAdd(bits, one), *back = b.CreateSub(bits, one);
    Value *positive = b.CreateFCmpOGT(value, zero_like(value));
    Value *moved = up ? b.CreateSelect(positive, away, back) : b.CreateSelect(positive, back, away);
    Value *least = llvm::ConstantInt::get(integer, 1);
    if (!up)
        least = b.CreateOr(least, b.CreateShl(least, integer->getIntegerBitWidth() - 1));
    moved = b.CreateSelect(b.CreateFCmpOEQ(value, zero_like(value)), least, moved);
    return b.CreateBitCast(moved, value->getType());
}

/// The sign of what overflow cut off: an infinite result of finite operands is too large.
Value *missing_after_overflow(Builder &b, Value *result, Value *missing, llvm::ArrayRef<Value *> operands)
{
    Value *overflow = is_infinite(b, result);
    for (Value *operand : operands)
        overflow = b.CreateAnd(overflow, b.CreateNot(is_infinite(b, operand)));
    return b.CreateSelect(overflow, b.CreateFNeg(result), missing);
}

bool is_double(Value *value)
{
    return value->getType()->isDoubleTy();
}

Value *to_double(Builder &b, Value *value)
{
    return b.CreateFPExt(value, b.getDoubleTy());
}

/// Sums that are exactly zero are negative if rounded downward, unless both parts are +0.
Value *sign_of_zero(Builder &b, Value *sum, Value *left, Value *right, Rounding rounding)
{
    if (rounding != Rounding::DOWN)
        return sum;
    llvm::Type *integer = integer_of(b, sum);
    Value *signs = b.CreateOr(b.CreateBitCast(left, integer), b.CreateBitCast(right, integer));
    Value *negative = b.CreateICmpSLT(signs, llvm::ConstantInt::get(integer, 0));
    Value *zero = b.CreateSelect(negative, llvm::ConstantFP::getNegativeZero(sum->getType()), zero_like(sum));
    return b.CreateSelect(b.CreateFCmpOEQ(sum, zero_like(sum)), zero, sum);
}

bool has_fma(Builder &b)
{
    const llvm::Attribute features = b.GetInsertBlock()->getParent()->getFnAttribute("target-features");
    return features.isStringAttribute() && features.getValueAsString().contains("+fma,");
}

/// Runs an instruction of x86 on doubles with another direction of rounding. What is missing to a result of f64 cannot
/// be calculated where it is too small for f64.
Value *with_direction(Builder &b, const std::string &instruction, llvm::ArrayRef<Value *> operands, Rounding rounding)
{
    const unsigned modes[] = {0, 3, 1, 2}; // bits 13 and 14 of MXCSR, by Rounding
    llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::AllocaInst *controls[2];
    std::vector<llvm::Type *> types;
    std::vector<Value *> arguments(operands);
    std::string constraints = "=&x";
    for (Value *operand : operands) {
        types.push_back(operand->getType());
        constraints += ",x";
    }
    for (unsigned i = 0; i < 2; i++) {
        controls[i] = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(b.getInt32Ty());
        b.CreateStore(b.getInt32(0x1f80 | (i == 0 ? modes[int(rounding)] << 13 : 0)), controls[i]);
        types.push_back(b.getPtrTy());
        arguments.push_back(controls[i]);
        constraints += ",*m";
    }
    const std::string first = std::to_string(operands.size() + 1), last = std::to_string(operands.size() + 2);
    const std::string text = "ldmxcsr $" + first + "; " + instruction + "; ldmxcsr $" + last;
    llvm::FunctionType *type = llvm::FunctionType::get(b.getDoubleTy(), types, false);
    llvm::CallInst *call = b.CreateCall(llvm::InlineAsm::get(type, text, constraints, true), arguments);
    for (unsigned i = 0; i < 2; i++)
        call->addParamAttr(unsigned(operands.size()) + i,
                           llvm::Attribute::get(b.getContext(), llvm::Attribute::ElementType, b.getInt32Ty()));
    return call;
}

} // namespace

Inexact exact_sum(Builder &b, Value *left, Value *right)
{
    Value *sum = b.CreateFAdd(left, right), *part = b.CreateFSub(sum, left);
    Value *lost = b.CreateFAdd(b.CreateFSub(left, b.CreateFSub(sum, part)), b.CreateFSub(right, part));
    return {sum, lost};
}

Inexact exact_fma(Builder &b, Value *left, Value *right, Value *addend)
{
    Value *result = fused(b, left, right, addend);
    Value *product = b.CreateFMul(left, right);
    Value *product_error = fused(b, left, right, b.CreateFNeg(product));
    const Inexact first = exact_sum(b, addend, product_error);
    const Inexact second = exact_sum(b, product, first.nearest);
    Value *rest = b.CreateFAdd(b.CreateFSub(second.nearest, result), second.missing);
    return {result, b.CreateFAdd(rest, first.missing)};
}

Value *move(Builder &b, Inexact result, Rounding rounding)
{
    Value *nearest = result.nearest, *zero = zero_like(result.missing);
    Value *above = b.CreateFCmpOGT(result.missing, zero), *below = b.CreateFCmpOLT(result.missing, zero);
    Value *positive = b.CreateFCmpOGT(nearest, zero_like(nearest));
    Value *negative = b.CreateFCmpOLT(nearest, zero_like(nearest));
    switch (rounding) {
    case Rounding::NEAREST:
        return nearest;
    case Rounding::UP:
        return b.CreateSelect(above, step(b, nearest, true), nearest);
    case Rounding::DOWN:
        return b.CreateSelect(below, step(b, nearest, false), nearest);
    case Rounding::ZERO:
        nearest = b.CreateSelect(b.CreateAnd(positive, below), step(b, nearest, false), nearest);
        return b.CreateSelect(b.CreateAnd(negative, above), step(b, result.nearest, true), nearest);
    }
    return nearest;
}

Value *shorten(Builder &b, Inexact wide, Rounding rounding)
{
    Value *nearest = b.CreateFPTrunc(wide.nearest, b.getFloatTy());
    if (rounding == Rounding::NEAREST)
        return nearest;
    Value *missing = b.CreateFSub(wide.nearest, to_double(b, nearest));
    missing = b.CreateSelect(b.CreateFCmpOEQ(missing, zero_like(missing)), wide.missing, missing);
    return move(b, {nearest, missing}, rounding);
}

Value *round_to_odd(Builder &b, Inexact result)
{
    llvm::Type *integer = integer_of(b, result.nearest);
    Value *bits = b.CreateBitCast(result.nearest, integer);
    Value *one = llvm::ConstantInt::get(integer, 1), *none = llvm::ConstantInt::get(integer, 0);
    Value *zero = zero_like(result.missing);
    Value *even = b.CreateICmpEQ(b.CreateAnd(bits, one), none);
    Value *inexact = b.CreateFCmpONE(result.missing, zero);
    Value *further = b.CreateICmpEQ(b.CreateFCmpOGT(result.missing, zero),
                                    b.CreateFCmpOGT(result.nearest, zero_like(result.nearest)));
    Value *odd = b.CreateSelect(further, b.CreateAdd(bits, one), b.CreateSub(bits, one));
    Value *sign = b.CreateAnd(b.CreateBitCast(result.missing, integer_of(b, result.missing)),
                              llvm::APInt::getSignMask(result.missing->getType()->getScalarSizeInBits()));
    sign = b.CreateLShr(sign, sign->getType()->getIntegerBitWidth() - integer->getIntegerBitWidth());
    Value *least = b.CreateOr(b.CreateZExtOrTrunc(sign, integer), one);
    odd = b.CreateSelect(b.CreateFCmpOEQ(result.nearest, zero_like(result.nearest)), least, odd);
    return b.CreateBitCast(b.CreateSelect(b.CreateAnd(even, inexact), odd, bits), result.nearest->getType());
}

Value *add(Builder &b, Value *left, Value *right, Rounding rounding)
{
    if (rounding == Rounding::NEAREST)
        return b.CreateFAdd(left, right);
    Value *sum;
    if (is_double(left)) {
        const Inexact wide = exact_sum(b, left, right);
        sum = move(b, {wide.nearest, missing_after_overflow(b, wide.nearest, wide.missing, {left, right})}, rounding);
    } else {
        sum = shorten(b, exact_sum(b, to_double(b, left), to_double(b, right)), rounding);
    }
    return sign_of_zero(b, sum, left, right, rounding);
}

Value *multiply_floats(Builder &b, Value *left, Value *right, Rounding rounding)
{
    if (rounding == Rounding::NEAREST)
        return b.CreateFMul(left, right);
    if (is_double(left))
        return with_direction(b, "movapd $1, $0; mulsd $2, $0", {left, right}, rounding);
    Value *product = b.CreateFMul(to_double(b, left), to_double(b, right));
    return shorten(b, {product, zero_like(product)}, rounding);
}

Value *fma(Builder &b, Value *left, Value *right, Value *addend, Rounding rounding)
{
    if (rounding == Rounding::NEAREST)
        return fused(b, left, right, addend);
    if (is_double(left)) {
        if (has_fma(b))
            return with_direction(b, "movapd $1, $0; vfmadd213sd $3, $2, $0", {left, right, addend}, rounding);
        const Inexact wide = exact_fma(b, left, right, addend);
        Value *missing = missing_after_overflow(b, wide.nearest, wide.missing, {left, right, addend});
        return move(b, {wide.nearest, missing}, rounding);
    }
    Value *product = b.CreateFMul(to_double(b, left), to_double(b, right));
    const Inexact wide = exact_sum(b, product, to_double(b, addend));
    Value *signs = sign_of_zero(b, wide.nearest, product, to_double(b, addend), rounding);
    return shorten(b, {signs, wide.missing}, rounding);
}

Value *divide(Builder &b, Value *left, Value *right, Rounding rounding)
{
    if (rounding == Rounding::NEAREST)
        return b.CreateFDiv(left, right);
    if (is_double(left))
        return with_direction(b, "movapd $1, $0; divsd $2, $0", {left, right}, rounding);
    Value *dividend = to_double(b, left), *divisor = to_double(b, right);
    Value *quotient = b.CreateFDiv(dividend, divisor);
    Value *missing = fused(b, b.CreateFNeg(quotient), divisor, dividend); // NaN at infinities and zeroes
    Value *negative = b.CreateFCmpOLT(divisor, zero_like(divisor));
    return shorten(b, {quotient, b.CreateSelect(negative, b.CreateFNeg(missing), missing)}, rounding);
}

Value *square_root(Builder &b, Value *value, Rounding rounding)
{
    if (rounding == Rounding::NEAREST)
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, value);
    if (is_double(value))
        return with_direction(b, "sqrtsd $1, $0", {value}, rounding);
    Value *wide = to_double(b, value), *root = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, wide);
    return shorten(b, {root, fused(b, b.CreateFNeg(root), root, wide)}, rounding);
}

Value *from_integer(Builder &b, Value *value, bool is_signed, llvm::Type *type, Rounding rounding)
{
    auto convert = [&](Value *integer, bool with_sign, llvm::Type *to) {
        return with_sign ? b.CreateSIToFP(integer, to) : b.CreateUIToFP(integer, to);
    };
    if (rounding == Rounding::NEAREST)
        return convert(value, is_signed, type);
    value = extend(b, value, 64, is_signed);
    Value *high = is_signed ? b.CreateAShr(value, 32) : b.CreateLShr(value, 32);
    Value *low = convert(b.CreateAnd(value, number_like(value, 0xffffffff)), false, b.getDoubleTy());
    high =
        b.CreateFMul(convert(high, is_signed, b.getDoubleTy()), llvm::ConstantFP::get(b.getDoubleTy(), 4294967296.0));
    const Inexact sum = exact_sum(b, high, low);
    return type->isDoubleTy() ? move(b, sum, rounding) : shorten(b, sum, rounding);
}

} // namespace vgc::ptx
