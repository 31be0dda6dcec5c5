// Loops that a compiler has unrolled with a remainder: shape of such a pair, and the proof that they belong together.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{

/// Blocks of a pair: the loop that runs the first few rounds one by one, then the one that runs several per round.
///     fork -> before -> first -> first_end -> between -> main_before -> main -> main_end -> behind
///     fork -> between (no first rounds),   between -> behind (no more rounds)
struct UnrolledPair {
    llvm::BasicBlock *fork, *before, *first, *first_end, *between, *main_before, *main, *main_end, *behind;
    const llvm::Loop *loop; // the first

    /// The pair whose first loop is this one, if it is in exactly this shape.
    static std::optional<UnrolledPair> of(const llvm::Loop &first, const llvm::LoopInfo &loops);
};

/// Hides from analyses what values come together between the loops, while it lives: they would find one number that
/// holds for both ways, and not those of each.
class WaysApart
{
  public:
    explicit WaysApart(const UnrolledPair &pair);
    ~WaysApart();

  private:
    std::vector<llvm::Instruction *> opaque_;
};

/// The phi that the instruction hides; null for other instructions.
const llvm::PHINode *joined(const llvm::Instruction &instruction);

/// A number that grows by the same amount in each round of a loop.
struct Walk {
    const llvm::SCEV *begin;
    llvm::APInt step;
};

/// Proof that one round of the main loop is `copies` rounds of the first, which begin where the first loop ends.
class RoundMatch
{
  public:
    RoundMatch(const UnrolledPair &pair, llvm::ScalarEvolution &evolution, unsigned copies);

    bool prove();
    /// Numbers that have to be zero before the loops. Where one is not, the main loop may begin elsewhere than where
    /// the first one ends.
    const std::vector<const llvm::SCEV *> &conditions() const
    {
        return conditions_;
    }
    /// Value of the first loop's code that has the value of the main loop's in the last copy; null if no value was
    /// found to.
    llvm::Instruction *last_copy_of(const llvm::Instruction &value) const;
    /// Begin and step that a number of the main loop has in rounds of the first, if it grows evenly from the first
    /// loop's begin on.
    std::optional<Walk> through_all(llvm::Value *value);
    /// Begin and step of a number of the first loop that is computed from such numbers alone, without wrapping
    /// differently in later rounds.
    std::optional<Walk> in_first(llvm::Value *value);
    /// Leaves copies of the first loop's instructions the flags that hold for the main loop's rounds, too.
    void relax_flags(llvm::ValueToValueMapTy &made);

  private:
    std::optional<Walk> walk(llvm::Value *value, const llvm::BasicBlock *block);
    bool is_linear(const llvm::Value *value, unsigned depth = 0) const;
    bool is_walking_phi(const llvm::PHINode &phi) const;
    bool pair_sums();
    bool begins_as(llvm::PHINode &phi, llvm::PHINode &main_phi) const;
    llvm::Value *on_way(llvm::Value *value, llvm::BasicBlock *from) const;
    const llvm::SCEV *on_way(const llvm::SCEV *number, llvm::BasicBlock *from);
    const llvm::SCEV *behind(const llvm::SCEV *number);
    bool stands_for(llvm::Value *value, const llvm::SCEV *number);

    bool match_stores();
    bool match(llvm::Value *value, llvm::Value *other, unsigned copy);
    bool match_outside(llvm::Value *value, llvm::Value *other);
    bool match_walk(llvm::Value *value, llvm::Value *other, unsigned copy);
    bool match_operation(llvm::Instruction &value, llvm::Instruction &other, unsigned copy);
    bool match_operands(llvm::Instruction &value, llvm::Instruction &other, unsigned copy, bool swapped);
    void forget_from(size_t place);
    bool must_be_zero(const llvm::SCEV *number);
    bool has_all_of(const llvm::Instruction &value) const;

    const UnrolledPair &pair_;
    llvm::ScalarEvolution &evolution_;
    const llvm::DataLayout &layout_;
    const unsigned copies_;
    unsigned effort_ = 0;

    std::vector<std::pair<llvm::PHINode *, llvm::PHINode *>> sums_;
    llvm::DenseMap<const llvm::Instruction *, unsigned> stores_before_;
    std::vector<llvm::StoreInst *> stores_, main_stores_;
    struct Matched {
        llvm::Instruction *value;
        unsigned copy;
        llvm::Instruction *other;
    };
    std::vector<Matched> matched_;                                            // in the order in which they were tried
    std::map<std::pair<const llvm::Instruction *, unsigned>, size_t> places_; // in matched_
    std::vector<const llvm::SCEV *> conditions_;
};

} // namespace vgc
