// Loads, stores, addresses, hints for caches.
#include "address.h"
#include "forms.h"
#include "math.h"

#include "../../vgc_cpu_abi.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const uint64_t MAX_ALIGN = 4096;

/// Takes what loads and stores have in common.
struct Access {
    explicit Access(Instruction &i)
        : is_volatile(i.take("volatile") || i.low.clobbers_memory()), ordering(take_ordering(i)),
          space((i.take("weak"), take_space(i)))
    {
        is_volatile |= i.take("cv");
        take_cache_hints(i);
        const llvm::StringRef vector = i.take_one({"v2", "v4", "v8"});
        count = vector.empty() ? 1 : unsigned(vector[1] - '0');
        type = i.need_type();
        if (type.kind == Type::PREDICATE)
            i.refuse();
    }
    bool is_volatile;
    llvm::AtomicOrdering ordering;
    Space space;
    unsigned count;
    Type type;

    /// That of an element: GPUs refuse others.
    llvm::Align align() const
    {
        return llvm::Align(std::max(1u, type.bits / 8));
    }

    /// True if other threads are to see all elements at once, as GPUs show a vector: CUB tells a value and its status
    /// so.
    bool is_whole() const
    {
        return count > 1 && count * type.width() <= 128 && (is_volatile || ordering != llvm::AtomicOrdering::NotAtomic);
    }
    /// Type that the processor moves at once, if the address is a multiple of its size.
    llvm::Type *whole(Builder &b) const
    {
        const unsigned bits = count * type.width();
        return bits == 128 ? static_cast<llvm::Type *>(llvm::FixedVectorType::get(b.getInt64Ty(), 2))
                           : b.getIntNTy(bits);
    }
    llvm::Type *elements(Builder &b) const
    {
        return llvm::FixedVectorType::get(b.getIntNTy(type.width()), count);
    }
};

/// Address of element `index`: that of the first is the whole's, so that variables can become values.
Value *element_place(Builder &b, Value *whole, unsigned index, Type type)
{
    return index == 0 ? whole : b.CreateConstGEP1_64(b.getInt8Ty(), whole, index * type.width() / 8);
}

void lower_load(Instruction &i)
{
    Builder &b = i.b;
    const Access access(i);
    Value *from = pointer(i, 1, access.space);
    if (access.is_whole()) {
        Value *loaded = b.CreateAlignedLoad(access.whole(b), from, llvm::Align(1), /*isVolatile=*/true);
        if (llvm::isAcquireOrStronger(access.ordering))
            b.CreateFence(llvm::AtomicOrdering::Acquire);
        Value *elements = b.CreateBitCast(loaded, access.elements(b));
        for (unsigned n = 0; n < access.count; n++)
            i.low.write(i.element(i.operand(0), n, access.count), b.CreateExtractElement(elements, n), access.type);
        return;
    }
    for (unsigned n = 0; n < access.count; n++) {
        Value *place = element_place(b, from, n, access.type);
        llvm::LoadInst *load =
            b.CreateAlignedLoad(b.getIntNTy(access.type.width()), place, access.align(), access.is_volatile);
        if (const Cell *variable = i.low.variable(i.operand(1).parts[0]); variable != nullptr && variable->is_constant)
            load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b.getContext(), {}));
        load->setOrdering(access.ordering == llvm::AtomicOrdering::Release ? llvm::AtomicOrdering::Monotonic
                                                                           : access.ordering);
        i.low.write(i.element(i.operand(0), n, access.count), load, access.type);
    }
}

void lower_store(Instruction &i)
{
    Builder &b = i.b;
    const Access access(i);
    Value *to = pointer(i, 0, access.space);
    if (access.is_whole()) {
        Value *elements = llvm::PoisonValue::get(access.elements(b));
        for (unsigned n = 0; n < access.count; n++) {
            Value *value = i.low.bits(i.element(i.operand(1), n, access.count), access.type.width());
            elements = b.CreateInsertElement(elements, value, n);
        }
        if (llvm::isReleaseOrStronger(access.ordering))
            b.CreateFence(llvm::AtomicOrdering::Release);
        b.CreateAlignedStore(b.CreateBitCast(elements, access.whole(b)), to, llvm::Align(1), /*isVolatile=*/true);
        return;
    }
    for (unsigned n = 0; n < access.count; n++) {
        Value *value = i.low.bits(i.element(i.operand(1), n, access.count), access.type.width());
        Value *place = element_place(b, to, n, access.type);
        llvm::StoreInst *store = b.CreateAlignedStore(value, place, access.align(), access.is_volatile);
        store->setOrdering(access.ordering == llvm::AtomicOrdering::Acquire ? llvm::AtomicOrdering::Monotonic
                                                                            : access.ordering);
    }
}

/// prefetch, discard and applypriority: nothing that a program can see.
void lower_hint(Instruction &i)
{
    take_space(i);
    take_cache_hints(i);
    i.take_one({"L1", "L2", "tensormap"});
    if (i.operand(0).kind != Operand::ADDRESS)
        i.low.fail(i.operand(0).at, "expected an address in brackets");
}

void lower_create_policy(Instruction &i)
{
    i.take_one({"fractional", "range", "cvt"});
    i.take("global");
    i.take("L2");
    take_cache_hints(i);
    const Type type = i.need_type();
    i.low.write(i.operand(0), i.b.getInt64(0), type);
}

void lower_cvta(Instruction &i)
{
    Builder &b = i.b;
    const bool to_space = i.take("to");
    const Space space = take_space(i);
    const Type type = i.need_type();
    if (type.bits != 64 || space == Space::GENERIC)
        i.refuse();
    Value *address = i.in(1, type);
    if (space == Space::SHARED) {
        Value *base = b.CreatePtrToInt(i.low.shared_base(), b.getInt64Ty());
        if (!to_space) // a register of 32 bits has been extended
            address = b.CreateSExt(b.CreateTrunc(address, b.getInt32Ty()), b.getInt64Ty());
        address = to_space ? b.CreateSub(address, base) : b.CreateAdd(address, base);
    }
    if (space == Space::LOCAL && !to_space) // likewise
        if (Value *place = i.low.local_pointer(b.CreateTrunc(address, b.getInt32Ty())))
            address = b.CreatePtrToInt(place, b.getInt64Ty());
    i.low.write(i.operand(0), address, type);
}

/// alloca: memory of the thread until its function ends. A kernel that also has barriers is refused later.
void lower_alloca(Instruction &i)
{
    const Type type = i.need_type();
    const uint64_t align = i.size() > 2 ? i.number(2) : 8;
    if (type.bits != 64 || !llvm::isPowerOf2_64(align) || align > MAX_ALIGN)
        i.fail("expected a type of 64 bits, and an alignment that is a power of two up to " + llvm::Twine(MAX_ALIGN));
    llvm::AllocaInst *memory = i.b.CreateAlloca(i.b.getInt8Ty(), i.in(1, type));
    memory->setAlignment(llvm::Align(align));
    i.low.write(i.operand(0), i.b.CreatePtrToInt(memory, i.b.getInt64Ty()), type);
}

/// stacksave and stackrestore: memory of alloca stays until its function ends.
void lower_stack(Instruction &i)
{
    const Type type = i.need_type();
    if (i.mnemonic() == "stacksave")
        i.low.write(i.operand(0), llvm::ConstantInt::get(i.b.getIntNTy(type.width()), 0), type);
    else
        i.in(0, type);
}

/// isspacep: shared memory is known by its address; what is not shared counts as global.
void lower_isspacep(Instruction &i)
{
    Builder &b = i.b;
    const Space space = take_space(i);
    Value *address = i.low.bits(i.operand(1), 64);
    Value *offset = b.CreateSub(address, b.CreatePtrToInt(i.low.shared_base(), b.getInt64Ty()));
    Value *is_shared = b.CreateICmpULT(offset, b.getInt64(VGC_CPU_MAX_SHARED));
    Value *result = space == Space::SHARED   ? is_shared
                    : space == Space::GLOBAL ? b.CreateNot(is_shared)
                                             : static_cast<Value *>(b.getFalse());
    i.low.write_predicate(i.operand(0), result);
}

/// mapa and getctarank. The slots of a cluster's blocks lie one behind the other, so that a block's shared memory is
/// also at offsets, which may be negative, in that of another.
void lower_cluster_address(Instruction &i)
{
    Builder &b = i.b;
    const Space space = take_space(i);
    const Type type = i.need_type();
    if (type.is_float() || type.lanes > 1 || (type.bits != 32 && type.bits != 64))
        i.refuse();
    Value *slot = i.low.call_builtin("__vgc_slot_bytes", b.getInt64Ty());
    Value *own = i.low.call_builtin("__vgc_cluster_ctarank", b.getInt32Ty());
    Value *address = b.CreateSExt(i.in(1, type), b.getInt64Ty());
    if (i.mnemonic() == "mapa") {
        Value *steps = b.CreateSub(i.in(2, {Type::UNSIGNED, 32, 1}), own);
        Value *there = b.CreateAdd(address, b.CreateMul(b.CreateSExt(steps, b.getInt64Ty()), slot));
        return i.low.write(i.operand(0), b.CreateTrunc(there, b.getIntNTy(type.bits)), type);
    }
    if (space == Space::GENERIC)
        address = b.CreateSub(address, b.CreatePtrToInt(i.low.shared_base(), b.getInt64Ty()));
    Value *from_first = b.CreateAdd(address, b.CreateMul(b.CreateZExt(own, b.getInt64Ty()), slot));
    Value *rank = b.CreateTrunc(b.CreateUDiv(from_first, slot), b.getInt32Ty());
    i.low.write(i.operand(0), rank, {Type::UNSIGNED, 32, 1});
}

} // namespace

llvm::ArrayRef<Form> memory_forms()
{
    static const Form forms[] = {
        {"ld", 2, 3, lower_load},
        {"ldu", 2, 2, lower_load},
        {"st", 2, 3, lower_store},
        {"prefetch", 1, 1, lower_hint},
        {"prefetchu", 1, 1, lower_hint},
        {"discard", 2, 2, lower_hint},
        {"applypriority", 2, 2, lower_hint},
        {"createpolicy", 1, 4, lower_create_policy},
        {"cvta", 2, 2, lower_cvta},
        {"isspacep", 2, 2, lower_isspacep},
        {"alloca", 2, 3, lower_alloca},
        {"stacksave", 1, 1, lower_stack},
        {"stackrestore", 1, 1, lower_stack},
        {"mapa", 3, 3, lower_cluster_address},
        {"getctarank", 2, 2, lower_cluster_address},
    };
    return forms;
}

} // namespace vgc::ptx
