// Votes, matches, reductions and shuffles. The compiler cuts kernels at the operations of the engine that these
// are made of.
#include "warp.h"
#include "forms.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const Type WORD{Type::BITS, 32, 1};

/// Mask operand of the forms with .sync; the lanes that are here, of the others.
Value *members(Instruction &i, bool sync, size_t index)
{
    if (sync)
        return i.in(index, WORD);
    return warp_operation(i, VGC_SITE_ACTIVEMASK, i.b.getInt32(~0u), i.b.getInt32(0), i.b.getInt32(0));
}

void lower_vote(Instruction &i)
{
    Builder &b = i.b;
    const bool sync = i.take("sync");
    const llvm::StringRef mode = i.need_one({"all", "any", "uni", "ballot"});
    i.need_one({"pred", "b32"});
    Value *vote = b.CreateZExt(i.low.predicate(i.operand(1)), b.getInt32Ty());
    Value *mask = members(i, sync, 2), *zero = b.getInt32(0);
    auto ballot = [&](Value *of) { return warp_operation(i, VGC_SITE_BALLOT, mask, of, zero); };
    if (mode == "ballot")
        return i.low.write(i.operand(0), ballot(vote), WORD);
    if (mode == "any")
        return i.low.write_predicate(i.operand(0), b.CreateICmpNE(ballot(vote), zero));
    Value *against = b.CreateICmpEQ(ballot(b.CreateXor(vote, 1)), zero);
    if (mode == "uni")
        against = b.CreateOr(against, b.CreateICmpEQ(ballot(vote), zero));
    i.low.write_predicate(i.operand(0), against);
}

void lower_activemask(Instruction &i)
{
    i.need_type();
    i.low.write(i.operand(0), members(i, false, 0), WORD);
}

void lower_match(Instruction &i)
{
    const bool any = i.need_one({"any", "all"}) == "any";
    i.need_one({"sync"});
    const Type type = i.need_type();
    Value *result =
        warp_operation(i, any ? VGC_SITE_MATCH_ANY : VGC_SITE_MATCH_ALL, i.in(2, WORD), i.in(1, type), i.b.getInt32(0));
    const Operand &to = i.operand(0);
    result = i.b.CreateTrunc(result, i.b.getInt32Ty());
    i.low.write(to.kind == Operand::PAIR ? to.parts[0] : to, result, WORD);
    if (to.kind == Operand::PAIR)
        i.low.write_predicate(to.parts[1], i.b.CreateICmpNE(result, i.b.getInt32(0)));
}

Value *reduce(Instruction &i, llvm::StringRef operation, Type type, Value *left, Value *right)
{
    Builder &b = i.b;
    if (operation == "add")
        return b.CreateAdd(left, right);
    if (operation == "and")
        return b.CreateAnd(left, right);
    if (operation == "or")
        return b.CreateOr(left, right);
    if (operation == "xor")
        return b.CreateXor(left, right);
    if (!type.is_float())
        return operation == "min" ? minimum(b, left, right, type.is_signed())
                                  : maximum(b, left, right, type.is_signed());
    Value *l = widen(b, left, type), *r = widen(b, right, type);
    return narrow(
        b, b.CreateBinaryIntrinsic(operation == "min" ? llvm::Intrinsic::minnum : llvm::Intrinsic::maxnum, l, r), type);
}

/// redux.sync: a loop over the lanes of the mask.
void lower_redux(Instruction &i)
{
    Builder &b = i.b;
    i.need_one({"sync"});
    const llvm::StringRef operation = i.need_one({"add", "min", "max", "and", "or", "xor"});
    const Type type = i.need_type();
    if (type.bits != 32 || type.lanes > 1 || (type.is_float() && operation != "min" && operation != "max"))
        i.refuse();
    Value *mask = i.in(2, WORD), *value = i.in(1, type);
    llvm::AllocaInst *left = i.low.local(b.getInt32Ty()), *total = i.low.local(value->getType());
    b.CreateStore(mask, left);
    auto next = [&] {
        Value *rest = b.CreateLoad(b.getInt32Ty(), left);
        Value *lane = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, rest, b.getFalse());
        b.CreateStore(b.CreateAnd(rest, b.CreateSub(rest, b.getInt32(1))), left);
        return value_of_lane(i, mask, value, lane);
    };
    b.CreateStore(next(), total);
    llvm::BasicBlock *check = i.low.new_block("ptx.reduce"), *loop = i.low.new_block("ptx.lane"),
                     *after = i.low.new_block("ptx.reduced");
    b.CreateBr(check);
    b.SetInsertPoint(check);
    b.CreateCondBr(b.CreateICmpNE(b.CreateLoad(b.getInt32Ty(), left), b.getInt32(0)), loop, after);
    b.SetInsertPoint(loop);
    Value *other = next();
    b.CreateStore(reduce(i, operation, type, b.CreateLoad(value->getType(), total), other), total);
    b.CreateBr(check);
    b.SetInsertPoint(after);
    i.low.write(i.operand(0), b.CreateLoad(value->getType(), total), type);
}

/// The lane that a shuffle reads, and whether it is in range [PTX ISA, shfl.sync].
std::pair<Value *, Value *> source_lane(Instruction &i, llvm::StringRef mode, Value *distance, Value *limits)
{
    Builder &b = i.b;
    Value *lane = lane_number(i);
    distance = b.CreateAnd(distance, 31);
    Value *clamp = b.CreateAnd(limits, 31), *segment = b.CreateAnd(b.CreateLShr(limits, 8), 31);
    Value *inside = b.CreateNot(segment), *first = b.CreateAnd(lane, segment);
    Value *last = b.CreateOr(first, b.CreateAnd(clamp, inside)), *from, *good;
    if (mode == "up") {
        from = b.CreateSub(lane, distance);
        good = b.CreateICmpSGE(from, last);
    } else {
        from = mode == "down"   ? b.CreateAdd(lane, distance)
               : mode == "bfly" ? b.CreateXor(lane, distance)
                                : b.CreateOr(first, b.CreateAnd(distance, inside));
        good = b.CreateICmpSLE(from, last);
    }
    return {b.CreateSelect(good, from, lane), good};
}

void lower_shfl(Instruction &i)
{
    Builder &b = i.b;
    const bool sync = i.take("sync");
    const llvm::StringRef mode = i.need_one({"up", "down", "bfly", "idx"});
    i.need_type();
    const Operand &to = i.operand(0);
    Value *distance = i.in(2, WORD), *limits = i.in(3, WORD);
    const auto [from, good] = source_lane(i, mode, distance, limits);
    Value *value = i.in(1, WORD), *mask = members(i, sync, 4), *result;
    const auto *amount = llvm::dyn_cast<llvm::ConstantInt>(distance);
    const auto *limit = llvm::dyn_cast<llvm::ConstantInt>(limits);
    if (amount != nullptr && limit != nullptr && limit->getZExtValue() == (mode == "up" ? 0 : 31)) {
        // the engine's own shuffle of the whole warp, which is faster with an operand known in advance
        const vgc_cpu_site_kind kind = mode == "up"     ? VGC_SITE_SHFL_UP
                                       : mode == "down" ? VGC_SITE_SHFL_DOWN
                                       : mode == "bfly" ? VGC_SITE_SHFL_XOR
                                                        : VGC_SITE_SHFL_IDX;
        result = warp_operation(i, kind, mask, value, b.getInt32((amount->getZExtValue() & 31) | 31 << 8));
    } else {
        result = value_of_lane(i, mask, value, from);
    }
    i.low.write(to.kind == Operand::PAIR ? to.parts[0] : to, result, WORD);
    if (to.kind == Operand::PAIR)
        i.low.write_predicate(to.parts[1], good);
}

/// elect.sync: the lowest lane of the mask.
void lower_elect(Instruction &i)
{
    Builder &b = i.b;
    i.need_one({"sync"});
    Value *mask = i.in(1, WORD);
    synchronise_warp(i, mask);
    Value *leader = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask, b.getFalse());
    const Operand &to = i.operand(0);
    if (to.kind != Operand::PAIR)
        i.low.fail(to.at, "expected a register and a predicate, a|p");
    i.low.write(to.parts[0], leader, WORD);
    i.low.write_predicate(to.parts[1], b.CreateICmpEQ(leader, lane_number(i)));
}

} // namespace

Value *warp_operation(Instruction &i, vgc_cpu_site_kind kind, Value *mask, Value *value, Value *arg)
{
    const bool wide = value->getType()->isIntegerTy(64);
    return i.low.call_builtin(wide ? "__vgc_warp64" : "__vgc_warp32", value->getType(),
                              {i.b.getInt32(kind), mask, value, arg});
}

Value *value_of_lane(Instruction &i, Value *mask, Value *value, Value *from)
{
    return warp_operation(i, VGC_SITE_SHFL_IDX, mask, value, i.b.CreateOr(from, 31 << 8));
}

void synchronise_warp(Instruction &i, Value *mask)
{
    warp_operation(i, VGC_SITE_SYNCWARP, mask, i.b.getInt32(0), i.b.getInt32(0));
}

Value *lane_number(Instruction &i)
{
    return i.low.call_builtin("__vgc_laneid", i.b.getInt32Ty());
}

llvm::ArrayRef<Form> warp_forms()
{
    static const Form forms[] = {
        {"vote", 2, 3, lower_vote},   {"activemask", 1, 1, lower_activemask},
        {"match", 3, 3, lower_match}, {"redux", 3, 3, lower_redux},
        {"shfl", 4, 5, lower_shfl},   {"elect", 2, 2, lower_elect},
    };
    return forms;
}

} // namespace vgc::ptx
