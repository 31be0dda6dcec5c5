// Values that all threads have in common when they come from a wait together.
#pragma once

#include "sites.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace llvm
{
class PostDominatorTree;
}

namespace vgc
{

class CommonValues
{
  public:
    CommonValues(llvm::Function &kernel, const std::vector<Wait> &waits);

    /// True if all threads that run together from a wait have the same value.
    bool contains(const llvm::Value &value) const
    {
        return values_.contains(&value);
    }

  private:
    void find_waiting(const std::vector<Wait> &waits);
    bool may_be_common(const llvm::Instruction &instruction) const;
    bool remove_varying(const llvm::BasicBlock &block);
    bool parts_threads(const llvm::BasicBlock &block) const;
    /// Notes the code on the ways from a block where threads part to the one where they come together.
    bool part(llvm::BasicBlock &block, const llvm::PostDominatorTree &ends);

    llvm::SetVector<const llvm::BasicBlock *> waiting_; // from which a wait can be reached
    llvm::SmallPtrSet<const llvm::Value *, 32> values_;
    llvm::SmallPtrSet<const llvm::BasicBlock *, 16> parting_; // where threads part
    llvm::SmallPtrSet<const llvm::BasicBlock *, 16> parted_;  // between there and where they come together
    llvm::SmallPtrSet<const llvm::BasicBlock *, 16> joins_;   // these, and where they come together
};

} // namespace vgc
