// cp.async: copies that are complete when the instruction is.
#include "address.h"
#include "forms.h"
#include "math.h"
#include "mbarrier.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// Copies `size` bytes, of which the last may be zeroes instead of the source's.
void lower_copy(Instruction &i)
{
    Builder &b = i.b;
    i.need_one({"ca", "cg"});
    i.need_one({"shared", "shared::cta"});
    i.need_one({"global"});
    const bool has_policy = i.take("L2::cache_hint"); // the last operand
    take_cache_hints(i);
    Value *to = pointer(i, 0, Space::SHARED), *from = pointer(i, 1, Space::GLOBAL);
    const uint64_t size = i.number(2);
    if (size != 4 && size != 8 && size != 16)
        i.fail("it copies 4, 8 or 16 bytes");
    llvm::Type *all = b.getIntNTy(unsigned(size) * 8);
    if (i.size() == (has_policy ? 4 : 3)) {
        b.CreateAlignedStore(b.CreateAlignedLoad(all, from, llvm::Align(1)), to, llvm::Align(1));
        return;
    }
    const Type word{Type::BITS, 32, 1};
    const bool ignores = i.low.width_of(i.operand(3)) == 1;
    Value *count = ignores ? b.CreateSelect(i.low.predicate(i.operand(3)), b.getInt32(0), b.getInt32(uint32_t(size)))
                           : i.in(3, word);
    b.CreateAlignedStore(llvm::ConstantInt::get(all, 0), to, llvm::Align(1));
    b.CreateMemCpy(to, llvm::Align(1), from, llvm::Align(1),
                   b.CreateZExt(minimum(b, count, b.getInt32(uint32_t(size)), false), b.getInt64Ty()));
}

/// cp.async.mbarrier.arrive: an arrival when the thread's copies are complete, and they are. Without .noinc, the phase
/// expects one more for it: nothing changes.
void lower_arrival(Instruction &i)
{
    i.need_one({"arrive"});
    i.need_one({"b64"});
    const bool counts = i.take("noinc");
    Value *place = pointer(i, 0, take_space(i));
    if (counts)
        arrive_at(i, place, i.b.getInt32(1), i.b.getInt32(0), i.b.getInt32(0));
}

void lower_cp(Instruction &i)
{
    i.need_one({"async"});
    if (i.take("mbarrier"))
        return lower_arrival(i);
    if (i.take_one({"commit_group", "wait_all", "wait_group"}).empty())
        lower_copy(i);
}

} // namespace

llvm::ArrayRef<Form> copy_forms()
{
    static const Form forms[] = {{"cp", 0, 5, lower_cp}};
    return forms;
}

} // namespace vgc::ptx
