// Comparisons and selections: set, setp, selp, slct.
#include "float.h"
#include "forms.h"

#include "llvm/ADT/StringSwitch.h"

namespace vgc::ptx
{
namespace
{

using llvm::CmpInst;
using llvm::Value;

CmpInst::Predicate float_comparison(llvm::StringRef name)
{
    return llvm::StringSwitch<CmpInst::Predicate>(name)
        .Case("eq", CmpInst::FCMP_OEQ)
        .Case("ne", CmpInst::FCMP_ONE)
        .Case("lt", CmpInst::FCMP_OLT)
        .Case("le", CmpInst::FCMP_OLE)
        .Case("gt", CmpInst::FCMP_OGT)
        .Case("ge", CmpInst::FCMP_OGE)
        .Case("equ", CmpInst::FCMP_UEQ)
        .Case("neu", CmpInst::FCMP_UNE)
        .Case("ltu", CmpInst::FCMP_ULT)
        .Case("leu", CmpInst::FCMP_ULE)
        .Case("gtu", CmpInst::FCMP_UGT)
        .Case("geu", CmpInst::FCMP_UGE)
        .Case("num", CmpInst::FCMP_ORD)
        .Case("nan", CmpInst::FCMP_UNO)
        .Default(CmpInst::BAD_FCMP_PREDICATE);
}

CmpInst::Predicate integer_comparison(llvm::StringRef name, bool is_signed)
{
    return llvm::StringSwitch<CmpInst::Predicate>(name)
        .Case("eq", CmpInst::ICMP_EQ)
        .Case("ne", CmpInst::ICMP_NE)
        .Case("lt", is_signed ? CmpInst::ICMP_SLT : CmpInst::ICMP_ULT)
        .Case("le", is_signed ? CmpInst::ICMP_SLE : CmpInst::ICMP_ULE)
        .Case("gt", is_signed ? CmpInst::ICMP_SGT : CmpInst::ICMP_UGT)
        .Case("ge", is_signed ? CmpInst::ICMP_SGE : CmpInst::ICMP_UGE)
        .Case("lo", CmpInst::ICMP_ULT)
        .Case("ls", CmpInst::ICMP_ULE)
        .Case("hi", CmpInst::ICMP_UGT)
        .Case("hs", CmpInst::ICMP_UGE)
        .Default(CmpInst::BAD_ICMP_PREDICATE);
}

llvm::StringRef take_comparison(Instruction &i)
{
    return i.need_one({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
                       "geu", "num", "nan"});
}

/// Results of the comparison, one for each lane.
std::vector<Value *> compare(Instruction &i, llvm::StringRef comparison, Type type, bool ftz)
{
    Builder &b = i.b;
    if (!type.is_float()) {
        const CmpInst::Predicate predicate = integer_comparison(comparison, type.is_signed());
        if (predicate == CmpInst::BAD_ICMP_PREDICATE || type.kind == Type::PREDICATE)
            i.refuse();
        return {b.CreateICmp(predicate, i.in(1, type), i.in(2, type))};
    }
    const CmpInst::Predicate predicate = float_comparison(comparison);
    if (predicate == CmpInst::BAD_FCMP_PREDICATE)
        i.refuse();
    std::vector<Value *> left = i.low.lanes(i.operand(1), type), right = i.low.lanes(i.operand(2), type);
    for (size_t n = 0; n < left.size(); n++)
        left[n] = b.CreateFCmp(predicate, flush(b, left[n], type.lane(), ftz), flush(b, right[n], type.lane(), ftz));
    return left;
}

Value *combine(Builder &b, llvm::StringRef operation, Value *left, Value *right)
{
    return operation == "and"  ? b.CreateAnd(left, right)
           : operation == "or" ? b.CreateOr(left, right)
                               : b.CreateXor(left, right);
}

void lower_setp(Instruction &i)
{
    const llvm::StringRef comparison = take_comparison(i), operation = i.take_one({"and", "or", "xor"});
    const bool ftz = i.take("ftz");
    const Type type = i.need_type();
    std::vector<Value *> results = compare(i, comparison, type, ftz);
    if (results.size() == 1)
        results.push_back(i.b.CreateNot(results[0]));
    if (operation.empty() != (i.size() == 3))
        i.fail("a third source needs .and, .or or .xor, and the reverse");
    if (!operation.empty()) {
        Value *with = i.low.predicate(i.operand(3));
        for (Value *&result : results)
            result = combine(i.b, operation, result, with);
    }
    const Operand &to = i.operand(0);
    i.low.write_predicate(to.kind == Operand::PAIR ? to.parts[0] : to, results[0]);
    if (to.kind == Operand::PAIR)
        i.low.write_predicate(to.parts[1], results[1]);
}

/// Bits of a true result of `set`: all, or 1.0.
llvm::APInt true_bits(Instruction &i, Type lane)
{
    if (!lane.is_float())
        return llvm::APInt::getAllOnes(lane.bits);
    const auto *one = llvm::cast<llvm::ConstantInt>(narrow(i.b, llvm::ConstantFP::get(i.b.getFloatTy(), 1.0), lane));
    return one->getValue();
}

void lower_set(Instruction &i)
{
    Builder &b = i.b;
    const llvm::StringRef comparison = take_comparison(i), operation = i.take_one({"and", "or", "xor"});
    const bool ftz = i.take("ftz");
    const Type to = i.need_type(), type = i.need_type();
    std::vector<Value *> results = compare(i, comparison, type, ftz);
    const unsigned bits = to.width() / unsigned(results.size());
    Value *whole = llvm::ConstantInt::get(b.getIntNTy(to.width()), 0);
    for (size_t n = 0; n < results.size(); n++) {
        Value *result =
            operation.empty() ? results[n] : combine(b, operation, results[n], i.low.predicate(i.operand(3)));
        const llvm::APInt ones = true_bits(i, {to.kind, bits, 1}).zext(to.width()).shl(unsigned(n) * bits);
        whole = b.CreateOr(whole,
                           b.CreateSelect(result, llvm::ConstantInt::get(b.getContext(), ones), number_like(whole, 0)));
    }
    i.low.write(i.operand(0), whole, to);
}

void lower_selp(Instruction &i)
{
    const Type type = i.need_type();
    Value *first = i.in(1, type), *second = i.in(2, type);
    i.low.write(i.operand(0), i.b.CreateSelect(i.low.predicate(i.operand(3)), first, second), type);
}

void lower_slct(Instruction &i)
{
    const bool ftz = i.take("ftz");
    const Type type = i.need_type(), by = i.need_type();
    Value *first = i.in(1, type), *second = i.in(2, type), *is_first;
    if (by.is_float()) {
        Value *value = flush(i.b, i.low.lanes(i.operand(3), by)[0], by, ftz);
        is_first = i.b.CreateFCmpOGE(value, llvm::ConstantFP::get(value->getType(), 0.0));
    } else {
        Value *value = i.in(3, by);
        is_first = i.b.CreateICmpSGE(value, number_like(value, 0));
    }
    i.low.write(i.operand(0), i.b.CreateSelect(is_first, first, second), type);
}

} // namespace

llvm::ArrayRef<Form> compare_forms()
{
    static const Form forms[] = {
        {"setp", 3, 4, lower_setp},
        {"set", 3, 4, lower_set},
        {"selp", 4, 4, lower_selp},
        {"slct", 4, 4, lower_slct},
    };
    return forms;
}

} // namespace vgc::ptx
