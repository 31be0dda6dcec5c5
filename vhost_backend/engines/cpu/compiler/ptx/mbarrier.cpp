// mbarrier: barrier objects in shared memory. A thread that tests one lets the other threads of its block go on first,
// so that loops which wait for an object's phase come to their end.
#include "mbarrier.h"

#include "../../vgc_cpu_mbarrier.h"
#include "address.h"
#include "forms.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const Type WORD{Type::BITS, 32, 1};
const Type OBJECT{Type::BITS, 64, 1};

void take_semantics(Instruction &i)
{
    i.take_one({"release", "acquire", "relaxed"});
    i.take_one({"cta", "cluster"});
}

Value *field(Builder &b, Value *object, unsigned first, unsigned bits)
{
    return b.CreateAnd(b.CreateLShr(object, first), (uint64_t(1) << bits) - 1);
}

void lower_init(Instruction &i)
{
    Builder &b = i.b;
    Value *place = pointer(i, 0, take_space(i));
    Value *count = b.CreateZExt(b.CreateAnd(i.in(1, WORD), VGC_MBARRIER_MAX_COUNT), b.getInt64Ty());
    b.CreateAlignedStore(b.CreateOr(count, b.CreateShl(count, VGC_MBARRIER_EXPECTED)), place, llvm::Align(8));
}

void lower_inval(Instruction &i)
{
    i.b.CreateAlignedStore(i.b.getInt64(0), pointer(i, 0, take_space(i)), llvm::Align(8));
}

/// expect_tx and complete_tx by themselves.
void lower_bytes(Instruction &i, bool expects)
{
    take_semantics(i);
    Value *place = pointer(i, 0, take_space(i)), *bytes = i.in(1, WORD);
    arrive_at(i, place, i.b.getInt32(0), i.b.getInt32(0), expects ? bytes : i.b.CreateNeg(bytes));
}

/// arrive and arrive_drop; the last operand is the number of arrivals, or of bytes.
void lower_arrive(Instruction &i, bool drops)
{
    Builder &b = i.b;
    const bool expects = i.take("expect_tx");
    i.take("noComplete");
    take_semantics(i);
    Value *place = pointer(i, 1, take_space(i)), *one = b.getInt32(1), *none = b.getInt32(0);
    Value *given = i.size() > 2 ? i.in(2, WORD) : one, *count = expects ? one : given;
    Value *before = arrive_at(i, place, count, drops ? count : none, expects ? given : none);
    if (i.operand(0).kind != Operand::SINK)
        i.low.write(i.operand(0), before, OBJECT);
}

/// test_wait and try_wait, which suspends a thread for some time only: for as long as others can go on.
void lower_wait(Instruction &i)
{
    Builder &b = i.b;
    const bool parity = i.take("parity");
    take_semantics(i);
    Value *place = pointer(i, 1, take_space(i));
    Value *known = parity ? b.CreateAnd(b.CreateZExt(i.in(2, WORD), b.getInt64Ty()), 1)
                          : field(b, i.in(2, OBJECT), VGC_MBARRIER_PHASE, 1);
    i.low.call_builtin("__vgc_yield", b.getVoidTy());
    Value *phase = field(b, b.CreateAlignedLoad(b.getInt64Ty(), place, llvm::Align(8)), VGC_MBARRIER_PHASE, 1);
    i.low.write_predicate(i.operand(0), b.CreateICmpNE(phase, known));
}

void lower_pending(Instruction &i)
{
    Value *count = field(i.b, i.in(1, OBJECT), 0, VGC_MBARRIER_COUNT_BITS);
    i.low.write(i.operand(0), i.b.CreateTrunc(count, i.b.getInt32Ty()), WORD);
}

void lower_mbarrier(Instruction &i)
{
    static const struct {
        llvm::StringRef name;
        size_t min_operands, max_operands;
        void (*lower)(Instruction &);
    } operations[] = {
        {"arrive", 2, 3, [](Instruction &i) { lower_arrive(i, false); }}, // before expect_tx, which it may have
        {"arrive_drop", 2, 3, [](Instruction &i) { lower_arrive(i, true); }},
        {"init", 2, 2, lower_init},
        {"inval", 1, 1, lower_inval},
        {"expect_tx", 2, 2, [](Instruction &i) { lower_bytes(i, true); }},
        {"complete_tx", 2, 2, [](Instruction &i) { lower_bytes(i, false); }},
        {"test_wait", 3, 3, lower_wait},
        {"try_wait", 3, 4, lower_wait},
        {"pending_count", 2, 2, lower_pending},
    };
    i.take("b64");
    for (const auto &operation : operations)
        if (i.take(operation.name)) {
            if (i.size() < operation.min_operands || i.size() > operation.max_operands)
                i.fail("it has " + llvm::Twine(i.size()) + " operands, " + llvm::Twine(operation.min_operands) +
                       " to " + llvm::Twine(operation.max_operands) + " are possible");
            return operation.lower(i);
        }
    i.refuse();
}

} // namespace

Value *arrive_at(Instruction &i, Value *place, Value *count, Value *dropped, Value *bytes)
{
    return i.low.call_builtin("__vgc_mbarrier_arrive", i.b.getInt64Ty(), {place, count, dropped, bytes});
}

llvm::ArrayRef<Form> mbarrier_forms()
{
    static const Form forms[] = {{"mbarrier", 1, 4, lower_mbarrier}};
    return forms;
}

} // namespace vgc::ptx
