// Liveness of values, and carrying a value to uses in other blocks.
#pragma once

#include <map>
#include <set>

#include "compiler.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace vgc
{

/// Calls `update` for all blocks, the last first, until it is true for none of them: data flow against the way that
/// threads go.
template <typename Update> void repeat_backwards(llvm::Function &function, Update update)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (llvm::BasicBlock &block : llvm::reverse(function))
            changed |= update(block);
    }
}

/// Instructions that are live at the begin of each block (its own phis included), by backward data flow.
class Liveness
{
  public:
    explicit Liveness(llvm::Function &function);
    /// Adds the numbers of the instructions that are live at the begin of the block.
    void collect(const llvm::BasicBlock &block, std::set<unsigned> &into) const;
    llvm::Instruction *value(unsigned number) const
    {
        return values_[number];
    }

  private:
    bool update(llvm::BasicBlock &block);
    void use(llvm::BitVector &live, llvm::Value *value);

    std::vector<llvm::Instruction *> values_;
    llvm::DenseMap<const llvm::Value *, unsigned> numbers_;
    llvm::DenseMap<const llvm::BasicBlock *, llvm::BitVector> live_in_;
};

/// Instruction before which a value must be available for a use.
llvm::Instruction *point_of(const llvm::Use &use);

/// True for instructions that any thread may execute at any time, with the same effect.
bool is_pure(const llvm::Instruction &instruction);

/// Calls `make(point)` once per block with uses of the value outside of its own, and rewires these to the result.
template <typename Make> void replace_distant_uses(llvm::Instruction &value, Make make)
{
    std::vector<llvm::Use *> uses;
    for (llvm::Use &use : value.uses())
        if (point_of(use)->getParent() != value.getParent())
            uses.push_back(&use);
    std::map<llvm::BasicBlock *, llvm::Value *> made;
    for (llvm::Use *use : uses) {
        llvm::BasicBlock *block = point_of(*use)->getParent();
        auto [entry, fresh] = made.try_emplace(block, nullptr);
        if (fresh)
            entry->second = make(&*block->getFirstInsertionPt());
        use->set(entry->second);
    }
}

/// Keeps a value in memory: stored where it is defined, loaded in each other block that uses it.
llvm::AllocaInst *keep(llvm::Instruction &value);

} // namespace vgc
