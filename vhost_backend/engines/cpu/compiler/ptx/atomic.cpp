// atom and red.
#include "address.h"
#include "forms.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::AtomicRMWInst;
using llvm::Value;

struct Operation {
    llvm::StringRef name;
    AtomicRMWInst::BinOp integer;
    AtomicRMWInst::BinOp with_sign;
};

const Operation OPERATIONS[] = {
    {"add", AtomicRMWInst::Add, AtomicRMWInst::Add},
    {"min", AtomicRMWInst::UMin, AtomicRMWInst::Min},
    {"max", AtomicRMWInst::UMax, AtomicRMWInst::Max},
    {"and", AtomicRMWInst::And, AtomicRMWInst::And},
    {"or", AtomicRMWInst::Or, AtomicRMWInst::Or},
    {"xor", AtomicRMWInst::Xor, AtomicRMWInst::Xor},
    {"exch", AtomicRMWInst::Xchg, AtomicRMWInst::Xchg},
    {"inc", AtomicRMWInst::UIncWrap, AtomicRMWInst::UIncWrap},
    {"dec", AtomicRMWInst::UDecWrap, AtomicRMWInst::UDecWrap},
};

/// Replaces a value of 16 or 2 times 16 bits in memory by what `update` makes of it.
template <typename Update>
Value *replace(Instruction &i, Value *place, Type type, llvm::AtomicOrdering ordering, Update update)
{
    Builder &b = i.b;
    llvm::Type *integer = b.getIntNTy(type.width());
    const llvm::Align align(type.width() / 8);
    llvm::LoadInst *first = b.CreateAlignedLoad(integer, place, align);
    first->setOrdering(llvm::AtomicOrdering::Monotonic);
    llvm::BasicBlock *before = b.GetInsertBlock(), *loop = i.low.new_block("ptx.update");
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode *old = b.CreatePHI(integer, 2);
    old->addIncoming(first, before);
    Value *desired = update(old);
    Value *both = b.CreateAtomicCmpXchg(place, old, desired, align, ordering, llvm::AtomicOrdering::Monotonic);
    old->addIncoming(b.CreateExtractValue(both, 0), b.GetInsertBlock());
    llvm::BasicBlock *after = i.low.new_block("ptx.updated");
    b.CreateCondBr(b.CreateExtractValue(both, 1), after, loop);
    b.SetInsertPoint(after);
    return old;
}

/// add, min and max of halves.
Value *update_halves(Instruction &i, llvm::StringRef operation, Value *place, Value *value, Type type,
                     llvm::AtomicOrdering ordering)
{
    Builder &b = i.b;
    return replace(i, place, type, ordering, [&](Value *old) {
        Value *whole = number_like(old, 0);
        for (unsigned n = 0; n < type.lanes; n++) {
            auto lane = [&](Value *from) {
                return widen(b, b.CreateTrunc(b.CreateLShr(from, n * type.bits), b.getIntNTy(type.bits)), type.lane());
            };
            Value *result = operation == "add" ? b.CreateFAdd(lane(old), lane(value))
                            : operation == "min"
                                ? b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, lane(old), lane(value))
                                : b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, lane(old), lane(value));
            Value *bits = b.CreateZExt(narrow(b, result, type.lane()), old->getType());
            whole = b.CreateOr(whole, b.CreateShl(bits, n * type.bits));
        }
        return whole;
    });
}

Value *apply(Instruction &i, llvm::StringRef operation, Value *place, Value *value, Type type,
             llvm::AtomicOrdering ordering)
{
    Builder &b = i.b;
    const llvm::Align align(type.width() / 8);
    if (type.is_float() && type.bits == 16 && operation != "exch")
        return update_halves(i, operation, place, value, type, ordering);
    if (type.is_float() && operation == "add") {
        if (type.lanes != 1)
            i.refuse();
        llvm::Type *real = type.bits == 64 ? b.getDoubleTy() : b.getFloatTy();
        Value *old = b.CreateAtomicRMW(AtomicRMWInst::FAdd, place, b.CreateBitCast(value, real), align, ordering);
        return b.CreateBitCast(old, value->getType());
    }
    for (const Operation &known : OPERATIONS)
        if (known.name == operation && (!type.is_float() || operation == "exch"))
            return b.CreateAtomicRMW(type.is_signed() ? known.with_sign : known.integer, place, value, align, ordering);
    i.refuse();
}

void lower_atomic(Instruction &i)
{
    Builder &b = i.b;
    const bool reduces = i.mnemonic() == "red";
    llvm::AtomicOrdering ordering = take_ordering(i);
    if (ordering == llvm::AtomicOrdering::NotAtomic)
        ordering = llvm::AtomicOrdering::Monotonic;
    const Space space = take_space(i);
    const llvm::StringRef operation =
        i.need_one({"add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"});
    i.take_one({"cta", "cluster", "gpu", "sys"});
    i.take("noftz");
    take_cache_hints(i);
    const llvm::StringRef vector = i.take_one({"v2", "v4", "v8"});
    const Type type = i.need_type();
    if (type.width() < 16)
        i.refuse();
    const size_t address = reduces ? 0 : 1;
    Value *place = pointer(i, address, space);
    if (operation == "cas") {
        Value *both =
            b.CreateAtomicCmpXchg(place, i.low.bits(i.operand(2), type.width()), i.low.bits(i.operand(3), type.width()),
                                  llvm::Align(type.width() / 8), ordering, llvm::AtomicOrdering::Monotonic);
        return i.low.write(i.operand(0), b.CreateExtractValue(both, 0), type);
    }
    const unsigned count = vector.empty() ? 1 : unsigned(vector[1] - '0');
    for (unsigned n = 0; n < count; n++) {
        auto part = [&](const Operand &operand) -> const Operand & {
            if (count > 1 && (operand.kind != Operand::VECTOR || operand.parts.size() != count))
                i.low.fail(operand.at, "expected " + llvm::Twine(count) + " registers in braces");
            return count > 1 ? operand.parts[n] : operand;
        };
        Value *value = i.low.value(part(i.operand(address + 1)), type);
        Value *old = apply(i, operation, b.CreateConstGEP1_64(b.getInt8Ty(), place, n * type.width() / 8), value, type,
                           ordering);
        if (!reduces)
            i.low.write(part(i.operand(0)), old, type);
    }
}

} // namespace

llvm::ArrayRef<Form> atomic_forms()
{
    static const Form forms[] = {
        {"atom", 3, 5, lower_atomic},
        {"red", 2, 3, lower_atomic},
    };
    return forms;
}

} // namespace vgc::ptx
