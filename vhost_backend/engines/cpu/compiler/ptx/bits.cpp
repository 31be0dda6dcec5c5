// Bits: logic, shifts, fields, counts, permutations.
#include "forms.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const Type WORD{Type::UNSIGNED, 32, 1};

void lower_logic(Instruction &i)
{
    const Type type = i.need_type();
    const llvm::StringRef name = i.mnemonic();
    auto in = [&](size_t index) {
        return type.kind == Type::PREDICATE ? i.low.predicate(i.operand(index)) : i.in(index, type);
    };
    Value *result = in(1);
    if (name == "not")
        result = i.b.CreateNot(result);
    else if (name == "cnot")
        result = i.b.CreateZExt(i.b.CreateICmpEQ(result, number_like(result, 0)), result->getType());
    else if (name == "and")
        result = i.b.CreateAnd(result, in(2));
    else if (name == "or")
        result = i.b.CreateOr(result, in(2));
    else
        result = i.b.CreateXor(result, in(2));
    i.low.write(i.operand(0), result, {Type::BITS, type.bits, type.lanes});
}

void lower_shift(Instruction &i)
{
    const Type type = i.need_type();
    Value *value = i.in(1, type), *amount = i.in(2, WORD);
    i.low.write(i.operand(0),
                i.mnemonic() == "shl" ? shift_left(i.b, value, amount)
                                      : shift_right(i.b, value, amount, type.is_signed()),
                type);
}

/// shf: 32 of the 64 bits of two registers.
void lower_funnel(Instruction &i)
{
    Builder &b = i.b;
    const bool left = i.need_one({"l", "r"}) == "l", wrap = i.need_one({"wrap", "clamp"}) == "wrap";
    const Type type = i.need_type();
    Value *amount = i.in(3, WORD);
    amount = wrap ? b.CreateAnd(amount, 31) : minimum(b, amount, b.getInt32(32), false);
    amount = b.CreateZExt(amount, b.getInt64Ty());
    Value *both = b.CreateOr(b.CreateShl(b.CreateZExt(i.in(2, type), b.getInt64Ty()), 32),
                             b.CreateZExt(i.in(1, type), b.getInt64Ty()));
    both = left ? b.CreateLShr(b.CreateShl(both, amount), 32) : b.CreateLShr(both, amount);
    i.low.write(i.operand(0), b.CreateTrunc(both, b.getInt32Ty()), type);
}

void lower_bfe(Instruction &i)
{
    Builder &b = i.b;
    const Type type = i.need_type();
    Value *value = i.in(1, type), *position = b.CreateAnd(i.in(2, WORD), 255),
          *length = b.CreateAnd(i.in(3, WORD), 255);
    Value *field = shift_right(b, value, position, false);
    Value *mask = low_mask(b, value->getType(), length);
    if (type.is_signed()) {
        Value *inside = shift_right(b, llvm::ConstantInt::getAllOnesValue(value->getType()), position, false);
        mask = b.CreateAnd(mask, inside);
        Value *last =
            minimum(b, b.CreateSub(b.CreateAdd(position, length), b.getInt32(1)), b.getInt32(type.bits - 1), false);
        Value *sign = b.CreateTrunc(shift_right(b, value, last, false), b.getInt1Ty());
        sign = b.CreateAnd(sign, b.CreateICmpNE(length, b.getInt32(0)));
        Value *filled = b.CreateOr(b.CreateAnd(field, mask), b.CreateNot(mask));
        field = b.CreateSelect(sign, filled, b.CreateAnd(field, mask));
    } else {
        field = b.CreateAnd(field, mask);
    }
    i.low.write(i.operand(0), field, type);
}

void lower_bfi(Instruction &i)
{
    Builder &b = i.b;
    const Type type = i.need_type();
    Value *field = i.in(1, type), *into = i.in(2, type);
    Value *position = b.CreateAnd(i.in(3, WORD), 255), *length = b.CreateAnd(i.in(4, WORD), 255);
    Value *mask = shift_left(b, low_mask(b, field->getType(), length), position);
    field = b.CreateAnd(shift_left(b, field, position), mask);
    i.low.write(i.operand(0), b.CreateOr(b.CreateAnd(into, b.CreateNot(mask)), field), type);
}

void lower_szext(Instruction &i)
{
    Builder &b = i.b;
    const bool clamps = i.need_one({"clamp", "wrap"}) == "clamp";
    const Type type = i.need_type();
    Value *value = i.in(1, type), *count = i.in(2, WORD), *size = b.CreateAnd(count, 31);
    Value *mask = b.CreateShl(b.getInt32(~0u), size);
    if (clamps)
        mask = b.CreateSelect(b.CreateICmpUGE(count, b.getInt32(32)), b.getInt32(0), mask);
    Value *result = b.CreateAnd(value, b.CreateNot(mask));
    if (type.is_signed()) {
        Value *last = b.CreateAnd(b.CreateSub(size, b.getInt32(1)), 31);
        Value *sign = b.CreateTrunc(b.CreateLShr(value, last), b.getInt1Ty());
        sign = b.CreateAnd(sign, b.CreateICmpNE(size, b.getInt32(0)));
        result = b.CreateSelect(sign, b.CreateOr(result, mask), result);
    }
    i.low.write(i.operand(0), result, type);
}

void lower_bmsk(Instruction &i)
{
    Builder &b = i.b;
    const bool clamps = i.need_one({"clamp", "wrap"}) == "clamp";
    i.need_type();
    Value *position = i.in(1, WORD), *count = i.in(2, WORD);
    Value *first = clamps ? position : b.CreateAnd(position, 31);
    Value *size = clamps ? minimum(b, count, b.getInt32(32), false) : b.CreateAnd(count, 31);
    i.low.write(i.operand(0), shift_left(b, low_mask(b, b.getInt32Ty(), size), first), WORD);
}

void lower_count(Instruction &i)
{
    Builder &b = i.b;
    const Type type = i.need_type();
    Value *value = i.in(1, type);
    if (i.mnemonic() == "popc")
        value = b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, value);
    else if (i.mnemonic() == "clz")
        value = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, b.getFalse());
    else
        return i.low.write(i.operand(0), b.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, value), type);
    i.low.write(i.operand(0), b.CreateZExtOrTrunc(value, b.getInt32Ty()), WORD);
}

void lower_bfind(Instruction &i)
{
    Builder &b = i.b;
    const bool shift_amount = i.take("shiftamt");
    const Type type = i.need_type();
    Value *value = i.in(1, type);
    if (type.is_signed())
        value = b.CreateXor(value, b.CreateAShr(value, type.bits - 1));
    Value *zeroes =
        b.CreateZExtOrTrunc(b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, b.getFalse()), b.getInt32Ty());
    Value *found = shift_amount ? zeroes : b.CreateSub(b.getInt32(type.bits - 1), zeroes);
    Value *none = b.CreateICmpEQ(value, number_like(value, 0));
    i.low.write(i.operand(0), b.CreateSelect(none, b.getInt32(~0u), found), WORD);
}

/// fns: place of the n-th bit set from a place on, upwards or downwards.
void lower_fns(Instruction &i)
{
    Builder &b = i.b;
    i.need_type();
    Value *mask = i.in(1, WORD), *base = i.in(2, WORD), *offset = i.in(3, WORD);
    Value *down = b.CreateICmpSLT(offset, b.getInt32(0));
    Value *count = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, offset, b.getFalse());
    Value *result = b.getInt32(~0u), *passed = b.getInt32(0);
    // the lowest bits first, of the mask above the base or of its mirror image below
    Value *above = shift_right(b, mask, base, false);
    Value *below = shift_right(b, b.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, mask),
                               b.CreateSub(b.getInt32(31), base), false);
    Value *rest = b.CreateSelect(down, below, above);
    rest = b.CreateSelect(b.CreateICmpULT(base, b.getInt32(32)), rest, b.getInt32(0));
    for (unsigned place = 0; place < 32; place++) {
        Value *is_set = b.CreateTrunc(b.CreateLShr(rest, place), b.getInt1Ty());
        passed = b.CreateAdd(passed, b.CreateZExt(is_set, b.getInt32Ty()));
        Value *at = b.CreateSelect(down, b.CreateSub(base, b.getInt32(place)), b.CreateAdd(base, b.getInt32(place)));
        result = b.CreateSelect(b.CreateAnd(is_set, b.CreateICmpEQ(passed, count)), at, result);
    }
    Value *here = b.CreateSelect(b.CreateTrunc(rest, b.getInt1Ty()), base, b.getInt32(~0u));
    i.low.write(i.operand(0), b.CreateSelect(b.CreateICmpEQ(offset, b.getInt32(0)), here, result), WORD);
}

/// lop3: any function of three bits. Its table may have a value for each thread only as a number.
void lower_lop3(Instruction &i)
{
    Builder &b = i.b;
    const llvm::StringRef combine = i.take_one({"and", "or"});
    const Type type = i.need_type();
    const uint64_t table = i.number(4);
    Value *in[3] = {i.in(1, type), i.in(2, type), i.in(3, type)}, *result = number_like(in[0], 0);
    for (unsigned row = 0; row < 8; row++) {
        if (!(table >> row & 1))
            continue;
        Value *term = llvm::ConstantInt::getAllOnesValue(in[0]->getType());
        for (unsigned operand = 0; operand < 3; operand++)
            term = b.CreateAnd(term, row >> (2 - operand) & 1 ? in[operand] : b.CreateNot(in[operand]));
        result = b.CreateOr(result, term);
    }
    const Operand &to = i.operand(0);
    i.low.write(to.kind == Operand::PAIR ? to.parts[0] : to, result, type);
    if (combine.empty() != (to.kind != Operand::PAIR))
        i.fail("a predicate needs .and or .or, and the reverse");
    if (to.kind == Operand::PAIR) {
        Value *some = b.CreateICmpNE(result, number_like(result, 0)), *with = i.low.predicate(i.operand(5));
        i.low.write_predicate(to.parts[1], combine == "and" ? b.CreateAnd(some, with) : b.CreateOr(some, with));
    }
}

/// Number of the byte that goes into byte `place`, in the modes of prmt that have a selector for all.
Value *byte_of_mode(Builder &b, llvm::StringRef mode, Value *selector, unsigned place)
{
    Value *first = b.CreateAnd(selector, 3);
    if (mode == "f4e")
        return b.CreateAdd(first, b.getInt32(place));
    if (mode == "b4e")
        return b.CreateAnd(b.CreateSub(first, b.getInt32(place)), 7);
    if (mode == "rc8")
        return first;
    if (mode == "ecl")
        return maximum(b, first, b.getInt32(place), false);
    if (mode == "ecr")
        return minimum(b, first, b.getInt32(place), false);
    return b.CreateAdd(b.CreateShl(b.CreateAnd(selector, 1), 1), b.getInt32(place & 1)); // rc16
}

void lower_prmt(Instruction &i)
{
    Builder &b = i.b;
    i.need_type();
    const llvm::StringRef mode = i.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
    Value *both = b.CreateOr(b.CreateShl(b.CreateZExt(i.in(2, WORD), b.getInt64Ty()), 32),
                             b.CreateZExt(i.in(1, WORD), b.getInt64Ty()));
    Value *selector = i.in(3, WORD), *result = b.getInt32(0);
    for (unsigned place = 0; place < 4; place++) {
        Value *nibble = b.CreateLShr(selector, 4 * place);
        Value *number = mode.empty() ? b.CreateAnd(nibble, 7) : byte_of_mode(b, mode, selector, place);
        Value *shift = b.CreateZExt(b.CreateShl(number, 3), b.getInt64Ty());
        Value *byte = b.CreateTrunc(b.CreateLShr(both, shift), b.getInt8Ty());
        if (mode.empty()) {
            Value *signs = b.CreateICmpNE(b.CreateAnd(nibble, 8), b.getInt32(0));
            byte = b.CreateSelect(signs, b.CreateAShr(byte, 7), byte);
        }
        result = b.CreateOr(result, b.CreateShl(b.CreateZExt(byte, b.getInt32Ty()), 8 * place));
    }
    i.low.write(i.operand(0), result, WORD);
}

} // namespace

llvm::ArrayRef<Form> bit_forms()
{
    static const Form forms[] = {
        {"and", 3, 3, lower_logic},   {"or", 3, 3, lower_logic},    {"xor", 3, 3, lower_logic},
        {"not", 2, 2, lower_logic},   {"cnot", 2, 2, lower_logic},  {"shl", 3, 3, lower_shift},
        {"shr", 3, 3, lower_shift},   {"shf", 4, 4, lower_funnel},  {"bfe", 4, 4, lower_bfe},
        {"bfi", 5, 5, lower_bfi},     {"szext", 3, 3, lower_szext}, {"bmsk", 3, 3, lower_bmsk},
        {"popc", 2, 2, lower_count},  {"clz", 2, 2, lower_count},   {"brev", 2, 2, lower_count},
        {"bfind", 2, 2, lower_bfind}, {"fns", 4, 4, lower_fns},     {"lop3", 5, 6, lower_lop3},
        {"prmt", 4, 4, lower_prmt},
    };
    return forms;
}

} // namespace vgc::ptx
