// mov and cvt.
#include "float.h"
#include "forms.h"

#include <cmath>

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// A format of fewer than 16 bits, or tf32: bits of the mantissa, lowest exponent, largest number.
struct Small {
    unsigned bits;
    unsigned mantissa;
    int bias;
    float largest;
    unsigned nan;
};

const Small E4M3{8, 3, 7, 448.0f, 0x7f};
const Small E5M2{8, 2, 15, 57344.0f, 0x7f};

Value *constant(Builder &b, double number)
{
    return llvm::ConstantFP::get(b.getFloatTy(), number);
}

/// Bits of an f32 in a small format, rounded to the nearest; numbers that are too large become the largest.
Value *to_small(Builder &b, Value *value, const Small &format)
{
    Value *size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
    Value *sign = b.CreateLShr(b.CreateBitCast(value, b.getInt32Ty()), 31);
    size = b.CreateSelect(b.CreateFCmpOGT(size, constant(b, format.largest)), constant(b, format.largest), size);
    Value *exponent = b.CreateLShr(b.CreateBitCast(size, b.getInt32Ty()), 23);
    exponent = maximum(b, exponent, b.getInt32(uint32_t(127 - format.bias + 1)), true);
    // one step of the format becomes 1
    Value *scale =
        b.CreateBitCast(b.CreateShl(b.CreateSub(b.getInt32(254 + format.mantissa), exponent), 23), b.getFloatTy());
    Value *digits = b.CreateUnaryIntrinsic(llvm::Intrinsic::rint, b.CreateFMul(size, scale));
    Value *steps =
        b.CreateFPToUI(b.CreateSelect(b.CreateFCmpUNO(value, value), constant(b, 0), digits), b.getInt32Ty());
    Value *above = b.CreateSub(exponent, b.getInt32(uint32_t(127 - format.bias + 1)));
    Value *bits = b.CreateAdd(steps, b.CreateShl(above, format.mantissa));
    bits = b.CreateOr(bits, b.CreateShl(sign, format.bits - 1));
    return b.CreateSelect(b.CreateFCmpUNO(value, value), b.getInt32(format.nan), bits);
}

Value *from_small(Builder &b, Value *bits, const Small &format)
{
    const unsigned low = format.bits - 1;
    Value *size = b.CreateAnd(bits, (1u << low) - 1), *sign = b.CreateShl(b.CreateLShr(bits, low), 31);
    Value *scale = constant(b, std::ldexp(1.0, 127 - format.bias));
    Value *shifted = b.CreateBitCast(b.CreateShl(size, 23 - format.mantissa), b.getFloatTy());
    Value *number = b.CreateBitCast(b.CreateFMul(shifted, scale), b.getInt32Ty());
    if (&format == &E4M3) {
        number = b.CreateSelect(b.CreateICmpEQ(size, b.getInt32(0x7f)), b.getInt32(0x7fc00000), number);
    } else {
        Value *special = b.CreateOr(b.getInt32(0x7f800000), b.CreateShl(b.CreateAnd(size, 3), 21));
        number = b.CreateSelect(b.CreateICmpUGE(size, b.getInt32(0x7c)), special, number);
    }
    return b.CreateBitCast(b.CreateOr(number, sign), b.getFloatTy());
}

Value *finish_float(Instruction &i, Value *value, bool sat, bool relu)
{
    Builder &b = i.b;
    if (relu)
        value = rectify(b, value);
    return sat ? saturate(b, value) : value;
}

/// .ftz of conversions, which is for f32 alone.
Value *flush_single(Builder &b, Value *value, Type type, bool ftz)
{
    return flush(b, value, type, ftz && type.bits == 32);
}

/// For .satfinite: what is beyond the largest number of a type, infinities too, is that number with the value's sign.
Value *keep_finite(Builder &b, Value *value, uint32_t largest_bits)
{
    auto number = [&](uint32_t bits) { return b.CreateBitCast(b.getInt32(bits), b.getFloatTy()); };
    Value *largest = number(largest_bits), *least = number(largest_bits | 1u << 31);
    value = b.CreateSelect(b.CreateFCmpOGT(value, largest), largest, value);
    return b.CreateSelect(b.CreateFCmpOLT(value, least), least, value);
}

/// Bits of the largest float that is a number of the type, f16 or bf16.
uint32_t largest_of(Type lane)
{
    return lane.kind == Type::BFLOAT ? 0x7f7f0000 : 0x477fe000;
}
const uint32_t LARGEST_TF32 = 0x7f7fe000;

/// f16 or bf16 from a float, in a direction: in the middle of truncation there are only whole places to move by.
Value *narrow_directed(Builder &b, Value *value, Type lane, Rounding rounding)
{
    if (value->getType()->isDoubleTy()) {
        Value *nearest = b.CreateFPTrunc(value, b.getFloatTy());
        Value *missing = b.CreateFSub(value, b.CreateFPExt(nearest, b.getDoubleTy()));
        value = round_to_odd(b, {nearest, missing});
    }
    Value *bits = narrow(b, value, lane);
    if (rounding == Rounding::NEAREST)
        return bits;
    Value *back = widen(b, bits, lane);
    Value *above = b.CreateFCmpOGT(value, back), *below = b.CreateFCmpOLT(value, back);
    Value *negative = b.CreateICmpSLT(bits, number_like(bits, 0));
    Value *more = b.CreateAdd(bits, number_like(bits, 1)), *less = b.CreateSub(bits, number_like(bits, 1));
    auto step = [&](Value *when, bool up) {
        // from zero, which has the value's own sign, only away from it
        Value *moved = up ? b.CreateSelect(negative, less, more) : b.CreateSelect(negative, more, less);
        bits = b.CreateSelect(when, moved, bits);
    };
    if (rounding == Rounding::UP)
        step(above, true);
    else if (rounding == Rounding::DOWN)
        step(below, false);
    else {
        step(b.CreateAnd(b.CreateNot(negative), below), false);
        step(b.CreateAnd(negative, above), true);
    }
    return bits;
}

/// tf32: f32 with ten digits of mantissa; ties go away from zero (rna) or to even (rn).
Value *to_tf32(Instruction &i, Value *value, llvm::StringRef rounding)
{
    Builder &b = i.b;
    Value *bits = b.CreateBitCast(value, b.getInt32Ty());
    Value *half = b.getInt32(0x1000);
    if (rounding == "rn")
        half = b.CreateAdd(b.getInt32(0xfff), b.CreateAnd(b.CreateLShr(bits, 13), 1));
    else if (rounding == "rz")
        half = b.getInt32(0);
    Value *special = b.CreateICmpEQ(b.CreateAnd(bits, 0x7f800000), b.getInt32(0x7f800000));
    Value *rounded = b.CreateAnd(b.CreateAdd(bits, half), b.getInt32(0xffffe000));
    return b.CreateSelect(special, bits, rounded);
}

/// Float to integer, clamped to the integer's range.
void lower_to_integer(Instruction &i, Type to, Type from, llvm::StringRef rounding, bool ftz)
{
    Builder &b = i.b;
    Value *value = flush_single(b, i.low.lanes(i.operand(1), from)[0], from, ftz);
    const llvm::Intrinsic::ID round = rounding == "rni"   ? llvm::Intrinsic::rint
                                      : rounding == "rmi" ? llvm::Intrinsic::floor
                                      : rounding == "rpi" ? llvm::Intrinsic::ceil
                                                          : llvm::Intrinsic::trunc;
    Value *whole = b.CreateUnaryIntrinsic(round, value);
    llvm::Type *integer = b.getIntNTy(to.bits);
    Value *result = b.CreateIntrinsic(to.is_signed() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                                      {integer, whole->getType()}, {whole});
    if (from.bits == 64 || to.bits == 64) { // NaN gives the highest bit, otherwise 0
        Value *highest = llvm::ConstantInt::get(b.getContext(), llvm::APInt::getSignedMinValue(to.bits));
        result = b.CreateSelect(b.CreateFCmpUNO(value, value), highest, result);
    }
    i.low.write(i.operand(0), result, to);
}

void lower_from_integer(Instruction &i, Type to, Type from, Rounding rounding, bool sat)
{
    Builder &b = i.b;
    Value *value = i.in(1, from);
    llvm::Type *type = to.bits == 64 ? b.getDoubleTy() : b.getFloatTy();
    if (sat) // integers beyond 0 and 1 become one of them
        value = extend(b, clamp(b, value, from.is_signed(), 1, false), from.bits, false);
    Value *result;
    if (to.bits == 16) { // through a double that is odd where it is not exact
        Value *wide = from_integer(b, value, from.is_signed(), b.getDoubleTy(), Rounding::ZERO);
        Value *back = b.CreateIntrinsic(from.is_signed() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                                        {b.getInt64Ty(), b.getDoubleTy()}, {wide});
        Value *inexact = b.CreateICmpNE(back, extend(b, value, 64, from.is_signed()));
        Value *odd = b.CreateOr(b.CreateBitCast(wide, b.getInt64Ty()), b.CreateZExt(inexact, b.getInt64Ty()));
        Value *bits = narrow_directed(b, b.CreateBitCast(odd, b.getDoubleTy()), to, rounding);
        return i.low.write(i.operand(0), bits, to);
    }
    result = from_integer(b, value, from.is_signed(), type, rounding);
    i.low.write_lanes(i.operand(0), {result}, to);
}

/// Float to float, or rounded to a whole number in the same type.
void lower_float_to_float(Instruction &i, Type to, Type from, llvm::StringRef whole, Rounding rounding, bool ftz)
{
    Builder &b = i.b;
    const bool sat = i.take("sat"), relu = i.take("relu");
    const bool finite = i.take("satfinite");
    if (finite && (from.bits != 32 || to.bits != 16))
        i.refuse();
    Value *value = flush_single(b, i.low.lanes(i.operand(1), from)[0], from, ftz);
    if (!whole.empty()) {
        const llvm::Intrinsic::ID round = whole == "rni"   ? llvm::Intrinsic::rint
                                          : whole == "rmi" ? llvm::Intrinsic::floor
                                          : whole == "rpi" ? llvm::Intrinsic::ceil
                                                           : llvm::Intrinsic::trunc;
        value = b.CreateUnaryIntrinsic(round, value);
    }
    value = finish_float(i, value, sat, relu);
    if (finite)
        value = keep_finite(b, value, largest_of(to));
    if (to.bits == 16)
        return i.low.write(i.operand(0), narrow_directed(b, value, to, rounding), to);
    if (to.bits == 64 && !value->getType()->isDoubleTy())
        value = b.CreateFPExt(value, b.getDoubleTy());
    if (to.bits == 32 && value->getType()->isDoubleTy())
        value = shorten(b, {value, llvm::ConstantFP::get(value->getType(), 0.0)}, rounding);
    i.low.write_lanes(i.operand(0), {flush_single(b, value, to, ftz)}, to);
}

/// Two floats in one register: the first source is the upper half.
bool lower_packed_halves(Instruction &i, Type to, Rounding rounding)
{
    if (to.lanes != 2 || !to.is_float() || i.size() != 3)
        return false;
    Builder &b = i.b;
    const bool relu = i.take("relu"), finite = i.take("satfinite");
    const Type from = i.need_type();
    if (from.bits != 32)
        i.refuse();
    auto half = [&](size_t index) {
        Value *value = finish_float(i, i.low.lanes(i.operand(index), from)[0], false, relu);
        value = finite ? keep_finite(b, value, largest_of(to)) : value;
        return b.CreateZExt(narrow_directed(b, value, to.lane(), rounding), b.getInt32Ty());
    };
    i.low.write(i.operand(0), b.CreateOr(b.CreateShl(half(1), 16), half(2)), to);
    return true;
}

/// e4m3x2 and e5m2x2, in both directions.
bool lower_small(Instruction &i)
{
    Builder &b = i.b;
    const bool to_e4m3 = i.take("e4m3x2"), to_e5m2 = !to_e4m3 && i.take("e5m2x2");
    if (!to_e4m3 && !to_e5m2)
        return false;
    const Small &format = to_e4m3 ? E4M3 : E5M2;
    i.take("rn");
    i.take("satfinite");
    const bool relu = i.take("relu");
    const Type type = i.need_type();
    const Type pair{Type::BITS, 16, 1};
    if (i.size() == 2 && i.low.width_of(i.operand(1)) == 16) {
        Value *bytes = b.CreateZExt(i.in(1, pair), b.getInt32Ty());
        Value *low = from_small(b, b.CreateAnd(bytes, 255), format),
              *high = from_small(b, b.CreateLShr(bytes, 8), format);
        i.low.write_lanes(i.operand(0), {finish_float(i, low, false, relu), finish_float(i, high, false, relu)}, type);
        return true;
    }
    Value *low, *high;
    if (i.size() == 3) {
        high = i.low.lanes(i.operand(1), type)[0];
        low = i.low.lanes(i.operand(2), type)[0];
    } else {
        const std::vector<Value *> lanes = i.low.lanes(i.operand(1), type);
        if (lanes.size() != 2)
            i.refuse();
        low = lanes[0];
        high = lanes[1];
    }
    low = to_small(b, finish_float(i, low, false, relu), format);
    high = to_small(b, finish_float(i, high, false, relu), format);
    i.low.write(i.operand(0), b.CreateTrunc(b.CreateOr(b.CreateShl(high, 8), low), b.getInt16Ty()), pair);
    return true;
}

/// cvt.pack: two clamped integers above the lower half, or upper bytes, of a third.
void lower_pack(Instruction &i)
{
    Builder &b = i.b;
    i.need_one({"sat"});
    const llvm::StringRef to = i.need_one({"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"});
    const bool is_signed = to[0] == 's';
    unsigned bits = 0;
    to.drop_front().getAsInteger(10, bits);
    i.need_one({"s32"});
    const bool has_third = i.take("b32");
    const Type word{Type::SIGNED, 32, 1};
    Value *high = b.CreateZExt(clamp(b, i.in(1, word), true, bits, is_signed), b.getInt32Ty());
    Value *low = b.CreateZExt(clamp(b, i.in(2, word), true, bits, is_signed), b.getInt32Ty());
    Value *result = b.CreateOr(b.CreateShl(high, bits), low);
    if (has_third)
        result = b.CreateOr(result, b.CreateShl(i.in(3, word), 2 * bits));
    i.low.write(i.operand(0), result, word);
}

void lower_cvt(Instruction &i)
{
    Builder &b = i.b;
    if (i.take("pack"))
        return lower_pack(i);
    if (lower_small(i))
        return;
    if (i.take("tf32")) {
        const llvm::StringRef rounding = i.need_one({"rna", "rn", "rz"});
        const bool relu = i.take("relu"), finite = i.take("satfinite");
        const Type from = i.need_type();
        Value *value = finish_float(i, i.low.lanes(i.operand(1), from)[0], false, relu);
        value = finite ? keep_finite(b, value, LARGEST_TF32) : value;
        return i.low.write(i.operand(0), to_tf32(i, value, rounding), from);
    }
    const llvm::StringRef whole = i.take_one({"rni", "rzi", "rmi", "rpi"});
    const Rounding rounding = take_rounding(i);
    const bool ftz = i.take("ftz");
    const Type to = i.need_type();
    if (lower_packed_halves(i, to, rounding))
        return;
    const Type from = i.need_type();
    if (to.lanes != 1 || from.lanes != 1 || to.kind == Type::BITS || from.kind == Type::BITS)
        i.refuse();
    if (to.is_float() && from.is_float())
        return lower_float_to_float(i, to, from, whole, rounding, ftz);
    const bool sat = i.take("sat");
    if (from.is_float())
        return lower_to_integer(i, to, from, whole, ftz);
    if (to.is_float())
        return lower_from_integer(i, to, from, rounding, sat);
    Value *value = i.in(1, from);
    value =
        sat ? clamp(b, value, from.is_signed(), to.bits, to.is_signed()) : extend(b, value, to.bits, from.is_signed());
    i.low.write(i.operand(0), value, to);
}

void lower_mov(Instruction &i)
{
    const Type type = i.need_type();
    if (type.kind == Type::PREDICATE)
        return i.low.write_predicate(i.operand(0), i.low.predicate(i.operand(1)));
    i.low.write(i.operand(0), i.low.bits(i.operand(1), type.width()), {Type::BITS, type.bits, type.lanes});
}

} // namespace

llvm::ArrayRef<Form> convert_forms()
{
    static const Form forms[] = {
        {"cvt", 2, 4, lower_cvt},
        {"mov", 2, 2, lower_mov},
    };
    return forms;
}

} // namespace vgc::ptx
