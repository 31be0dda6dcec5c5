// The order of a warp's accesses to memory. On a GPU whose warps go in step, all lanes have done an access before any
// of them does the next. Regions run their threads one after the other, so where a program relies on that order, a wait
// of the warp (VGC_SITE_STEP) is put between accesses that may conflict: between a store and what follows it, and
// between loads and a store.
//
// Volatile accesses are ordered so in every program, those to shared memory also with what is not volatile: that is
// how warps shared data before __syncwarp(). With --lockstep all accesses to shared and global memory are. These are
// made volatile before the optimiser runs, which may keep in a register what another lane changes.
#include "compiler.h"

#include <deque>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace vgc
{
namespace
{

/// Kinds of memory that cannot be the same: a bit for each shared variable and each __restrict__ parameter while bits
/// last, one for the other shared variables, and one for everything else.
using Places = uint32_t;
enum : Places { SHARED = 1, ELSEWHERE = 2, ANYWHERE = ~Places(0) };

/// An access to memory that other threads see, or all accesses since lanes last waited for each other.
struct Access {
    Places reads = 0;
    Places writes = 0;
    Places volatile_reads = 0;
    Places volatile_writes = 0;

    /// Adds `other`; true if that changes anything.
    bool add(const Access &other)
    {
        const Access before = *this;
        reads |= other.reads;
        writes |= other.writes;
        volatile_reads |= other.volatile_reads;
        volatile_writes |= other.volatile_writes;
        return reads != before.reads || writes != before.writes || volatile_reads != before.volatile_reads ||
               volatile_writes != before.volatile_writes;
    }

    /// True if the order of the two counts: they may be to the same memory, one is volatile, and one writes.
    bool conflicts(const Access &later) const
    {
        const Places all = reads | writes | volatile_reads | volatile_writes;
        const Places later_all = later.reads | later.writes | later.volatile_reads | later.volatile_writes;
        const Places volatiles = volatile_reads | volatile_writes;
        return (volatile_writes & later_all) != 0 || (all & later.volatile_writes) != 0 ||
               (writes & later.volatile_reads) != 0 || (volatiles & later.writes) != 0;
    }
};

bool set_volatile(llvm::Instruction &instruction, bool value)
{
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        load->setVolatile(value);
    else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
        store->setVolatile(value);
    else if (auto *block = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction))
        block->setVolatile(llvm::ConstantInt::getBool(instruction.getContext(), value));
    else
        return false;
    return true;
}

/// Addresses that an instruction reads and writes; null: none.
struct Addresses {
    const llvm::Value *read = nullptr;
    const llvm::Value *written = nullptr;
};

Addresses addresses_of(const llvm::Instruction &instruction)
{
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
        return {load->getPointerOperand(), nullptr};
    if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
        return {nullptr, store->getPointerOperand()};
    if (const auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
        return {update->getPointerOperand(), update->getPointerOperand()};
    if (const auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
        return {exchange->getPointerOperand(), exchange->getPointerOperand()};
    if (const auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(&instruction))
        return {transfer->getRawSource(), transfer->getRawDest()};
    if (const auto *block = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction))
        return {nullptr, block->getRawDest()};
    return {};
}

/// True if any of the objects that the address may be in satisfies the condition.
template <typename Condition> bool any_object(const llvm::Value *pointer, Condition condition)
{
    if (pointer == nullptr)
        return false;
    llvm::SmallVector<const llvm::Value *, 4> objects;
    llvm::getUnderlyingObjects(pointer, objects);
    return llvm::any_of(objects, condition);
}

/// True if other threads may see the memory, and any may change it.
bool is_common(const llvm::Value *object)
{
    if (const auto *variable = llvm::dyn_cast<llvm::GlobalVariable>(object))
        return !variable->isConstant();
    if (const auto *call = llvm::dyn_cast<llvm::CallInst>(object);
        call != nullptr && call->getCalledFunction() != nullptr &&
        call->getCalledFunction()->getName().starts_with("__vgc_room"))
        return false;
    return !llvm::isa<llvm::AllocaInst>(object);
}

/// True for user's functions that were not inlined, which may access anything.
bool is_opaque_call(const llvm::Instruction &instruction)
{
    const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call == nullptr || call->isInlineAsm())
        return false;
    return call->getCalledFunction() == nullptr || !call->getCalledFunction()->isDeclaration();
}

/// Cuts a copy of memory in two, between which other lanes can make theirs.
void split_copy(llvm::MemTransferInst &copy, llvm::MDNode *mark)
{
    const auto *length = llvm::dyn_cast<llvm::ConstantInt>(copy.getLength());
    if (length == nullptr || length->isZero())
        return;
    const uint64_t bytes = length->getZExtValue();
    llvm::IRBuilder<> builder(&copy);
    llvm::Instruction *parts[2];
    if (bytes <= 16 && llvm::isPowerOf2_64(bytes)) {
        parts[0] = builder.CreateAlignedLoad(builder.getIntNTy(unsigned(8 * bytes)), copy.getRawSource(),
                                             copy.getSourceAlign().valueOrOne(), true);
        parts[1] = builder.CreateAlignedStore(parts[0], copy.getRawDest(), copy.getDestAlign().valueOrOne(), true);
    } else {
        llvm::BasicBlock &entry = copy.getFunction()->getEntryBlock();
        auto *own =
            llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), bytes));
        own->setAlignment(copy.getDestAlign().valueOrOne());
        parts[0] = builder.CreateMemCpy(own, own->getAlign(), copy.getRawSource(), copy.getSourceAlign(), bytes, true);
        parts[1] = builder.CreateMemCpy(copy.getRawDest(), copy.getDestAlign(), own, own->getAlign(), bytes, true);
    }
    for (llvm::Instruction *part : parts)
        part->setMetadata(PINNED, mark);
    copy.eraseFromParent();
}

class WarpOrder
{
  public:
    WarpOrder(llvm::Function &kernel, bool lockstep)
        : kernel_(kernel), lockstep_(lockstep), all_memory_(lockstep || can_wait(kernel))
    {
    }

    void run()
    {
        if (!find_accesses())
            return;
        solve();
        llvm::Module &module = *kernel_.getParent();
        auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), false);
        llvm::FunctionCallee step = module.getOrInsertFunction("__vgc_step", type);
        llvm::cast<llvm::Function>(step.getCallee())->setDoesNotThrow();
        for (llvm::BasicBlock &block : kernel_)
            walk(block, [&](llvm::Instruction &before) { llvm::IRBuilder<>(&before).CreateCall(step); });
    }

  private:
    /// Notes the accesses whose order counts; false if there is nothing to keep in order.
    bool find_accesses()
    {
        bool any = false;
        for (llvm::Instruction &instruction : llvm::instructions(kernel_)) {
            Access access;
            const auto [read, written] = addresses_of(instruction);
            const bool is_volatile = lockstep_ || instruction.isVolatile();
            (is_volatile ? access.volatile_reads : access.reads) = places_of(read, is_volatile);
            (is_volatile ? access.volatile_writes : access.writes) = places_of(written, is_volatile);
            if (lockstep_ && is_opaque_call(instruction))
                access.volatile_reads = access.volatile_writes = ANYWHERE;
            if (Access().add(access))
                accesses_[&instruction] = access;
            any |= (access.volatile_reads | access.volatile_writes) != 0;
        }
        return any;
    }

    /// Places where the address may be, if the order of accesses counts there.
    Places places_of(const llvm::Value *pointer, bool is_volatile)
    {
        if (!any_object(pointer, [&](const llvm::Value *object) {
                return is_volatile && all_memory_ ? is_common(object) : is_shared_object(object);
            }))
            return 0;
        llvm::SmallVector<const llvm::Value *, 4> objects;
        llvm::getUnderlyingObjects(pointer, objects);
        Places places = 0;
        for (const llvm::Value *object : objects)
            places |= place_of(object);
        return places;
    }

    Places place_of(const llvm::Value *object)
    {
        const auto *argument = llvm::dyn_cast<llvm::Argument>(object);
        if (is_shared_object(object)) {
            const llvm::Function *variable = llvm::cast<llvm::CallInst>(object)->getCalledFunction();
            const bool is_static = variable->hasFnAttribute(SHARED_VARIABLE) &&
                                   variable->getFnAttribute(SHARED_VARIABLE).getValueAsString() != "0";
            return is_static ? own_place(variable, SHARED) : Places(SHARED);
        }
        if (argument != nullptr && argument->hasNoAliasAttr())
            return own_place(argument, ELSEWHERE);
        if (argument != nullptr || llvm::isa<llvm::GlobalVariable>(object))
            return ELSEWHERE;
        return llvm::isa<llvm::AllocaInst>(object) ? 0 : ANYWHERE;
    }

    /// The place of an object that is apart from all others; `common` if there are too many.
    Places own_place(const llvm::Value *object, Places common)
    {
        const unsigned first = 2, last = 31;
        const auto [found, is_new] = own_.try_emplace(object, common);
        if (is_new && first + own_.size() <= last + 1)
            found->second = Places(1) << (first + own_.size() - 1);
        return found->second;
    }

    /// Finds what may have been accessed at the begin of each block, by forward data flow.
    void solve()
    {
        std::deque<llvm::BasicBlock *> work;
        for (llvm::BasicBlock &block : kernel_)
            work.push_back(&block);
        while (!work.empty()) {
            llvm::BasicBlock *block = work.front();
            work.pop_front();
            const Access end = walk(*block, [](llvm::Instruction &) {});
            for (llvm::BasicBlock *next : llvm::successors(block))
                if (begin_[next].add(end))
                    work.push_back(next);
        }
    }

    /// Calls `step` at each instruction before which the warp must wait; returns what may have been accessed since the
    /// last wait.
    template <typename Step> Access walk(llvm::BasicBlock &block, Step step)
    {
        Access since = begin_[&block];
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(block)) {
            const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            if (call != nullptr && call->getCalledFunction() != nullptr &&
                is_wait_name(call->getCalledFunction()->getName()))
                since = {};
            const auto found = accesses_.find(&instruction);
            if (found == accesses_.end())
                continue;
            if (since.conflicts(found->second)) {
                step(instruction);
                since = {};
            }
            since.add(found->second);
        }
        return since;
    }

    llvm::Function &kernel_;
    const bool lockstep_;
    const bool all_memory_; // else shared memory alone
    llvm::DenseMap<const llvm::Instruction *, Access> accesses_;
    llvm::DenseMap<const llvm::BasicBlock *, Access> begin_;
    llvm::DenseMap<const llvm::Value *, Places> own_;
};

} // namespace

bool is_shared_object(const llvm::Value *object)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(object);
    const llvm::Function *callee = call == nullptr ? nullptr : call->getCalledFunction();
    return callee != nullptr && (callee->hasFnAttribute(SHARED_VARIABLE) || callee->getName() == "__vgc_shared" ||
                                 callee->getName() == "__vgc_dynamic_shared");
}

void pin_accesses(llvm::Module &module)
{
    llvm::MDNode *mark = llvm::MDNode::get(module.getContext(), {});
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            const auto [read, written] = addresses_of(instruction);
            const bool common = any_object(read, is_common) || any_object(written, is_common);
            if (auto *copy = llvm::dyn_cast<llvm::MemTransferInst>(&instruction); copy != nullptr && common)
                split_copy(*copy, mark);
            else if (common && !instruction.isVolatile() && set_volatile(instruction, true))
                instruction.setMetadata(PINNED, mark);
        }
}

void order_warps(llvm::Module &module, const Program &program, bool lockstep)
{
    for (const Kernel &kernel : program.kernels)
        WarpOrder(*kernel.function, lockstep).run();
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (lockstep && instruction.getMetadata(PINNED) != nullptr)
                set_volatile(instruction, false);
}

} // namespace vgc
