// Region formation: each place where a kernel may go on (its entry, the code behind each wait) becomes a function
// that runs a range of the block's threads from there to their next wait, in a loop over the threads. Values
// that live across waits are kept in the frame, one array per value, so that the loops vectorise.
//
// No uniformity is assumed: threads that part at a branch report the site that they reached, and the runtime
// (../schedule.c) runs each group on. Code that can be reached from several waits is copied into each region.
#include "guards.h"
#include "lanes.h"
#include "sites.h"

#include <set>

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{
namespace
{

/// Where a slot's array begins in the frame (times the stride), and the size of one thread's element.
struct Slot {
    uint64_t offset;
    uint64_t size;
};

using Slots = llvm::MapVector<llvm::AllocaInst *, Slot>;

Slots lay_out(const std::vector<llvm::AllocaInst *> &allocas, Kernel &kernel)
{
    Slots slots;
    const llvm::DataLayout &layout = kernel.function->getParent()->getDataLayout();
    uint64_t offset = 0;
    for (llvm::AllocaInst *alloca : allocas) {
        const uint64_t size = llvm::alignTo(alloca->getAllocationSize(layout)->getFixedValue(), alloca->getAlign());
        slots[alloca] = {offset, size};
        offset += size;
    }
    if (offset > VGC_CPU_MAX_FRAME)
        fail("kernel '" + kernel.name + "' keeps " + llvm::Twine(offset) +
             " bytes per thread across barriers, at most " + llvm::Twine(int(VGC_CPU_MAX_FRAME)) + " are possible");
    kernel.frame_bytes = uint32_t(offset);
    return slots;
}

/// The blocks that a thread can run from `entry` before it waits again.
llvm::SetVector<llvm::BasicBlock *> reachable(llvm::BasicBlock *entry,
                                              const llvm::SmallPtrSetImpl<llvm::BasicBlock *> &waits)
{
    llvm::SetVector<llvm::BasicBlock *> blocks;
    blocks.insert(entry);
    for (size_t i = 0; i < blocks.size(); i++)
        if (!waits.contains(blocks[i]))
            for (llvm::BasicBlock *successor : llvm::successors(blocks[i]))
                blocks.insert(successor);
    return blocks;
}

bool has_cycle(llvm::BasicBlock *entry, const llvm::SetVector<llvm::BasicBlock *> &blocks,
               const llvm::SmallPtrSetImpl<llvm::BasicBlock *> &waits)
{
    enum { NEW, OPEN, CLOSED };
    llvm::DenseMap<llvm::BasicBlock *, int> state;
    std::vector<std::pair<llvm::BasicBlock *, unsigned>> stack = {{entry, 0}};
    state[entry] = OPEN;
    while (!stack.empty()) {
        auto &[block, next] = stack.back();
        const llvm::Instruction *end = block->getTerminator();
        if (waits.contains(block) || next == end->getNumSuccessors()) {
            state[block] = CLOSED;
            stack.pop_back();
            continue;
        }
        llvm::BasicBlock *successor = end->getSuccessor(next++);
        if (blocks.contains(successor) && state[successor] == OPEN)
            return true;
        if (state[successor] == NEW) {
            state[successor] = OPEN;
            stack.push_back({successor, 0});
        }
    }
    return false;
}

/// Calls that may ask for the thread's position through the context, or fail in its name.
bool calls_out(const llvm::SetVector<llvm::BasicBlock *> &blocks)
{
    for (const llvm::BasicBlock *block : blocks)
        for (const llvm::Instruction &instruction : *block) {
            const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            if (call == nullptr || call->isInlineAsm() || is_position_call(instruction) || is_result_call(instruction))
                continue;
            const llvm::Function *callee = call->getCalledFunction();
            if (callee == nullptr ||
                (!callee->isIntrinsic() && !is_wait_name(callee->getName()) && !callee->doesNotAccessMemory()))
                return true;
        }
    return false;
}

/// Builds one region function.
class RegionBuilder
{
  public:
    RegionBuilder(Kernel &kernel, const Slots &slots, const std::vector<Wait> &waits, size_t site)
        : kernel_(kernel), slots_(slots), waits_(waits), module_(*kernel.function->getParent()),
          context_(module_.getContext()), builder_(context_)
    {
        for (const Wait &wait : waits)
            wait_blocks_.insert(wait.block);
        source_ = site == 0 ? &kernel.function->getEntryBlock() : waits[site - 1].resume;
        blocks_ = reachable(source_, wait_blocks_);
        llvm::FunctionType *type = llvm::FunctionType::get(
            builder_.getInt32Ty(), {builder_.getPtrTy(), builder_.getInt32Ty(), builder_.getInt32Ty()}, false);
        region_ = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                                         kernel.name + ".region" + llvm::Twine(site), module_);
        llvm::MDBuilder metadata(context_);
        llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain("vgc");
        own_scope_ = llvm::MDNode::get(context_, {metadata.createAnonymousAliasScope(domain, "vgc.frame")});
        access_group_ = llvm::MDNode::getDistinct(context_, {});
    }

    llvm::Function *build()
    {
        copy_attributes();
        make_blocks();
        emit_entry();
        emit_rows();
        emit_thread_begin();
        clone_body();
        finish_waits();
        replace_stand_ins();
        annotate();
        relax_guards();
        emit_latch();
        vectorise_loops();
        return region_;
    }

    /// Code that may run for long, or calls functions, says which thread runs. Everything else stays vectorisable.
    bool keeps_position() const
    {
        return has_cycle(source_, blocks_, wait_blocks_) || calls_out(blocks_);
    }

    /// Threads run together: the position that the context has is that of the first.
    bool in_lockstep() const
    {
        return in_lockstep_;
    }

  private:
    void copy_attributes()
    {
        for (const char *name :
             {"target-cpu", "target-features", "tune-cpu", "no-trapping-math", "min-legal-vector-width"})
            if (const llvm::Attribute attribute = kernel_.function->getFnAttribute(name); attribute.isValid())
                region_->addFnAttr(attribute);
        region_->addFnAttr("min-legal-vector-width", "512");
        region_->addFnAttr("prefer-vector-width", "512");
        region_->addFnAttr(llvm::Attribute::NoUnwind);
        region_->addParamAttr(0, llvm::Attribute::NoAlias);
        region_->addParamAttr(0, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
    }

    void make_blocks()
    {
        for (auto [block, name] :
             std::initializer_list<std::pair<llvm::BasicBlock **, const char *>>{{&entry_, "entry"},
                                                                                 {&row_, "row"},
                                                                                 {&thread_, "thread"},
                                                                                 {&latch_, "latch"},
                                                                                 {&row_end_, "row.end"},
                                                                                 {&exit_, "exit"}})
            *block = llvm::BasicBlock::Create(context_, name, region_);
    }

    /// Loads what is the same for all threads, and finds the first thread's row.
    void emit_entry()
    {
        builder_.SetInsertPoint(entry_);
        llvm::Value *ctx = region_->getArg(0);
        load_block_view(builder_, ctx, view_);
        params_ = load_field(builder_, ctx, builder_.getPtrTy(), offsetof(vgc_cpu_ctx, params), "params");
        if (!slots_.empty()) {
            frame_ = load_field(builder_, ctx, builder_.getPtrTy(), offsetof(vgc_cpu_ctx, frame), "frame");
            stride_ = builder_.CreateZExt(
                load_field(builder_, ctx, builder_.getInt32Ty(), offsetof(vgc_cpu_ctx, stride), "stride"),
                builder_.getInt64Ty());
        }
        for (const Param &param : kernel_.params)
            load_param(param);
        for (auto &[alloca, slot] : slots_)
            slot_base_[alloca] = builder_.CreateGEP(builder_.getInt8Ty(), frame_,
                                                    builder_.CreateMul(stride_, builder_.getInt64(slot.offset)));
        llvm::Value *row = builder_.CreateUDiv(region_->getArg(1), view_.block_dim[0]);
        first_x_ = builder_.CreateSub(region_->getArg(1), builder_.CreateMul(row, view_.block_dim[0]));
        first_z_ = builder_.CreateUDiv(row, view_.block_dim[1]);
        first_y_ = builder_.CreateSub(row, builder_.CreateMul(first_z_, view_.block_dim[1]));
        builder_.CreateBr(row_);
    }

    void load_param(const Param &param)
    {
        for (unsigned part = 0; part < param.num_args; part++) {
            llvm::Argument *argument = kernel_.function->getArg(param.first_arg + part);
            llvm::Value *address =
                builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), params_, param.offset + 8 * part);
            if (param.passing == Param::MEMORY) {
                values_[argument] = address;
            } else if (argument->getType()->isIntegerTy(1)) {
                values_[argument] =
                    builder_.CreateTrunc(builder_.CreateLoad(builder_.getInt8Ty(), address), argument->getType());
            } else {
                const uint64_t align = llvm::MinAlign(16, param.offset + 8 * part);
                values_[argument] =
                    builder_.CreateAlignedLoad(argument->getType(), address, llvm::Align(align), argument->getName());
            }
        }
    }

    /// One turn per row of threads that differ only in threadIdx.x.
    void emit_rows()
    {
        builder_.SetInsertPoint(row_);
        llvm::Type *u32 = builder_.getInt32Ty();
        row_first_ = builder_.CreatePHI(u32, 2, "row.first"); // linear index of the row's first thread in the range
        row_x_ = builder_.CreatePHI(u32, 2, "row.x");
        view_.tid[1] = row_y_ = builder_.CreatePHI(u32, 2, "tid.y");
        view_.tid[2] = row_z_ = builder_.CreatePHI(u32, 2, "tid.z");
        row_first_->addIncoming(region_->getArg(1), entry_);
        row_x_->addIncoming(first_x_, entry_);
        row_y_->addIncoming(first_y_, entry_);
        row_z_->addIncoming(first_z_, entry_);
        row_all_ = builder_.CreatePHI(u32, 2, "sites.and");
        row_any_ = builder_.CreatePHI(u32, 2, "sites.or");
        row_all_->addIncoming(builder_.getInt32(~0u), entry_);
        row_any_->addIncoming(builder_.getInt32(0), entry_);
        llvm::Value *left = builder_.CreateSub(region_->getArg(2), row_first_);
        llvm::Value *room = builder_.CreateSub(view_.block_dim[0], row_x_);
        row_count_ = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, room);
        row_base_ = builder_.CreateSub(row_first_, row_x_);
        row_limit_ = builder_.CreateAdd(row_x_, row_count_, "row.limit", true, true);
        builder_.CreateBr(thread_);
    }

    void emit_thread_begin()
    {
        builder_.SetInsertPoint(thread_);
        llvm::Type *u32 = builder_.getInt32Ty();
        view_.tid[0] = x_ = builder_.CreatePHI(u32, 2, "tid.x");
        x_->addIncoming(row_x_, row_);
        all_ = builder_.CreatePHI(u32, 2, "all");
        any_ = builder_.CreatePHI(u32, 2, "any");
        all_->addIncoming(row_all_, row_);
        any_->addIncoming(row_any_, row_);
        view_.linear = builder_.CreateAdd(row_base_, x_, "linear", true, true);
        linear64_ = builder_.CreateZExt(view_.linear, builder_.getInt64Ty());
        if (keeps_position())
            store_position();
        for (auto &[alloca, slot] : slots_) {
            llvm::Value *offset = builder_.CreateMul(linear64_, builder_.getInt64(slot.size));
            slot_address_[alloca] = builder_.CreateInBoundsGEP(builder_.getInt8Ty(), slot_base_[alloca], offset);
            values_[alloca] = slot_address_[alloca];
        }
    }

    /// Tells the context which thread runs: for functions that ask for it, and for error messages.
    void store_position()
    {
        for (unsigned axis = 0; axis < 3; axis++) {
            llvm::Value *field = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), region_->getArg(0),
                                                                     offsetof(vgc_cpu_ctx, tid) + 4 * axis);
            builder_.CreateStore(view_.tid[axis], field, true);
        }
    }

    void clone_body()
    {
        for (llvm::BasicBlock *block : blocks_) {
            llvm::BasicBlock *clone = llvm::CloneBasicBlock(block, values_, "", region_);
            values_[block] = clone;
            clones_.push_back(clone);
            move_allocas(*block);
        }
        llvm::SmallPtrSet<llvm::BasicBlock *, 16> members(blocks_.begin(), blocks_.end());
        for (llvm::BasicBlock *block : blocks_)
            for (llvm::PHINode &phi : block->phis())
                for (unsigned i = phi.getNumIncomingValues(); i-- > 0;)
                    if (!members.contains(phi.getIncomingBlock(i)))
                        llvm::cast<llvm::PHINode>(values_[&phi])->removeIncomingValue(i, false);
        // The branches of wait blocks lead out of the region; they are replaced below.
        llvm::remapInstructionsInBlocks(clones_, values_);
        builder_.SetInsertPoint(thread_);
        builder_.CreateBr(llvm::cast<llvm::BasicBlock>(values_[source_]));
    }

    /// Slots lose their alloca; a kernel without waits keeps its own, once per region instead of once per thread.
    void move_allocas(llvm::BasicBlock &block)
    {
        for (llvm::Instruction &instruction : block)
            if (auto *alloca = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
                auto *copy = llvm::cast<llvm::AllocaInst>(values_[alloca]);
                if (slots_.contains(alloca)) {
                    values_[alloca] = slot_address_[alloca];
                    copy->eraseFromParent();
                } else if (copy->isStaticAlloca() || llvm::isa<llvm::ConstantInt>(copy->getArraySize())) {
                    copy->moveBefore(&*entry_->begin());
                    has_locals_ = true;
                } else {
                    fail("kernel '" + kernel_.name + "' uses local memory of variable length");
                }
            }
    }

    llvm::Value *element(size_t array, llvm::Type *type)
    {
        llvm::Value *base = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), region_->getArg(0), array);
        return builder_.CreateInBoundsGEP(type, base, linear64_);
    }

    void store_own(llvm::Value *value, size_t array)
    {
        builder_.CreateStore(value, element(array, value->getType()))
            ->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_);
    }

    /// Turns the ends of the region into branches to the latch that say which site the thread reached.
    void finish_waits()
    {
        builder_.SetInsertPoint(latch_);
        next_ = builder_.CreatePHI(builder_.getInt32Ty(), 4, "next");
        for (size_t i = 0; i < waits_.size(); i++)
            if (blocks_.contains(waits_[i].block))
                finish_wait(waits_[i], uint32_t(i + 1));
        for (llvm::BasicBlock *clone : clones_)
            if (llvm::isa<llvm::ReturnInst>(clone->getTerminator()))
                leave(*clone, VGC_REGION_EXIT);
    }

    void finish_wait(const Wait &wait, uint32_t site)
    {
        auto *block = llvm::cast<llvm::BasicBlock>(values_[wait.block]);
        auto *call = llvm::cast<llvm::CallInst>(values_[wait.call]);
        builder_.SetInsertPoint(call);
        auto operand = [&](int index, size_t array, bool keep_constants) {
            if (index < 0)
                return;
            llvm::Value *value = call->getArgOperand(unsigned(index));
            if (keep_constants || !llvm::isa<llvm::ConstantInt>(value))
                store_own(value, array);
        };
        operand(wait.mask, offsetof(vgc_cpu_ctx, mask), false);
        operand(wait.arg, offsetof(vgc_cpu_ctx, arg), false);
        operand(wait.value, wait.wide ? offsetof(vgc_cpu_ctx, value64) : offsetof(vgc_cpu_ctx, value32), true);
        call->eraseFromParent();
        leave(*block, site);
    }

    void leave(llvm::BasicBlock &block, uint32_t site)
    {
        block.getTerminator()->eraseFromParent();
        builder_.SetInsertPoint(&block);
        builder_.CreateBr(latch_);
        next_->addIncoming(builder_.getInt32(site), &block);
        sites_.insert(site);
    }

    void replace_stand_ins()
    {
        for (llvm::BasicBlock *clone : clones_)
            for (llvm::Instruction &instruction : llvm::make_early_inc_range(*clone)) {
                llvm::Value *replacement = nullptr;
                builder_.SetInsertPoint(&instruction);
                if (const std::optional<bool> wide = is_result_call(instruction)) {
                    const size_t array = *wide ? offsetof(vgc_cpu_ctx, result64) : offsetof(vgc_cpu_ctx, result32);
                    auto *load = builder_.CreateLoad(instruction.getType(), element(array, instruction.getType()));
                    load->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_);
                    replacement = load;
                } else if (is_position_call(instruction)) {
                    replacement = position_value(llvm::cast<llvm::CallInst>(instruction), view_);
                }
                if (replacement != nullptr) {
                    instruction.replaceAllUsesWith(replacement);
                    instruction.eraseFromParent();
                }
            }
    }

    bool is_slot_access(const llvm::Instruction &instruction) const
    {
        const llvm::Value *address = llvm::getLoadStorePointerOperand(&instruction);
        for (const auto &[alloca, slot] : slots_)
            if (alloca->getName().starts_with("kept") && address == slot_address_.lookup(alloca))
                return true;
        return false;
    }

    /// What the loop may assume: threads do not touch the same memory between waits (a race, otherwise), and the
    /// kernel's own accesses never touch the frame.
    void annotate()
    {
        for (llvm::BasicBlock *clone : clones_)
            for (llvm::Instruction &instruction : *clone) {
                if (!instruction.mayReadOrWriteMemory())
                    continue;
                if (instruction.getMetadata(llvm::LLVMContext::MD_alias_scope) == nullptr) {
                    if (is_slot_access(instruction))
                        instruction.setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_);
                    else
                        instruction.setMetadata(
                            llvm::LLVMContext::MD_noalias,
                            llvm::MDNode::concatenate(instruction.getMetadata(llvm::LLVMContext::MD_noalias),
                                                      own_scope_));
                }
                if (!has_locals_)
                    instruction.setMetadata(llvm::LLVMContext::MD_access_group, access_group_);
            }
    }

    void relax_guards()
    {
        llvm::SmallVector<llvm::BasicBlock *, 16> body(clones_);
        body.push_back(thread_);
        hoist_guards({x_, row_x_, row_limit_, row_->getTerminator()}, body);
    }

    void emit_latch()
    {
        if (sites_.empty()) { // no thread gets here: each ends in a trap or in a loop without end
            next_->eraseFromParent();
            next_ = nullptr;
            latch_->moveAfter(thread_);
        }
        builder_.SetInsertPoint(latch_);
        const bool uniform = sites_.size() <= 1;
        llvm::Value *all = all_, *any = any_;
        if (!uniform) {
            llvm::Value *address = element(offsetof(vgc_cpu_ctx, next), builder_.getInt32Ty());
            llvm::StoreInst *store = next_store_ = builder_.CreateStore(next_, address);
            store->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_);
            if (!has_locals_)
                store->setMetadata(llvm::LLVMContext::MD_access_group, access_group_);
            all = builder_.CreateAnd(all_, next_);
            any = builder_.CreateOr(any_, next_);
        }
        llvm::Value *x = builder_.CreateAdd(x_, builder_.getInt32(1), "x.next", true, true);
        llvm::BranchInst *back = builder_.CreateCondBr(builder_.CreateICmpULT(x, row_limit_), thread_, row_end_);
        back->setMetadata(llvm::LLVMContext::MD_loop, loop_metadata());
        x_->addIncoming(x, latch_);
        all_->addIncoming(all, latch_);
        any_->addIncoming(any, latch_);
        emit_row_end(all, any, uniform);
    }

    void emit_row_end(llvm::Value *all, llvm::Value *any, bool uniform)
    {
        builder_.SetInsertPoint(row_end_);
        llvm::Value *first = builder_.CreateAdd(row_first_, row_count_);
        llvm::Value *y = builder_.CreateAdd(row_y_, builder_.getInt32(1));
        llvm::Value *wrap = builder_.CreateICmpEQ(y, view_.block_dim[1]);
        row_first_->addIncoming(first, row_end_);
        row_x_->addIncoming(builder_.getInt32(0), row_end_);
        row_y_->addIncoming(builder_.CreateSelect(wrap, builder_.getInt32(0), y), row_end_);
        row_z_->addIncoming(builder_.CreateAdd(row_z_, builder_.CreateZExt(wrap, builder_.getInt32Ty())), row_end_);
        row_all_->addIncoming(all, row_end_);
        row_any_->addIncoming(any, row_end_);
        builder_.CreateCondBr(builder_.CreateICmpULT(first, region_->getArg(2)), row_, exit_);
        builder_.SetInsertPoint(exit_);
        if (uniform)
            builder_.CreateRet(builder_.getInt32(sites_.empty() ? 0 : *sites_.begin()));
        else
            builder_.CreateRet(builder_.CreateSelect(builder_.CreateICmpEQ(all, any), all,
                                                     builder_.getInt32(uint32_t(VGC_REGION_DIVERGED))));
    }

    void vectorise_loops()
    {
        if (has_locals_ || sites_.empty())
            return;
        ThreadLoop loop{region_, entry_,     row_,  thread_,     latch_, row_end_, x_,
                        row_x_,  row_limit_, next_, next_store_, all_,   any_,     access_group_};
        in_lockstep_ = turn_inside_out(loop);
    }

    llvm::MDNode *loop_metadata()
    {
        llvm::SmallVector<llvm::Metadata *, 3> entries = {nullptr};
        if (!has_locals_)
            entries.push_back(llvm::MDNode::get(
                context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), access_group_}));
        entries.push_back(llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.interleave.count"),
                                                       llvm::ConstantAsMetadata::get(builder_.getInt32(1))}));
        llvm::MDNode *node = llvm::MDNode::getDistinct(context_, entries);
        node->replaceOperandWith(0, node);
        return node;
    }

    Kernel &kernel_;
    const Slots &slots_;
    const std::vector<Wait> &waits_;
    llvm::Module &module_;
    llvm::LLVMContext &context_;
    llvm::IRBuilder<> builder_;
    llvm::SmallPtrSet<llvm::BasicBlock *, 16> wait_blocks_;
    llvm::BasicBlock *source_;
    llvm::SetVector<llvm::BasicBlock *> blocks_;
    llvm::Function *region_;
    llvm::MDNode *own_scope_;
    llvm::MDNode *access_group_;
    llvm::ValueToValueMapTy values_;
    llvm::DenseMap<llvm::AllocaInst *, llvm::Value *> slot_base_, slot_address_;
    llvm::SmallVector<llvm::BasicBlock *, 16> clones_;
    std::set<uint32_t> sites_;
    ThreadView view_{};
    bool has_locals_ = false;
    bool in_lockstep_ = false;
    llvm::BasicBlock *entry_, *row_, *thread_, *latch_, *row_end_, *exit_;
    llvm::Value *params_ = nullptr, *frame_ = nullptr, *stride_ = nullptr, *linear64_ = nullptr;
    llvm::Value *first_x_ = nullptr, *first_y_ = nullptr, *first_z_ = nullptr;
    llvm::Value *row_count_ = nullptr, *row_base_ = nullptr, *row_limit_ = nullptr;
    llvm::PHINode *row_first_ = nullptr, *row_x_ = nullptr, *row_y_ = nullptr, *row_z_ = nullptr;
    llvm::PHINode *row_all_ = nullptr, *row_any_ = nullptr;
    llvm::StoreInst *next_store_ = nullptr;
    llvm::PHINode *x_ = nullptr, *all_ = nullptr, *any_ = nullptr, *next_ = nullptr;
};

/// What the runtime must know about a wait. Looks at the call's operands, so before the kernel's body goes.
Kernel::Site describe_site(const Wait &wait)
{
    Kernel::Site site{nullptr, wait.kind, wait.wide ? uint32_t(VGC_SITE_WIDE) : 0, 0, 0};
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
    return site;
}

bool is_call_of(const llvm::Value *value, llvm::StringRef prefix)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(value);
    return call != nullptr && call->getCalledFunction() != nullptr &&
           call->getCalledFunction()->getName().starts_with(prefix);
}

/// blockIdx * blockDim, or gridDim * blockDim.
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

/// blockIdx * blockDim + threadIdx does not wrap: the runtime refuses launches of 2^31 threads and more in a row.
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

void form_kernel(Kernel &kernel)
{
    llvm::Function &function = *kernel.function;
    llvm::EliminateUnreachableBlocks(function);
    mark_thread_indices(function);
    const std::vector<Wait> waits = split_at_waits(function);
    std::vector<llvm::AllocaInst *> kept;
    if (!waits.empty())
        kept = keep_across_waits(function, waits);
    const Slots slots = lay_out(kept, kernel);
    kernel.sites.push_back({nullptr, VGC_SITE_ENTRY, 0, 0, 0});
    for (const Wait &wait : waits)
        kernel.sites.push_back(describe_site(wait));
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
                         "' waits for other threads, but is recursive or called through a pointer: barriers and warp "
                         "operations are "
                         "possible in functions that can be inlined into the kernel");
}

} // namespace

void form_regions(llvm::Module &module, Program &program)
{
    for (Kernel &kernel : program.kernels)
        form_kernel(kernel);
    check_no_waits(module);
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            lower_positions_by_context(function);
}

} // namespace vgc
