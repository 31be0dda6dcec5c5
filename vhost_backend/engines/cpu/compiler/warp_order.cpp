// The order of a warp's accesses to memory. On a GPU whose warps go in step, all lanes have done an access before any
// of them does the next. Regions run their threads one after the other, so where a program relies on that order, a wait
// of the warp (VGC_SITE_STEP) is put between accesses that may conflict: between a store and what follows it, and
// between loads and a store.
//
// Volatile accesses to shared memory are ordered so in every program: that is how warps shared data before
// __syncwarp(). With --lockstep all accesses to shared and global memory are. These are made volatile before the
// optimiser runs, which may keep in a register what another lane changes.
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

const char *const MARK = "vgc.step"; // metadata of accesses that are volatile only until the optimiser has run

/// What lanes may have accessed since they last waited for each other.
enum { READS = 1, WRITES = 2, VOLATILE_READS = 4, VOLATILE_WRITES = 8 };

/// An access to memory that other threads see.
struct Access {
    bool reads = false;
    bool writes = false;
    bool is_volatile = false;
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

llvm::SmallVector<const llvm::Value *, 2> pointers_of(const llvm::Instruction &instruction)
{
    if (const llvm::Value *pointer = llvm::getLoadStorePointerOperand(&instruction))
        return {pointer};
    if (const auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
        return {update->getPointerOperand()};
    if (const auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
        return {exchange->getPointerOperand()};
    if (const auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(&instruction))
        return {transfer->getRawDest(), transfer->getRawSource()};
    if (const auto *block = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction))
        return {block->getRawDest()};
    return {};
}

/// True if any of the objects that the address may be in satisfies the condition.
template <typename Condition> bool any_object(const llvm::Value *pointer, Condition condition)
{
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
        call != nullptr && call->getCalledFunction() != nullptr && call->getCalledFunction()->getName() == "__vgc_room")
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
        part->setMetadata(MARK, mark);
    copy.eraseFromParent();
}

class WarpOrder
{
  public:
    WarpOrder(llvm::Function &kernel, bool lockstep) : kernel_(kernel), lockstep_(lockstep)
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
            bool counts = lockstep_ && is_opaque_call(instruction);
            for (const llvm::Value *pointer : pointers_of(instruction))
                counts |= lockstep_ ? any_object(pointer, is_common) : any_object(pointer, is_shared_object);
            if (!counts)
                continue;
            const bool is_volatile = lockstep_ || instruction.isVolatile();
            accesses_[&instruction] = {instruction.mayReadFromMemory(), instruction.mayWriteToMemory(), is_volatile};
            any |= is_volatile;
        }
        return any;
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
            const unsigned end = walk(*block, [](llvm::Instruction &) {});
            for (llvm::BasicBlock *next : llvm::successors(block))
                if ((begin_[next] | end) != begin_[next]) {
                    begin_[next] |= end;
                    work.push_back(next);
                }
        }
    }

    /// Calls `step` at each instruction before which the warp must wait; returns what may have been accessed since the
    /// last wait.
    template <typename Step> unsigned walk(llvm::BasicBlock &block, Step step)
    {
        unsigned since = begin_[&block];
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(block)) {
            const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            if (call != nullptr && call->getCalledFunction() != nullptr &&
                is_wait_name(call->getCalledFunction()->getName()))
                since = 0;
            const auto found = accesses_.find(&instruction);
            if (found == accesses_.end())
                continue;
            const Access &access = found->second;
            if ((since & conflicts(access)) != 0) {
                step(instruction);
                since = 0;
            }
            if (access.reads)
                since |= access.is_volatile ? VOLATILE_READS : READS;
            if (access.writes)
                since |= access.is_volatile ? VOLATILE_WRITES : WRITES;
        }
        return since;
    }

    static unsigned conflicts(const Access &access)
    {
        unsigned with = VOLATILE_WRITES | (access.is_volatile ? WRITES : 0);
        if (access.writes)
            with |= VOLATILE_READS | (access.is_volatile ? READS : 0);
        return with;
    }

    llvm::Function &kernel_;
    const bool lockstep_;
    llvm::DenseMap<const llvm::Instruction *, Access> accesses_;
    llvm::DenseMap<const llvm::BasicBlock *, unsigned> begin_;
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
            bool common = false;
            for (const llvm::Value *pointer : pointers_of(instruction))
                common |= any_object(pointer, is_common);
            if (auto *copy = llvm::dyn_cast<llvm::MemTransferInst>(&instruction); copy != nullptr && common)
                split_copy(*copy, mark);
            else if (common && !instruction.isVolatile() && set_volatile(instruction, true))
                instruction.setMetadata(MARK, mark);
        }
}

void order_warps(llvm::Module &module, const Program &program, bool lockstep)
{
    for (const Kernel &kernel : program.kernels)
        WarpOrder(*kernel.function, lockstep).run();
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (lockstep && instruction.getMetadata(MARK) != nullptr)
                set_volatile(instruction, false);
}

} // namespace vgc
