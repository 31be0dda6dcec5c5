// The function of a region around the kernel's code: it runs a range of the block's threads, row by row, and returns
// the site that they have reached.
#include "lanes.h"
#include "region.h"
#include "region_twins.h"

#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/Alignment.h"

namespace vgc
{

RegionLoops::RegionLoops(Kernel &kernel, const Slots &slots, const std::vector<Wait> &waits, size_t site)
    : RegionReach(kernel, waits, site), slots_(slots), module_(*kernel.function->getParent()),
      context_(module_.getContext()), builder_(context_)
{
    llvm::FunctionType *type = llvm::FunctionType::get(
        builder_.getInt32Ty(), {builder_.getPtrTy(), builder_.getInt32Ty(), builder_.getInt32Ty(), builder_.getPtrTy()},
        false);
    region_ = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                                     kernel.name + ".region" + llvm::Twine(site), module_);
    llvm::MDBuilder metadata(context_);
    llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain("vgc");
    own_scope_ = llvm::MDNode::get(context_, {metadata.createAnonymousAliasScope(domain, "vgc.frame")});
    access_group_ = llvm::MDNode::getDistinct(context_, {});
}

void RegionLoops::open()
{
    copy_attributes();
    make_blocks();
    emit_entry();
    emit_rows();
    emit_thread_begin();
}

void RegionLoops::close()
{
    emit_latch();
    vectorise_loops();
}

void RegionLoops::copy_attributes()
{
    for (const char *name : {"target-cpu", "target-features", "tune-cpu", "no-trapping-math", "min-legal-vector-width"})
        if (const llvm::Attribute attribute = kernel_.function->getFnAttribute(name); attribute.isValid())
            region_->addFnAttr(attribute);
    region_->addFnAttr("min-legal-vector-width", "512");
    region_->addFnAttr("prefer-vector-width", "512");
    region_->addFnAttr(llvm::Attribute::NoUnwind);
    region_->addParamAttr(0, llvm::Attribute::NoAlias);
    region_->addParamAttr(0, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
}

void RegionLoops::make_blocks()
{
    for (auto [block, name] :
         std::initializer_list<std::pair<llvm::BasicBlock **, const char *>>{{&entry_, "entry"},
                                                                             {&inside_, "inside"},
                                                                             {&row_, "row"},
                                                                             {&thread_, "thread"},
                                                                             {&latch_, "latch"},
                                                                             {&row_end_, "row.end"},
                                                                             {&exit_, "exit"}})
        *block = llvm::BasicBlock::Create(context_, name, region_);
}

/// Loads values that are the same for all threads, and finds the first thread's row.
void RegionLoops::emit_entry()
{
    builder_.SetInsertPoint(entry_);
    llvm::Value *ctx = region_->getArg(0);
    load_block_view(builder_, ctx, view_);
    row_threads_ =
        (kernel_.flags & VGC_CPU_KERNEL_STRIPS) == 0
            ? view_.block_dim[0]
            : load_field(builder_, ctx, builder_.getInt32Ty(), offsetof(vgc_cpu_ctx, row_threads), "row.threads");
    params_ = load_field(builder_, ctx, builder_.getPtrTy(), offsetof(vgc_cpu_ctx, params), "params");
    if (!slots_.empty()) {
        frame_ = load_field(builder_, ctx, builder_.getPtrTy(), offsetof(vgc_cpu_ctx, frame), "frame");
        stride_ = builder_.CreateZExt(
            load_field(builder_, ctx, builder_.getInt32Ty(), offsetof(vgc_cpu_ctx, stride), "stride"),
            builder_.getInt64Ty());
    }
    for (const Param &param : kernel_.params)
        load_param(param);
    for (llvm::AllocaInst *alloca : locals_)
        if (const auto slot = slots_.find(alloca); slot != slots_.end()) {
            auto *offset = llvm::BinaryOperator::CreateMul(stride_, builder_.getInt64(slot->second.offset));
            mark_own_constants(*builder_.Insert(offset));
            slot_base_[alloca] = builder_.CreateGEP(builder_.getInt8Ty(), frame_, offset);
            if (slot->second.common)
                load_common(alloca, slot->second);
        }
    builder_.CreateCondBr(builder_.CreateICmpEQ(region_->getArg(1), builder_.getInt32(0)), row_, inside_);
    builder_.SetInsertPoint(inside_); // the divisions take longer than a small block
    llvm::Value *row = builder_.CreateUDiv(region_->getArg(1), row_threads_);
    first_x_ = builder_.CreateSub(region_->getArg(1), builder_.CreateMul(row, row_threads_));
    first_z_ = builder_.CreateUDiv(row, view_.block_dim[1]);
    first_y_ = builder_.CreateSub(row, builder_.CreateMul(first_z_, view_.block_dim[1]));
    builder_.CreateBr(row_);
}

/// Loads a common slot's value from the first thread's element.
void RegionLoops::load_common(llvm::AllocaInst *alloca, const Slot &slot)
{
    llvm::Value *first = builder_.CreateZExt(region_->getArg(1), builder_.getInt64Ty());
    llvm::Value *offset = builder_.CreateMul(first, builder_.getInt64(slot.size));
    llvm::Value *address = builder_.CreateInBoundsGEP(builder_.getInt8Ty(), slot_base_[alloca], offset);
    common_[alloca] = builder_.CreateLoad(alloca->getAllocatedType(), address, "common");
    common_[alloca]->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_);
}

void RegionLoops::load_param(const Param &param)
{
    for (unsigned part = 0; part < param.num_args; part++) {
        llvm::Argument *argument = kernel_.function->getArg(param.first_arg + part);
        const uint64_t offset = param.offset + param.lead + 8 * part;
        llvm::Value *address = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), params_, offset);
        if (param.passing == Param::MEMORY) {
            values_[argument] = address;
        } else if (argument->getType()->isIntegerTy(1)) {
            values_[argument] =
                builder_.CreateTrunc(builder_.CreateLoad(builder_.getInt8Ty(), address), argument->getType());
        } else {
            const llvm::Align align(llvm::MinAlign(16, offset));
            values_[argument] = builder_.CreateAlignedLoad(argument->getType(), address, align, argument->getName());
        }
    }
}

/// Emits the loop over rows of threads that differ only in threadIdx.x.
void RegionLoops::emit_rows()
{
    builder_.SetInsertPoint(row_);
    llvm::Type *u32 = builder_.getInt32Ty();
    row_first_ = builder_.CreatePHI(u32, 3, "row.first"); // linear index of the row's first thread in the range
    row_x_ = builder_.CreatePHI(u32, 3, "row.x");
    view_.tid[1] = row_y_ = builder_.CreatePHI(u32, 3, "tid.y");
    view_.tid[2] = row_z_ = builder_.CreatePHI(u32, 3, "tid.z");
    row_first_->addIncoming(region_->getArg(1), inside_);
    row_x_->addIncoming(first_x_, inside_);
    row_y_->addIncoming(first_y_, inside_);
    row_z_->addIncoming(first_z_, inside_);
    for (llvm::PHINode *position : {row_first_, row_x_, row_y_, row_z_})
        position->addIncoming(builder_.getInt32(0), entry_);
    row_all_ = builder_.CreatePHI(u32, 3, "sites.and");
    row_any_ = builder_.CreatePHI(u32, 3, "sites.or");
    for (llvm::BasicBlock *before : {entry_, inside_}) {
        row_all_->addIncoming(builder_.getInt32(~0u), before);
        row_any_->addIncoming(builder_.getInt32(0), before);
    }
    llvm::Value *left = builder_.CreateSub(region_->getArg(2), row_first_);
    llvm::Value *room = builder_.CreateSub(row_threads_, row_x_);
    row_count_ = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, room);
    row_base_ = builder_.CreateSub(row_first_, row_x_);
    row_limit_ = builder_.CreateAdd(row_x_, row_count_, "row.limit", true, true);
    if (keeps_position())
        store_position(1, 3);
    builder_.CreateBr(thread_);
}

void RegionLoops::emit_thread_begin()
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
        store_position(0, 1);
    for (llvm::AllocaInst *alloca : locals_) {
        const auto slot = slots_.find(alloca);
        if (slot == slots_.end())
            continue;
        llvm::Value *offset = builder_.CreateMul(linear64_, builder_.getInt64(slot->second.size));
        slot_address_[alloca] = builder_.CreateInBoundsGEP(builder_.getInt8Ty(), slot_base_[alloca], offset);
        values_[alloca] = slot_address_[alloca];
    }
}

/// Stores a part of the running thread's position in the context, for functions that read it and for error texts.
void RegionLoops::store_position(unsigned first, unsigned last)
{
    for (unsigned axis = first; axis < last; axis++) {
        llvm::Value *field = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), region_->getArg(0),
                                                                 offsetof(vgc_cpu_ctx, tid) + 4 * axis);
        builder_.CreateStore(view_.tid[axis], field, true);
    }
}

llvm::Value *RegionLoops::element(size_t array, llvm::Type *type)
{
    llvm::Value *base = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), region_->getArg(0), array);
    return builder_.CreateInBoundsGEP(type, base, linear64_);
}

void RegionLoops::emit_latch()
{
    if (sites_.empty()) { // no thread gets here: each ends in a trap or an endless loop
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

void RegionLoops::emit_row_end(llvm::Value *all, llvm::Value *any, bool uniform)
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
        mark_own_constants(*builder_.CreateRet(builder_.getInt32(sites_.empty() ? 0 : *sites_.begin())));
    else
        builder_.CreateRet(builder_.CreateSelect(builder_.CreateICmpEQ(all, any), all,
                                                 builder_.getInt32(uint32_t(VGC_REGION_DIVERGED))));
}

void RegionLoops::vectorise_loops()
{
    if (has_locals_ || sites_.empty())
        return;
    ThreadLoop loop{region_,     entry_, row_,   thread_,       latch_,
                    row_end_,    x_,     row_x_, row_limit_,    next_,
                    next_store_, all_,   any_,   access_group_, (kernel_.flags & VGC_CPU_KERNEL_STRIPS) != 0};
    in_lockstep_ = turn_inside_out(loop);
}

llvm::MDNode *RegionLoops::loop_metadata()
{
    llvm::SmallVector<llvm::Metadata *, 3> entries = {nullptr};
    if (!has_locals_)
        entries.push_back(
            llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), access_group_}));
    entries.push_back(llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.interleave.count"),
                                                   llvm::ConstantAsMetadata::get(builder_.getInt32(1))}));
    llvm::MDNode *node = llvm::MDNode::getDistinct(context_, entries);
    node->replaceOperandWith(0, node);
    return node;
}

} // namespace vgc
