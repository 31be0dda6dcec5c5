// Float arithmetic. Types of 16 bits are calculated with as f32 and rounded after each operation, which gives what
// the hardware does: f32 has more than twice their digits.
#include "float.h"

#include "../exponentials.h"
#include "directed.h"
#include "forms.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;
using Lanes = std::vector<Value *>;

Value *constant(Value *like, double number)
{
    return llvm::ConstantFP::get(like->getType(), number);
}

Lanes take_lanes(Instruction &i, size_t index, Type type, bool ftz)
{
    Lanes lanes = i.low.lanes(i.operand(index), type);
    for (Value *&lane : lanes)
        lane = flush(i.b, lane, type.lane(), ftz);
    return lanes;
}

/// What comes behind an operation: .ftz, .sat and .relu.
struct Finish {
    bool ftz;
    bool sat;
    bool relu;
    Value *apply(Builder &b, Value *value, Type lane) const
    {
        value = flush(b, value, lane, ftz);
        if (relu)
            value = rectify(b, value);
        return sat ? saturate(b, value) : value;
    }
};

/// a * b + c for a type of 16 bits, rounded once.
Value *fma_of_halves(Builder &b, Value *left, Value *right, Value *addend, Type lane)
{
    if (lane.kind == Type::FLOAT)
        return round_to_odd(b, exact_sum(b, b.CreateFMul(left, right), addend));
    auto wide = [&](Value *value) { return b.CreateFPExt(value, b.getDoubleTy()); };
    Value *odd = round_to_odd(b, exact_sum(b, b.CreateFMul(wide(left), wide(right)), wide(addend)));
    Value *nearest = b.CreateFPTrunc(odd, b.getFloatTy());
    return round_to_odd(b, {nearest, b.CreateFSub(odd, wide(nearest))});
}

Value *call_math(Instruction &i, llvm::StringRef name, Value *value)
{
    Value *result = i.low.call_builtin(name, value->getType(), {value});
    llvm::cast<llvm::CallInst>(result)->getCalledFunction()->setDoesNotAccessMemory();
    llvm::cast<llvm::CallInst>(result)->getCalledFunction()->setWillReturn();
    return result;
}

Value *apply_function(Instruction &i, Value *value, Rounding rounding)
{
    Builder &b = i.b;
    const llvm::StringRef name = i.mnemonic();
    if (name == "rcp")
        return divide(b, constant(value, 1), value, rounding);
    if (name == "sqrt")
        return square_root(b, value, rounding);
    if (name == "rsqrt")
        return b.CreateFDiv(constant(value, 1), b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, value));
    if (name == "sin")
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::sin, value);
    if (name == "cos")
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::cos, value);
    if (name == "lg2")
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::log2, value);
    if (name == "ex2")
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::exp2, value);
    return call_math(i, "tanhf", value);
}

/// rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh. The approximations are as exact as the C library, but for ex2.ftz.
void lower_function(Instruction &i)
{
    const Rounding rounding = take_rounding(i);
    i.take("approx");
    const Finish finish{i.take("ftz"), false, false};
    const Type type = i.need_type();
    if (!type.is_float() || (type.bits == 64 && !llvm::StringRef("rcp sqrt rsqrt").contains(i.mnemonic())))
        i.refuse();
    if (i.mnemonic() == "ex2" && finish.ftz && type.bits == 32) {
        Value *power = normal_power_of_two(i.b, i.low.lanes(i.operand(1), type)[0]); // 1 for denormal exponents, too
        return i.low.write_lanes(i.operand(0), {power}, type);
    }
    Lanes lanes = take_lanes(i, 1, type, finish.ftz);
    for (Value *&lane : lanes)
        lane = finish.apply(i.b, apply_function(i, lane, rounding), type.lane());
    i.low.write_lanes(i.operand(0), lanes, type);
}

void lower_testp(Instruction &i)
{
    Builder &b = i.b;
    const llvm::StringRef test = i.need_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    const Type type = i.need_type();
    const unsigned classes = test == "finite"       ? llvm::fcFinite
                             : test == "infinite"   ? llvm::fcInf
                             : test == "number"     ? llvm::fcFinite | llvm::fcInf
                             : test == "notanumber" ? llvm::fcNan
                             : test == "normal"     ? llvm::fcNormal | llvm::fcZero // the ISA counts zeroes among them
                                                    : llvm::fcSubnormal;
    if (!type.is_float() || type.bits < 32 || type.lanes > 1)
        i.refuse();
    Value *value = i.low.lanes(i.operand(1), type)[0];
    Value *result = b.CreateIntrinsic(llvm::Intrinsic::is_fpclass, {value->getType()}, {value, b.getInt32(classes)});
    i.low.write_predicate(i.operand(0), result);
}

void lower_copysign(Instruction &i)
{
    const Type type = i.need_type();
    Value *sign = number_like(i.in(1, type), 1ull << (type.bits - 1)); // of the first operand, size of the second
    Value *result = i.b.CreateOr(i.b.CreateAnd(i.in(1, type), sign), i.b.CreateAnd(i.in(2, type), i.b.CreateNot(sign)));
    i.low.write(i.operand(0), result, type);
}

void lower_fma_form(Instruction &i)
{
    const bool sat = i.take("sat");
    lower_fma(i, i.need_type(), sat);
}

} // namespace

Rounding take_rounding(Instruction &i)
{
    const llvm::StringRef name = i.take_one({"rn", "rz", "rm", "rp"});
    return name == "rz"   ? Rounding::ZERO
           : name == "rm" ? Rounding::DOWN
           : name == "rp" ? Rounding::UP
                          : Rounding::NEAREST;
}

Value *flush(Builder &b, Value *value, Type lane, bool ftz)
{
    if (!ftz)
        return value;
    // results of f16 are rounded later: what rounds to the least normal number stays
    const bool is_half = lane.bits == 16 && lane.kind == Type::FLOAT;
    const double least = lane.bits == 64 ? 0x1p-1022 : is_half ? 0x1p-14 - 0x1p-25 : 0x1p-126;
    Value *small = b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value), constant(value, least));
    Value *zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, constant(value, 0), value);
    return b.CreateSelect(small, zero, value);
}

Value *canonical_nan(Value *like)
{
    const unsigned bits = like->getType()->getScalarSizeInBits();
    const llvm::APFloat number(like->getType()->getFltSemantics(), llvm::APInt::getSignedMaxValue(bits));
    return llvm::ConstantFP::get(like->getType(), number);
}

Value *rectify(Builder &b, Value *value)
{
    Value *positive = b.CreateSelect(b.CreateFCmpOGT(value, constant(value, 0)), value, constant(value, 0));
    return b.CreateSelect(b.CreateFCmpUNO(value, value), canonical_nan(value), positive);
}

Value *saturate(Builder &b, Value *value)
{
    Value *above = b.CreateFCmpOGT(value, constant(value, 0));
    value = b.CreateSelect(above, value, constant(value, 0));
    return b.CreateSelect(b.CreateFCmpOGT(value, constant(value, 1)), constant(value, 1), value);
}

void lower_float_binary(Instruction &i, Type type, bool sat)
{
    Builder &b = i.b;
    const Rounding rounding = take_rounding(i);
    const Finish finish{i.take("ftz"), sat, false};
    if (type.bits == 16 && rounding != Rounding::NEAREST)
        i.refuse();
    Lanes left = take_lanes(i, 1, type, finish.ftz), right = take_lanes(i, 2, type, finish.ftz);
    for (size_t n = 0; n < left.size(); n++) {
        Value *result;
        if (i.mnemonic() == "mul")
            result = multiply_floats(b, left[n], right[n], rounding);
        else
            result = add(b, left[n], i.mnemonic() == "sub" ? b.CreateFNeg(right[n]) : right[n], rounding);
        left[n] = finish.apply(b, result, type.lane());
    }
    i.low.write_lanes(i.operand(0), left, type);
}

void lower_fma(Instruction &i, Type type, bool sat)
{
    if (!type.is_float())
        i.refuse();
    const Rounding rounding = take_rounding(i);
    const Finish finish{i.take("ftz"), sat, i.take("relu")};
    if (type.bits == 16 && rounding != Rounding::NEAREST)
        i.refuse();
    Lanes left = take_lanes(i, 1, type, finish.ftz), right = take_lanes(i, 2, type, finish.ftz);
    const Lanes addend = take_lanes(i, 3, type, finish.ftz);
    for (size_t n = 0; n < left.size(); n++) {
        Value *result = type.bits == 16 ? fma_of_halves(i.b, left[n], right[n], addend[n], type.lane())
                        : type.bits == 32 && rounding != Rounding::NEAREST
                            ? directed_fma(i.b, left[n], right[n], addend[n], rounding)
                            : fma(i.b, left[n], right[n], addend[n], rounding);
        left[n] = finish.apply(i.b, result, type.lane());
    }
    i.low.write_lanes(i.operand(0), left, type);
}

void lower_float_div(Instruction &i, Type type)
{
    const Rounding rounding = take_rounding(i);
    i.take_one({"approx", "full"});
    const Finish finish{i.take("ftz"), false, false};
    if (i.mnemonic() != "div" || type.bits == 16 || type.lanes > 1)
        i.refuse();
    Value *left = take_lanes(i, 1, type, finish.ftz)[0], *right = take_lanes(i, 2, type, finish.ftz)[0];
    i.low.write_lanes(i.operand(0), {finish.apply(i.b, divide(i.b, left, right, rounding), type)}, type);
}

void lower_float_sign(Instruction &i, Type type, bool ftz)
{
    if (ftz) {
        Lanes lanes = take_lanes(i, 1, type, true);
        for (Value *&lane : lanes)
            lane = i.mnemonic() == "neg" ? i.b.CreateFNeg(lane) : i.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, lane);
        return i.low.write_lanes(i.operand(0), lanes, type);
    }
    llvm::APInt signs(type.width(), 0);
    for (unsigned lane = 0; lane < type.lanes; lane++)
        signs.setBit((lane + 1) * type.bits - 1);
    Value *value = i.in(1, type), *mask = llvm::ConstantInt::get(i.b.getContext(), signs);
    value = i.mnemonic() == "neg" ? i.b.CreateXor(value, mask) : i.b.CreateAnd(value, i.b.CreateNot(mask));
    i.low.write(i.operand(0), value, type);
}

Value *smaller_or_larger(Builder &b, Value *left, Value *right, bool least)
{
    return b.CreateBinaryIntrinsic(least ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, left, right);
}

/// The result for two numbers, or what operands that are NaN make of it: they lose against a number, unless NaN is
/// kept; a result that is NaN is the canonical one.
Value *with_nans(Builder &b, Value *result, Value *left, Value *right, bool keep_nan)
{
    Value *nan = canonical_nan(result);
    if (keep_nan)
        return b.CreateSelect(b.CreateFCmpUNO(left, right), nan, result);
    Value *no_left = b.CreateFCmpUNO(left, left), *no_right = b.CreateFCmpUNO(right, right);
    result = b.CreateSelect(no_left, right, result);
    return b.CreateSelect(no_right, b.CreateSelect(no_left, nan, left), result);
}

/// min and max of three numbers, or of their sizes.
void lower_float_min_of_three(Instruction &i, Type type)
{
    Builder &b = i.b;
    const bool least = i.mnemonic() == "min", keep_nan = i.take("NaN"), by_size = i.take("abs");
    const Finish finish{i.take("ftz"), false, false};
    if (type.bits != 32 || type.lanes != 1)
        i.refuse();
    Value *result = nullptr;
    for (size_t operand = 1; operand <= 3; operand++) {
        Value *value = take_lanes(i, operand, type, finish.ftz)[0];
        if (by_size)
            value = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
        result =
            operand == 1 ? value : with_nans(b, smaller_or_larger(b, result, value, least), result, value, keep_nan);
    }
    i.low.write_lanes(i.operand(0), {finish.apply(b, result, type.lane())}, type);
}

/// min and max; -0 is less than +0.
void lower_float_min(Instruction &i, Type type)
{
    Builder &b = i.b;
    if (i.size() == 4)
        return lower_float_min_of_three(i, type);
    const bool least = i.mnemonic() == "min", keep_nan = i.take("NaN");
    const bool by_size = i.take("xorsign") && i.take("abs");
    const Finish finish{i.take("ftz"), false, false};
    Lanes left = take_lanes(i, 1, type, finish.ftz), right = take_lanes(i, 2, type, finish.ftz);
    for (size_t n = 0; n < left.size(); n++) {
        Value *l = left[n], *r = right[n];
        if (by_size) {
            l = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, l);
            r = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, r);
        }
        Value *result = smaller_or_larger(b, l, r, least);
        if (by_size) {
            llvm::Type *integer = b.getIntNTy(result->getType()->getScalarSizeInBits());
            Value *sign = b.CreateXor(b.CreateBitCast(left[n], integer), b.CreateBitCast(right[n], integer));
            sign = b.CreateBitCast(sign, result->getType());
            auto with_sign = [&](Value *of) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, of, sign); };
            result = with_sign(result);
            l = with_sign(l);
            r = with_sign(r);
        }
        result = with_nans(b, result, l, r, keep_nan);
        left[n] = finish.apply(b, result, type.lane());
    }
    i.low.write_lanes(i.operand(0), left, type);
}

llvm::ArrayRef<Form> float_forms()
{
    static const Form forms[] = {
        {"fma", 4, 4, lower_fma_form},   {"rcp", 2, 2, lower_function},      {"sqrt", 2, 2, lower_function},
        {"rsqrt", 2, 2, lower_function}, {"sin", 2, 2, lower_function},      {"cos", 2, 2, lower_function},
        {"lg2", 2, 2, lower_function},   {"ex2", 2, 2, lower_function},      {"tanh", 2, 2, lower_function},
        {"testp", 2, 2, lower_testp},    {"copysign", 3, 3, lower_copysign},
    };
    return forms;
}

} // namespace vgc::ptx
