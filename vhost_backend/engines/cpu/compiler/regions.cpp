// Region formation: each place where a kernel may continue (its entry, the code behind each wait) becomes a function
// that runs a range of the block's threads from there to their next wait, in a loop over the threads. Values that live
// across waits are kept in the frame, one array per value, so that the loops vectorise.
//
// No uniformity is assumed: threads that diverge at a branch report the site that they have reached, and the runtime
// (../schedule.c) continues each group. Code that can be reached from several waits is copied into each region.
#include "common_values.h"
#include "crash.h"
#include "region.h"
#include "region_twins.h"
#include "strips.h"
#include "switches.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

namespace vgc
{
namespace
{

/// Describes a wait for the runtime. Reads the call's operands, so it must be called before the kernel's body is
/// removed.
Kernel::Site describe_site(const Wait &wait, const Slots &slots, llvm::AllocaInst *room)
{
    Kernel::Site site{nullptr, wait.kind, wait.wide ? uint32_t(VGC_SITE_WIDE) : 0, 0, 0, nullptr};
    auto constant = [&](int index, uint32_t flag, uint32_t &into) {
        const auto *value =
            index < 0 ? nullptr : llvm::dyn_cast<llvm::ConstantInt>(wait.call->getArgOperand(unsigned(index)));
        if (index < 0 || value != nullptr)
            site.flags |= flag;
        if (value != nullptr)
            into = uint32_t(value->getZExtValue());
    };
    constant(wait.mask, VGC_SITE_CONST_MASK, site.mask);
    constant(wait.arg, VGC_SITE_CONST_ARG, site.arg);
    if (wait.work >= 0) {
        site.work = llvm::cast<llvm::Function>(wait.call->getArgOperand(unsigned(wait.work)));
        site.arg = uint32_t(slots.lookup(room).offset);
    }
    return site;
}

bool is_call_of(const llvm::Value *value, llvm::StringRef prefix)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(value);
    return call != nullptr && call->getCalledFunction() != nullptr &&
           call->getCalledFunction()->getName().starts_with(prefix);
}

/// True for blockIdx * blockDim and gridDim * blockDim.
bool is_block_product(const llvm::Value *value)
{
    const auto *product = llvm::dyn_cast<llvm::BinaryOperator>(value);
    if (product == nullptr || product->getOpcode() != llvm::Instruction::Mul)
        return false;
    for (unsigned i = 0; i < 2; i++)
        if (is_call_of(product->getOperand(i), "__vgc_ntid_") &&
            (is_call_of(product->getOperand(1 - i), "__vgc_ctaid_") ||
             is_call_of(product->getOperand(1 - i), "__vgc_nctaid_")))
            return true;
    return false;
}

/// Marks blockIdx * blockDim + threadIdx as not wrapping: the runtime refuses launches of 2^31 or more threads in a
/// row.
void mark_thread_indices(llvm::Function &kernel)
{
    for (llvm::Instruction &instruction : llvm::instructions(kernel)) {
        const bool is_sum = instruction.getOpcode() == llvm::Instruction::Add;
        bool is_index = is_block_product(&instruction);
        for (unsigned i = 0; i < 2 && is_sum; i++)
            is_index |=
                is_block_product(instruction.getOperand(i)) && is_call_of(instruction.getOperand(1 - i), "__vgc_tid_");
        if (is_index && instruction.getType()->isIntegerTy(32)) {
            instruction.setHasNoUnsignedWrap();
            instruction.setHasNoSignedWrap();
        }
    }
}

/// Makes sums of `or` between numbers that have no bit in common: the steps that follow look for sums.
void make_sums(llvm::Function &kernel)
{
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(kernel))) {
        const auto *joined = llvm::dyn_cast<llvm::PossiblyDisjointInst>(&instruction);
        if (joined == nullptr || !joined->isDisjoint())
            continue;
        llvm::IRBuilder<> builder(&instruction);
        instruction.replaceAllUsesWith(
            builder.CreateAdd(instruction.getOperand(0), instruction.getOperand(1), "", true, true));
        instruction.eraseFromParent();
    }
}

/// Makes calls of __vgc_exit, which ends a thread, returns of the kernel.
void return_from_exits(llvm::Function &kernel)
{
    std::vector<llvm::Instruction *> exits;
    for (llvm::Instruction &instruction : llvm::instructions(kernel))
        if (is_call_of(&instruction, "__vgc_exit"))
            exits.push_back(&instruction);
    for (llvm::Instruction *exit : exits) {
        llvm::changeToUnreachable(exit->getNextNode());
        llvm::IRBuilder<>(exit).CreateRetVoid();
        exit->getNextNode()->eraseFromParent();
        exit->eraseFromParent();
    }
}

void form_kernel(Kernel &kernel)
{
    llvm::Function &function = *kernel.function;
    return_from_exits(function);
    llvm::EliminateUnreachableBlocks(function);
    lower_switches(function);
    make_sums(function);
    mark_thread_indices(function);
    llvm::AllocaInst *room = make_room(function);
    const std::vector<Wait> waits = split_at_waits(function);
    if (waits.empty() && runs_in_strips(function))
        kernel.flags |= VGC_CPU_KERNEL_STRIPS;
    const CommonValues common(function, waits);
    std::vector<Kept> kept;
    if (!waits.empty())
        kept = keep_across_waits(function, waits, [&](const llvm::Value &value) { return common.contains(value); });
    const Slots slots = lay_out_frame(kept, waits, kernel);
    kernel.sites.push_back({nullptr, VGC_SITE_ENTRY, 0, 0, 0, nullptr});
    for (const Wait &wait : waits)
        kernel.sites.push_back(describe_site(wait, slots, room));
    for (size_t i = 0; i < kernel.sites.size(); i++) {
        RegionBuilder builder(kernel, slots, waits, i);
        kernel.sites[i].resume = builder.build();
        if (builder.in_lockstep())
            kernel.sites[i].flags |= VGC_SITE_KEEPS_NEIGHBOUR;
        else if (builder.keeps_position())
            kernel.sites[i].flags |= VGC_SITE_KEEPS_POSITION;
    }
    function.deleteBody();
}

void check_no_waits(const llvm::Module &module)
{
    for (const llvm::Function &function : module)
        if (is_wait_name(function.getName()))
            for (const llvm::User *user : function.users())
                if (const auto *call = llvm::dyn_cast<llvm::CallInst>(user))
                    fail("'" + call->getFunction()->getName() +
                         "' waits for other threads, but is recursive or called through a pointer: "
                         "barriers and warp "
                         "operations are "
                         "possible in functions that can be inlined into the kernel");
}

} // namespace

void form_regions(llvm::Module &module, Program &program)
{
    forget_effects_of_positions(module);
    for (Kernel &kernel : program.kernels) {
        note_function(kernel.name);
        form_kernel(kernel);
    }
    merge_twins(program);
    check_no_waits(module);
    if (const llvm::Function *exit = module.getFunction("__vgc_exit"); exit != nullptr && !exit->use_empty())
        fail("the PTX instruction 'exit' is in a function that is recursive or called through a pointer");
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            lower_positions_by_context(function);
}

} // namespace vgc
