#include "address.h"

namespace vgc::ptx
{

Space take_space(Instruction &i)
{
    if (!i.take_one({"shared", "shared::cta", "shared::cluster"}).empty())
        return Space::SHARED;
    if (i.take("global"))
        return Space::GLOBAL;
    if (i.take("local"))
        return Space::LOCAL;
    if (i.take("const"))
        return Space::CONSTANT;
    if (!i.take_one({"param", "param::entry", "param::func"}).empty())
        return Space::PARAMETER;
    return Space::GENERIC;
}

namespace
{

/// Pointer of a register or number.
llvm::Value *pointer_in(Instruction &i, const Operand &base, Space space)
{
    const bool is_short = i.low.width_of(base) == 32;
    if (space == Space::SHARED) {
        llvm::Value *offset = i.low.bits(base, is_short ? 32 : 64);
        return i.b.CreateGEP(i.b.getInt8Ty(), i.low.shared_base(), i.b.CreateSExt(offset, i.b.getInt64Ty()));
    }
    if (space != Space::LOCAL || !is_short)
        return i.b.CreateIntToPtr(i.low.bits(base, 64), i.b.getPtrTy());
    if (llvm::Value *pointer = i.low.local_pointer(i.low.bits(base, 32)))
        return pointer;
    i.low.fail(base.at, "an address of 32 bits in local memory, where the function has no variable");
}

} // namespace

llvm::Value *pointer(Instruction &i, size_t index, Space space)
{
    const Operand &operand = i.operand(index);
    if (operand.kind != Operand::ADDRESS || operand.parts.size() != 1)
        i.low.fail(operand.at, "expected an address in brackets");
    const Operand &base = operand.parts[0];
    if (base.kind != Operand::NAME && base.kind != Operand::ARGUMENT && base.kind != Operand::INTEGER)
        i.low.fail(base.at, "expected a register or a number");
    if (const Cell *variable = i.low.variable(base)) {
        const uint64_t offset = variable->offset(base) + uint64_t(operand.offset);
        return offset == 0 ? variable->address
                           : i.b.CreateGEP(i.b.getInt8Ty(), variable->address, i.b.getInt64(offset));
    }
    llvm::Value *result = pointer_in(i, base, space);
    if (operand.offset == 0)
        return result;
    return i.b.CreateGEP(i.b.getInt8Ty(), result, i.b.getInt64(uint64_t(operand.offset)));
}

void take_cache_hints(Instruction &i)
{
    i.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
    i.take("nc");
    i.take_all("L1::");
    i.take_all("L2::");
    i.take("level::eviction_priority");
    i.take("unified");
}

llvm::AtomicOrdering take_ordering(Instruction &i)
{
    const llvm::StringRef order = i.take_one({"mmio", "relaxed", "acquire", "release", "acq_rel", "sc"});
    if (order == "mmio")
        i.take("relaxed");
    i.take_one({"cta", "cluster", "gpu", "gl", "sys"});
    if (order.empty() || order == "weak")
        return llvm::AtomicOrdering::NotAtomic;
    return order == "acquire"   ? llvm::AtomicOrdering::Acquire
           : order == "release" ? llvm::AtomicOrdering::Release
           : order == "acq_rel" ? llvm::AtomicOrdering::AcquireRelease
           : order == "sc"      ? llvm::AtomicOrdering::SequentiallyConsistent
                                : llvm::AtomicOrdering::Monotonic;
}

} // namespace vgc::ptx
