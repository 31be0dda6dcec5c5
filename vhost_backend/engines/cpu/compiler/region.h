// The layers of forming a region (explained in regions.cpp), each built on the one before:
//   RegionReach    region_reach.cpp   the kernel's code that threads run from a site to their next one
//   RegionLoops    region_loops.cpp   the region's function: loops over rows of threads, and over the threads of a row
//   RegionBuilder  region_body.cpp    the kernel's code in these loops, from a site to the next
#pragma once

#include <set>

#include "frame.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{

/// Code of the region of a site. Site 0 is the kernel's entry, site n the code behind waits[n - 1].
class RegionReach
{
  public:
    /// True if the code notes which thread runs: it may run for long, or calls functions. Other code stays
    /// vectorisable.
    bool keeps_position() const;

  protected:
    RegionReach(Kernel &kernel, const std::vector<Wait> &waits, size_t site);

    Kernel &kernel_;
    const std::vector<Wait> &waits_;
    llvm::SmallPtrSet<llvm::BasicBlock *, 16> wait_blocks_;
    llvm::BasicBlock *source_;
    llvm::SetVector<llvm::BasicBlock *> blocks_;
    llvm::SetVector<llvm::AllocaInst *> locals_; // that the code uses, in the order of their first uses
};

/// Function and loops of a region. The body sets `sites_`, `has_locals_` and `next_`.
class RegionLoops : public RegionReach
{
  public:
    /// True if threads run in lockstep: the context's position is then that of the first.
    bool in_lockstep() const
    {
        return in_lockstep_;
    }

  protected:
    RegionLoops(Kernel &kernel, const Slots &slots, const std::vector<Wait> &waits, size_t site);

    /// Emits all code up to the begin of a thread; `thread_` has no terminator yet.
    void open();
    /// Emits all code from `latch_` on, where threads come together; its phi `next_` is the site that each has reached.
    void close();

    /// Address of the running thread's element of one of the context's arrays.
    llvm::Value *element(size_t array, llvm::Type *type);

    const Slots &slots_;
    llvm::Module &module_;
    llvm::LLVMContext &context_;
    llvm::IRBuilder<> builder_;
    llvm::Function *region_;
    llvm::MDNode *own_scope_;
    llvm::MDNode *access_group_;
    llvm::ValueToValueMapTy values_;
    llvm::DenseMap<llvm::AllocaInst *, llvm::Value *> slot_address_;
    llvm::MapVector<llvm::AllocaInst *, llvm::LoadInst *> common_; // values of common slots at the region's begin
    std::set<uint32_t> sites_;
    ThreadView view_{};
    bool has_locals_ = false;
    llvm::BasicBlock *entry_, *inside_, *row_, *thread_, *latch_, *row_end_, *exit_;
    llvm::PHINode *row_x_ = nullptr, *x_ = nullptr, *next_ = nullptr;
    llvm::Value *row_limit_ = nullptr;
    llvm::Value *row_threads_ = nullptr; // of a whole row

  private:
    void copy_attributes();
    void make_blocks();
    void emit_entry();
    void load_common(llvm::AllocaInst *alloca, const Slot &slot);
    void load_param(const Param &param);
    void emit_rows();
    void emit_thread_begin();
    void store_position(unsigned first, unsigned last);
    void emit_latch();
    void emit_row_end(llvm::Value *all, llvm::Value *any, bool uniform);
    void vectorise_loops();
    llvm::MDNode *loop_metadata();

    llvm::DenseMap<llvm::AllocaInst *, llvm::Value *> slot_base_;
    bool in_lockstep_ = false;
    llvm::Value *params_ = nullptr, *frame_ = nullptr, *stride_ = nullptr, *linear64_ = nullptr;
    llvm::Value *first_x_ = nullptr, *first_y_ = nullptr, *first_z_ = nullptr;
    llvm::Value *row_count_ = nullptr, *row_base_ = nullptr;
    llvm::PHINode *row_first_ = nullptr, *row_y_ = nullptr, *row_z_ = nullptr;
    llvm::PHINode *row_all_ = nullptr, *row_any_ = nullptr;
    llvm::StoreInst *next_store_ = nullptr;
    llvm::PHINode *all_ = nullptr, *any_ = nullptr;
};

/// Builds a region's function.
class RegionBuilder : public RegionLoops
{
  public:
    RegionBuilder(Kernel &kernel, const Slots &slots, const std::vector<Wait> &waits, size_t site)
        : RegionLoops(kernel, slots, waits, site)
    {
    }

    llvm::Function *build();

  private:
    void clone_body();
    void move_allocas(llvm::BasicBlock &block);
    void give_back_locals();
    void store_own(llvm::Value *value, size_t array);
    void finish_waits();
    void finish_wait(const Wait &wait, uint32_t site);
    void leave(llvm::BasicBlock &block, uint32_t site);
    void replace_stand_ins();
    void read_common_once();
    bool is_slot_access(const llvm::Instruction &instruction) const;
    void annotate();
    void relax_guards();

    llvm::SmallVector<llvm::BasicBlock *, 16> clones_;
    bool gives_back_ = false;                         // has memory of alloca()
    llvm::SmallPtrSet<const llvm::Value *, 16> kept_; // addresses of slots that only the compiler's own code accesses
};

} // namespace vgc
