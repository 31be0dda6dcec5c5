// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, with carries, in halves and dot products.
#include "float.h"
#include "forms.h"
#include "instruction.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// Applies an operation to the lanes of packed integers.
template <typename Operation> Value *by_lanes(Builder &b, Type type, Value *left, Value *right, Operation operation)
{
    Value *whole = number_like(left, 0);
    for (unsigned i = 0; i < type.lanes; i++) {
        auto lane = [&](Value *from) {
            return b.CreateTrunc(b.CreateLShr(from, i * type.bits), b.getIntNTy(type.bits));
        };
        Value *result = b.CreateZExt(operation(lane(left), lane(right)), left->getType());
        whole = b.CreateOr(whole, b.CreateShl(result, i * type.bits));
    }
    return whole;
}

/// left + right + carry, or left + ~right + carry; notes the carry in CC if asked to. A difference that borrows nothing
/// leaves a carry, as on GPUs: CUDA's divisions of 128 bits read it with addc after sub.cc.
Value *add_with_carry(Instruction &i, Value *left, Value *right, bool subtract, bool use, bool note)
{
    Builder &b = i.b;
    const unsigned bits = left->getType()->getIntegerBitWidth();
    Value *wide_left = extend(b, left, bits + 1, false);
    Value *wide_right = extend(b, subtract ? b.CreateNot(right) : right, bits + 1, false);
    Value *carry = use ? b.CreateZExt(i.low.carry(), wide_left->getType()) : number_like(wide_left, subtract ? 1 : 0);
    Value *sum = b.CreateAdd(b.CreateAdd(wide_left, wide_right), carry);
    if (note)
        i.low.set_carry(b.CreateTrunc(b.CreateLShr(sum, bits), b.getInt1Ty()));
    return b.CreateTrunc(sum, left->getType());
}

Value *add_saturated(Builder &b, Type type, Value *left, Value *right, bool subtract)
{
    if (type.is_signed())
        return b.CreateBinaryIntrinsic(subtract ? llvm::Intrinsic::ssub_sat : llvm::Intrinsic::sadd_sat, left, right);
    return b.CreateBinaryIntrinsic(subtract ? llvm::Intrinsic::usub_sat : llvm::Intrinsic::uadd_sat, left, right);
}

void lower_add(Instruction &i)
{
    const llvm::StringRef name = i.mnemonic();
    const bool subtract = name.starts_with("sub"), use = name.ends_with("c"), note = i.take("cc");
    const bool saturate = i.take("sat");
    const Type type = i.need_type();
    if (type.is_float())
        return lower_float_binary(i, type, saturate);
    Builder &b = i.b;
    Value *left = i.in(1, type), *right = i.in(2, type), *sum;
    if (use || note)
        sum = add_with_carry(i, left, right, subtract, use, note);
    else if (saturate)
        sum =
            by_lanes(b, type, left, right, [&](Value *l, Value *r) { return add_saturated(b, type, l, r, subtract); });
    else
        sum = by_lanes(b, type, left, right,
                       [&](Value *l, Value *r) { return subtract ? b.CreateSub(l, r) : b.CreateAdd(l, r); });
    i.low.write(i.operand(0), sum, type);
}

/// Half of a product of two operands of `bits` bits, or all of it.
Value *multiply(Instruction &i, Type type, llvm::StringRef part)
{
    Builder &b = i.b;
    Value *left = i.in(1, type), *right = i.in(2, type);
    if (part == "lo") // the same of both signs
        return b.CreateMul(left, right);
    Value *product = b.CreateMul(extend(b, left, 2 * type.bits, type.is_signed()),
                                 extend(b, right, 2 * type.bits, type.is_signed()));
    if (part == "wide")
        return product;
    return b.CreateTrunc(b.CreateLShr(product, type.bits), b.getIntNTy(type.bits));
}

Type result_of(Type type, llvm::StringRef part)
{
    return {type.kind, part == "wide" ? 2 * type.bits : type.bits, 1};
}

void lower_mul(Instruction &i)
{
    const llvm::StringRef part = i.take_one({"lo", "hi", "wide"});
    const bool saturate = i.take("sat");
    const Type type = i.need_type();
    if (type.is_float())
        return lower_float_binary(i, type, saturate);
    if (part.empty() || saturate || type.lanes > 1 || (part == "wide" && type.bits > 32))
        i.refuse();
    i.low.write(i.operand(0), multiply(i, type, part), result_of(type, part));
}

void lower_mad(Instruction &i)
{
    const llvm::StringRef part = i.take_one({"lo", "hi", "wide"});
    const bool note = i.take("cc"), use = i.mnemonic() == "madc", saturate = i.take("sat");
    const Type type = i.need_type();
    if (type.is_float())
        return lower_fma(i, type, saturate);
    if (part.empty() || type.lanes > 1 || (part == "wide" && type.bits > 32))
        i.refuse();
    const Type result = result_of(type, part);
    Value *product = multiply(i, type, part), *addend = i.in(3, result), *sum;
    if (saturate)
        sum = i.b.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, product, addend);
    else if (use || note)
        sum = add_with_carry(i, product, addend, false, use, note);
    else
        sum = i.b.CreateAdd(product, addend); // as one of add, so that it may be an address (pointers.cpp)
    i.low.write(i.operand(0), sum, result);
}

/// mul24 and mad24: products of the lowest 24 bits, of which the lower or the upper 32 of 48 bits are taken.
void lower_mul24(Instruction &i)
{
    Builder &b = i.b;
    const llvm::StringRef part = i.need_one({"lo", "hi"});
    const bool saturate = i.take("sat"), add = i.mnemonic() == "mad24";
    const Type type = i.need_type();
    auto factor = [&](size_t index) {
        return extend(b, b.CreateTrunc(i.in(index, type), b.getIntNTy(24)), 64, type.is_signed());
    };
    Value *product = b.CreateMul(factor(1), factor(2));
    product = b.CreateTrunc(part == "hi" ? b.CreateLShr(product, 16) : product, b.getInt32Ty());
    if (add && saturate)
        product = b.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, product, i.in(3, type));
    else if (add)
        product = b.CreateAdd(product, i.in(3, type));
    i.low.write(i.operand(0), product, type);
}

void lower_sad(Instruction &i)
{
    const Type type = i.need_type();
    Value *left = i.in(1, type), *right = i.in(2, type);
    Value *difference = i.b.CreateSub(maximum(i.b, left, right, type.is_signed()), //
                                      minimum(i.b, left, right, type.is_signed()));
    i.low.write(i.operand(0), i.b.CreateAdd(difference, i.in(3, type)), type);
}

/// A division as it stands: by a constant zero the builder would make a value of its own, before `define_results` has
/// given it the GPU's.
Value *divide_as_is(Builder &b, llvm::Instruction::BinaryOps operation, Value *left, Value *right)
{
    return b.Insert(llvm::BinaryOperator::Create(operation, left, right));
}

/// div and rem. The smallest number by -1 has no quotient on x86; on a GPU it wraps.
void lower_div(Instruction &i)
{
    const Type type = i.need_type();
    if (type.is_float())
        return lower_float_div(i, type);
    Builder &b = i.b;
    const bool remainder = i.mnemonic() == "rem";
    Value *left = i.in(1, type), *right = i.in(2, type), *result;
    if (type.is_signed()) {
        Value *negates = b.CreateICmpEQ(right, llvm::ConstantInt::getAllOnesValue(right->getType()));
        Value *divisor = b.CreateSelect(negates, number_like(right, 1), right);
        Value *special = remainder ? number_like(left, 0) : b.CreateNeg(left);
        result = divide_as_is(b, remainder ? llvm::Instruction::SRem : llvm::Instruction::SDiv, left, divisor);
        result = b.CreateSelect(negates, special, result);
    } else {
        result = divide_as_is(b, remainder ? llvm::Instruction::URem : llvm::Instruction::UDiv, left, right);
    }
    i.low.write(i.operand(0), result, type);
}

void lower_abs(Instruction &i)
{
    const bool negate = i.mnemonic() == "neg";
    const bool flush = i.take("ftz");
    const Type type = i.need_type();
    if (type.is_float())
        return lower_float_sign(i, type, flush);
    Value *value = i.in(1, type);
    value = by_lanes(i.b, type, value, value, [&](Value *lane, Value *) {
        return negate ? i.b.CreateNeg(lane) : i.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, lane, i.b.getFalse());
    });
    i.low.write(i.operand(0), value, type);
}

void lower_min(Instruction &i)
{
    const bool least = i.mnemonic() == "min", relu = i.take("relu");
    const Type type = i.need_type();
    if (type.is_float())
        return relu ? i.refuse() : lower_float_min(i, type);
    if (i.size() == 4)
        i.refuse();
    Value *result = by_lanes(i.b, type, i.in(1, type), i.in(2, type), [&](Value *left, Value *right) {
        Value *lane = least ? minimum(i.b, left, right, type.is_signed()) : maximum(i.b, left, right, type.is_signed());
        return relu ? maximum(i.b, lane, number_like(lane, 0), true) : lane;
    });
    i.low.write(i.operand(0), result, type);
}

/// Sum of products of bytes with bytes (dp4a) or half-words (dp2a).
void lower_dot(Instruction &i)
{
    Builder &b = i.b;
    const bool bytes = i.mnemonic() == "dp4a";
    const unsigned skip = bytes || i.need_one({"lo", "hi"}) == "lo" ? 0 : 2;
    const Type left = i.need_type(), right = i.need_type();
    const Type result = left.is_signed() || right.is_signed() ? Type{Type::SIGNED, 32, 1} : Type{Type::UNSIGNED, 32, 1};
    Value *sum = i.in(3, result), *a = i.in(1, left), *c = i.in(2, right);
    auto part = [&](Value *from, unsigned index, unsigned bits, bool is_signed) {
        return extend(b, b.CreateTrunc(b.CreateLShr(from, index * bits), b.getIntNTy(bits)), 32, is_signed);
    };
    for (unsigned lane = 0; lane < (bytes ? 4 : 2); lane++)
        sum = b.CreateAdd(sum, b.CreateMul(part(a, lane, bytes ? 8 : 16, left.is_signed()),
                                           part(c, lane + skip, 8, right.is_signed())));
    i.low.write(i.operand(0), sum, result);
}

} // namespace

llvm::ArrayRef<Form> integer_forms()
{
    static const Form forms[] = {
        {"add", 3, 3, lower_add},  {"sub", 3, 3, lower_add},     {"addc", 3, 3, lower_add},
        {"subc", 3, 3, lower_add}, {"mul", 3, 3, lower_mul},     {"mad", 4, 4, lower_mad},
        {"madc", 4, 4, lower_mad}, {"mul24", 3, 3, lower_mul24}, {"mad24", 4, 4, lower_mul24},
        {"sad", 4, 4, lower_sad},  {"div", 3, 3, lower_div},     {"rem", 3, 3, lower_div},
        {"abs", 2, 2, lower_abs},  {"neg", 2, 2, lower_abs},     {"min", 3, 4, lower_min},
        {"max", 3, 4, lower_min},  {"dp4a", 4, 4, lower_dot},    {"dp2a", 4, 4, lower_dot},
    };
    return forms;
}

} // namespace vgc::ptx
