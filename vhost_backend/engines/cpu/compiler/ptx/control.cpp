// Control flow, barriers, fences.
#include "address.h"
#include "forms.h"
#include "math.h"
#include "warp.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const Type WORD{Type::BITS, 32, 1};

/// Ends the launch if a barrier is for other threads than the whole block, which the engine does not have.
void check_barrier_count(Instruction &i, size_t index)
{
    if (index >= i.size() || i.operand(index).kind == Operand::SINK)
        return;
    const Operand &given = i.operand(index);
    if (given.kind == Operand::INTEGER && given.bits % 32 != 0)
        i.low.fail(given.at, "a barrier of " + llvm::Twine(given.bits) + " threads; allowed: multiples of 32");
    Builder &b = i.b;
    Value *threads = b.getInt32(1);
    for (const char *name : {"__vgc_ntid_x", "__vgc_ntid_y", "__vgc_ntid_z"})
        threads = b.CreateMul(threads, i.low.call_builtin(name, b.getInt32Ty()));
    Value *rounded = b.CreateAnd(b.CreateAdd(threads, b.getInt32(31)), b.getInt32(~31u));
    Value *count = i.in(index, WORD);
    Value *whole = b.CreateOr(b.CreateICmpEQ(count, threads), b.CreateICmpEQ(count, rounded));
    llvm::BasicBlock *refused = i.low.new_block("ptx.partial"), *good = i.low.new_block("ptx.barrier");
    b.CreateCondBr(whole, good, refused);
    b.SetInsertPoint(refused);
    i.low.end_thread("__vgc_trap");
    b.CreateUnreachable();
    b.SetInsertPoint(good);
}

void lower_reducing_barrier(Instruction &i)
{
    Builder &b = i.b;
    const llvm::StringRef operation = i.need_one({"popc", "and", "or"});
    i.need_one({"u32", "pred"});
    const size_t last = i.size() - 1;
    check_barrier_count(i, i.size() == 4 ? 2 : i.size());
    const vgc_cpu_site_kind kind = operation == "popc"  ? VGC_SITE_BARRIER_COUNT
                                   : operation == "and" ? VGC_SITE_BARRIER_AND
                                                        : VGC_SITE_BARRIER_OR;
    Value *vote = b.CreateZExt(i.low.predicate(i.operand(last)), b.getInt32Ty());
    Value *result = i.low.call_builtin("__vgc_barrier_reduce", b.getInt32Ty(), {b.getInt32(kind), vote});
    if (operation == "popc")
        i.low.write(i.operand(0), result, WORD);
    else
        i.low.write_predicate(i.operand(0), b.CreateICmpNE(result, b.getInt32(0)));
}

void lower_barrier(Instruction &i)
{
    i.take("cta");
    i.take("aligned");
    if (i.take("warp")) {
        i.need_one({"sync"});
        return synchronise_warp(i, i.in(0, WORD));
    }
    if (i.take("cluster")) { // arriving may come later: waiting is the barrier
        const bool waits = i.need_one({"arrive", "wait"}) == "wait";
        i.take_one({"release", "acquire", "relaxed"});
        if (waits)
            i.low.call_builtin("__vgc_cluster_barrier", i.b.getVoidTy());
        return;
    }
    if (i.take("red"))
        return lower_reducing_barrier(i);
    if (i.take("arrive"))
        i.fail("barriers at which some threads only arrive are not supported by the CPU engine");
    i.need_one({"sync"});
    if (i.operand(0).kind == Operand::INTEGER && i.operand(0).bits > 15)
        i.low.fail(i.operand(0).at, "barrier " + llvm::Twine(i.operand(0).bits) + "; allowed: 0 to 15");
    i.in(0, WORD);
    check_barrier_count(i, 1);
    i.low.call_builtin("__vgc_barrier", i.b.getVoidTy());
}

void lower_fence(Instruction &i)
{
    if (i.take("proxy")) {
        i.take_one({"alias", "async", "tensormap::generic", "async::generic"});
        i.take_all("async");
        i.take_all("tensormap");
        take_space(i);
    }
    i.take("mbarrier_init");
    i.take_all("sync_restrict");
    i.take_one({"sc", "acq_rel", "acquire", "release"});
    const bool within_block = i.take("cta");
    i.take_one({"cluster", "gpu", "gl", "sys"});
    i.b.CreateFence(within_block ? llvm::AtomicOrdering::AcquireRelease : llvm::AtomicOrdering::SequentiallyConsistent);
}

void lower_nanosleep(Instruction &i)
{
    i.need_type();
    i.low.call_builtin("__vgc_yield", i.b.getVoidTy());
}

void lower_bra(Instruction &i)
{
    i.take("uni");
    i.low.jump(i.low.label(i.operand(0)));
}

/// A jump to one of several labels; another index ends the launch.
void lower_brx(Instruction &i)
{
    i.need_one({"idx"});
    i.take("uni");
    const std::vector<Operand> &targets = i.low.targets(i.operand(1));
    llvm::BasicBlock *none = i.low.new_block("ptx.none");
    llvm::SwitchInst *jump = i.b.CreateSwitch(i.in(0, WORD), none, unsigned(targets.size()));
    for (size_t n = 0; n < targets.size(); n++)
        jump->addCase(i.b.getInt32(uint32_t(n)), i.low.label(targets[n]));
    i.b.SetInsertPoint(none);
    i.low.end_thread("__vgc_trap");
}

void lower_end(Instruction &i)
{
    i.low.end_thread(i.mnemonic() == "exit" ? "__vgc_exit" : "__vgc_trap");
}

/// brkpt, pmevent, griddepcontrol, setmaxnreg: no effect.
void lower_nothing(Instruction &i)
{
    i.take_one({"wait", "launch_dependents", "inc", "dec", "mask"});
    i.take("sync");
    i.take("aligned");
    i.take("u32");
}

} // namespace

llvm::ArrayRef<Form> control_forms()
{
    static const Form forms[] = {
        {"bar", 0, 4, lower_barrier},
        {"barrier", 0, 4, lower_barrier},
        {"membar", 0, 0, lower_fence},
        {"fence", 0, 2, lower_fence},
        {"nanosleep", 1, 1, lower_nanosleep},
        {"bra", 1, 1, lower_bra},
        {"brx", 2, 2, lower_brx},
        {"exit", 0, 0, lower_end},
        {"trap", 0, 0, lower_end},
        {"brkpt", 0, 0, lower_nothing},
        {"pmevent", 1, 1, lower_nothing},
        {"griddepcontrol", 0, 0, lower_nothing},
        {"setmaxnreg", 1, 1, lower_nothing},
    };
    return forms;
}

} // namespace vgc::ptx
