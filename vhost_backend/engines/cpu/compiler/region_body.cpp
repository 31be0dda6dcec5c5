// The kernel's code in a region's loops: a copy of the code that can be reached from the site, with position calls,
// slots and waits replaced by the thread's position, its elements of the frame, and the ends of the region.
#include "guards.h"
#include "region.h"
#include "region_twins.h"

#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

namespace vgc
{

llvm::Function *RegionBuilder::build()
{
    open();
    clone_body();
    finish_waits();
    give_back_locals();
    read_common_once();
    replace_stand_ins();
    annotate();
    relax_guards();
    close();
    return region_;
}

void RegionBuilder::clone_body()
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

/// Removes the allocas of slots; those of a kernel without waits stay, once per region instead of once per thread if
/// their size is known.
void RegionBuilder::move_allocas(llvm::BasicBlock &block)
{
    for (llvm::Instruction &instruction : block)
        if (auto *alloca = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
            auto *copy = llvm::cast<llvm::AllocaInst>(values_[alloca]);
            if (slots_.contains(alloca)) {
                values_[alloca] = slot_address_.lookup(alloca);
                copy->eraseFromParent();
            } else if (copy->isStaticAlloca() || llvm::isa<llvm::ConstantInt>(copy->getArraySize())) {
                copy->moveBefore(&*entry_->begin());
                has_locals_ = true;
            } else { // of alloca(): each thread gives its own back
                has_locals_ = gives_back_ = true;
            }
        }
}

/// Gives the memory of alloca() back when a thread is at the end of the region, before the next one begins.
void RegionBuilder::give_back_locals()
{
    if (!gives_back_)
        return;
    builder_.SetInsertPoint(thread_->getTerminator());
    llvm::Value *stack = builder_.CreateStackSave();
    builder_.SetInsertPoint(latch_);
    builder_.CreateStackRestore(stack);
}

void RegionBuilder::store_own(llvm::Value *value, size_t array)
{
    builder_.CreateStore(value, element(array, value->getType()))
        ->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_);
}

/// Turns the ends of the region into branches to the latch, with the site that the thread has reached.
void RegionBuilder::finish_waits()
{
    builder_.SetInsertPoint(latch_);
    next_ = builder_.CreatePHI(builder_.getInt32Ty(), 4, "next");
    mark_own_constants(*next_);
    for (size_t i = 0; i < waits_.size(); i++)
        if (blocks_.contains(waits_[i].block))
            finish_wait(waits_[i], uint32_t(i + 1));
    for (llvm::BasicBlock *clone : clones_)
        if (llvm::isa<llvm::ReturnInst>(clone->getTerminator()))
            leave(*clone, VGC_REGION_EXIT);
}

void RegionBuilder::finish_wait(const Wait &wait, uint32_t site)
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

void RegionBuilder::leave(llvm::BasicBlock &block, uint32_t site)
{
    block.getTerminator()->eraseFromParent();
    builder_.SetInsertPoint(&block);
    builder_.CreateBr(latch_);
    next_->addIncoming(builder_.getInt32(site), &block);
    sites_.insert(site);
}

void RegionBuilder::replace_stand_ins()
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

/// Makes loads of common slots the values that the slots have at the region's begin, or that the thread has stored
/// since.
void RegionBuilder::read_common_once()
{
    llvm::SmallVector<llvm::AllocaInst *, 8> locals;
    for (const auto &[alloca, value] : common_) {
        builder_.SetInsertPoint(&*entry_->begin());
        llvm::AllocaInst *local = locals.emplace_back(builder_.CreateAlloca(value->getType()));
        for (llvm::User *user : llvm::make_early_inc_range(slot_address_.lookup(alloca)->users())) {
            if (auto *load = llvm::dyn_cast<llvm::LoadInst>(user)) {
                load->setOperand(llvm::LoadInst::getPointerOperandIndex(), local);
            } else {
                builder_.SetInsertPoint(llvm::cast<llvm::StoreInst>(user));
                builder_.CreateStore(llvm::cast<llvm::StoreInst>(user)->getValueOperand(), local);
            }
        }
        builder_.SetInsertPoint(thread_->getTerminator());
        builder_.CreateStore(value, local);
    }
    if (locals.empty())
        return;
    builder_.SetInsertPoint(latch_);
    llvm::Instruction *end = builder_.CreateUnreachable(); // the latch is not complete yet
    llvm::DominatorTree dominators(*region_);
    llvm::PromoteMemToReg(locals, dominators);
    end->eraseFromParent();
}

bool RegionBuilder::is_slot_access(const llvm::Instruction &instruction) const
{
    const llvm::Value *address = llvm::getLoadStorePointerOperand(&instruction);
    return address != nullptr && kept_.contains(address);
}

/// Annotates the loop: threads do not access the same memory between waits (that would be a race), and the kernel's own
/// accesses never touch the frame.
void RegionBuilder::annotate()
{
    for (const auto &[alloca, address] : slot_address_)
        if (alloca->getName().starts_with(".kept"))
            kept_.insert(address);
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
                        llvm::MDNode::concatenate(instruction.getMetadata(llvm::LLVMContext::MD_noalias), own_scope_));
            }
            if (!has_locals_)
                instruction.setMetadata(llvm::LLVMContext::MD_access_group, access_group_);
        }
}

void RegionBuilder::relax_guards()
{
    llvm::SmallVector<llvm::BasicBlock *, 16> body(clones_);
    body.push_back(thread_);
    hoist_guards({x_, row_x_, row_limit_, row_->getTerminator()}, body);
}

} // namespace vgc
