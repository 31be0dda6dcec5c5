// Video instructions: on a part of each register (vadd, vmad, vset and the like), or on all its bytes or half-words
// (vadd4, vabsdiff2).
#include "forms.h"
#include "math.h"

#include "llvm/ADT/StringSwitch.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const unsigned WIDE = 80; // bits in which no operation overflows
const Type UNSIGNED_WORD{Type::UNSIGNED, 32, 1};

/// Types of the result and of the operands, all of 32 bits; comparisons give numbers without sign.
struct Types {
    Type to, left, right;
};

Types take_types(Instruction &i, bool is_comparison)
{
    const Type to = is_comparison ? UNSIGNED_WORD : i.need_type();
    const Types types{to, i.need_type(), i.need_type()};
    for (const Type type : {types.to, types.left, types.right})
        if (type.bits != 32 || type.lanes != 1 || (type.kind != Type::SIGNED && type.kind != Type::UNSIGNED))
            i.refuse();
    return types;
}

Value *compare(Builder &b, llvm::StringRef comparison, Value *left, Value *right)
{
    const auto predicate = llvm::StringSwitch<llvm::CmpInst::Predicate>(comparison)
                               .Case("eq", llvm::CmpInst::ICMP_EQ)
                               .Case("ne", llvm::CmpInst::ICMP_NE)
                               .Case("lt", llvm::CmpInst::ICMP_SLT)
                               .Case("le", llvm::CmpInst::ICMP_SLE)
                               .Case("gt", llvm::CmpInst::ICMP_SGT)
                               .Default(llvm::CmpInst::ICMP_SGE);
    return b.CreateZExt(b.CreateICmp(predicate, left, right), left->getType());
}

/// What an instruction does with two numbers.
struct Operation {
    /// Takes the modifiers of the instruction `name`, which is its mnemonic without the number of lanes.
    Operation(Instruction &i, llvm::StringRef name) : name(name)
    {
        if (name == "vset")
            modifier = i.need_one({"eq", "ne", "lt", "le", "gt", "ge"});
        else if (name == "vshl" || name == "vshr")
            modifier = i.need_one({"clamp", "wrap"});
    }
    llvm::StringRef name, modifier;
};

Value *shift(Builder &b, const Operation &operation, Value *value, Value *amount)
{
    if (operation.modifier == "wrap")
        amount = b.CreateAnd(amount, 31);
    else
        amount = minimum(b, amount, number_like(amount, 32), false);
    return operation.name == "vshl" ? b.CreateShl(value, amount) : b.CreateAShr(value, amount);
}

Value *operate(Builder &b, const Operation &operation, Value *left, Value *right)
{
    const llvm::StringRef name = operation.name;
    if (name == "vset")
        return compare(b, operation.modifier, left, right);
    if (name == "vshl" || name == "vshr")
        return shift(b, operation, left, right);
    if (name == "vadd")
        return b.CreateAdd(left, right);
    if (name == "vsub")
        return b.CreateSub(left, right);
    if (name == "vavrg") { // half of the sum, rounded away from 0
        Value *sum = b.CreateAdd(left, right);
        Value *positive = b.CreateICmpSGE(sum, number_like(sum, 0));
        return b.CreateAShr(b.CreateAdd(sum, b.CreateZExt(positive, sum->getType())), 1);
    }
    if (name == "vmin")
        return minimum(b, left, right, true);
    if (name == "vmax")
        return maximum(b, left, right, true);
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, b.CreateSub(left, right), b.getFalse());
}

/// vadd4, vabsdiff2 and the like.
void lower_lanes(Instruction &i)
{
    Builder &b = i.b;
    const unsigned lanes = i.mnemonic().back() == '4' ? 4 : 2, bits = 32 / lanes;
    const Operation operation(i, i.mnemonic().drop_back());
    const auto [to, left, right] = take_types(i, operation.name == "vset");
    const bool sat = operation.name != "vset" && i.take("sat"), sums = i.take("add");
    Value *a = i.in(1, left), *c = i.in(2, right), *third = i.in(3, to);
    auto lane = [&](Value *from, unsigned n, bool is_signed) {
        return extend(b, b.CreateTrunc(b.CreateLShr(from, n * bits), b.getIntNTy(bits)), WIDE, is_signed);
    };
    Value *result = sums ? third : b.getInt32(0);
    for (unsigned n = 0; n < lanes; n++) {
        Value *value = operate(b, operation, lane(a, n, left.is_signed()), lane(c, n, right.is_signed()));
        if (sums) {
            result = b.CreateAdd(result, b.CreateTrunc(value, b.getInt32Ty()));
            continue;
        }
        value = sat ? clamp(b, value, true, bits, to.is_signed()) : b.CreateTrunc(value, b.getIntNTy(bits));
        result = b.CreateOr(result, b.CreateShl(b.CreateZExt(value, b.getInt32Ty()), n * bits));
    }
    i.low.write(i.operand(0), result, to);
}

/// A register, or a byte or half-word of it: r.b3, r.h1.
struct Part {
    Part(Operand given) : operand(std::move(given))
    {
        const size_t dot = operand.name.rfind('.');
        const llvm::StringRef suffix = llvm::StringRef(operand.name).substr(dot == std::string::npos ? dot : dot + 1);
        if (suffix.size() != 2 || !(suffix[0] == 'b' ? suffix[1] >= '0' && suffix[1] < '4'
                                                     : suffix[0] == 'h' && (suffix[1] == '0' || suffix[1] == '1')))
            return;
        bits = suffix[0] == 'b' ? 8 : 16;
        first = unsigned(suffix[1] - '0') * bits;
        operand.name.resize(dot);
    }
    Value *value(Instruction &i, Type type) const
    {
        Value *whole = i.low.value(operand, type);
        return extend(i.b, i.b.CreateTrunc(i.b.CreateLShr(whole, first), i.b.getIntNTy(bits)), WIDE, type.is_signed());
    }
    Operand operand;
    unsigned first = 0, bits = 32;
};

Value *combine(Builder &b, llvm::StringRef name, Value *left, Value *right, bool is_signed)
{
    if (name == "add")
        return b.CreateAdd(left, right);
    return name == "min" ? minimum(b, left, right, is_signed) : maximum(b, left, right, is_signed);
}

/// vadd and the like: the result is a register, a part of one with the rest of the third operand, or combined with
/// that.
void lower_word(Instruction &i)
{
    Builder &b = i.b;
    const Operation operation(i, i.mnemonic());
    const auto [to, left, right] = take_types(i, operation.name == "vset");
    const bool sat = operation.name != "vset" && i.take("sat");
    const llvm::StringRef second = i.take_one({"add", "min", "max"});
    const Part result(i.operand(0));
    const bool merges = result.bits < 32;
    if (i.size() != (merges || !second.empty() ? 4 : 3) || (merges && !second.empty()))
        i.fail("a third operand goes with a part of the result, or with .add, .min or .max");
    Value *value = operate(b, operation, Part(i.operand(1)).value(i, left), Part(i.operand(2)).value(i, right));
    value = sat ? clamp(b, value, true, result.bits, to.is_signed()) : b.CreateTrunc(value, b.getIntNTy(result.bits));
    if (!second.empty())
        value = combine(b, second, value, i.in(3, to), to.is_signed());
    if (merges) {
        const uint32_t mask = ((1u << result.bits) - 1) << result.first;
        Value *part = b.CreateShl(b.CreateZExt(value, b.getInt32Ty()), result.first);
        value = b.CreateOr(b.CreateAnd(i.in(3, to), uint64_t(~mask)), part);
    }
    i.low.write(result.operand, value, to);
}

/// vmad: a product, with a sign if one of its factors has one.
void lower_product(Instruction &i)
{
    Builder &b = i.b;
    const auto [to, left, right] = take_types(i, false);
    const bool is_signed = left.is_signed() || right.is_signed(), adds_one = i.take("po"), sat = i.take("sat");
    const llvm::StringRef scale = i.take_one({"shr7", "shr15"});
    Value *value = b.CreateMul(Part(i.operand(1)).value(i, left), Part(i.operand(2)).value(i, right));
    value = b.CreateAdd(value, extend(b, i.in(3, to), WIDE, is_signed));
    if (adds_one)
        value = b.CreateAdd(value, number_like(value, 1));
    if (!scale.empty())
        value = b.CreateAShr(value, scale == "shr7" ? 7 : 15);
    value = sat ? clamp(b, value, true, 32, is_signed) : b.CreateTrunc(value, b.getInt32Ty());
    i.low.write(i.operand(0), value, to);
}

} // namespace

llvm::ArrayRef<Form> video_forms()
{
    static const Form forms[] = {
        {"vadd4", 4, 4, lower_lanes},   {"vsub4", 4, 4, lower_lanes},     {"vavrg4", 4, 4, lower_lanes},
        {"vmin4", 4, 4, lower_lanes},   {"vmax4", 4, 4, lower_lanes},     {"vabsdiff4", 4, 4, lower_lanes},
        {"vset4", 4, 4, lower_lanes},   {"vadd2", 4, 4, lower_lanes},     {"vsub2", 4, 4, lower_lanes},
        {"vmin2", 4, 4, lower_lanes},   {"vavrg2", 4, 4, lower_lanes},    {"vmax2", 4, 4, lower_lanes},
        {"vset2", 4, 4, lower_lanes},   {"vabsdiff2", 4, 4, lower_lanes}, {"vadd", 3, 4, lower_word},
        {"vsub", 3, 4, lower_word},     {"vmin", 3, 4, lower_word},       {"vmax", 3, 4, lower_word},
        {"vabsdiff", 3, 4, lower_word}, {"vshl", 3, 4, lower_word},       {"vshr", 3, 4, lower_word},
        {"vset", 3, 4, lower_word},     {"vmad", 4, 4, lower_product},
    };
    return forms;
}

} // namespace vgc::ptx
