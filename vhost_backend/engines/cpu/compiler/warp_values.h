// Values that the lanes of a block's first warp have, as far as the code tells: numbers, and sums of numbers and values
// that all threads of the block share.
#pragma once

#include <map>
#include <optional>

#include "compiler.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/LoopInfo.h"

namespace vgc
{

/// A number plus multiples of values that all threads of the block share.
struct LaneValue {
    int64_t number = 0;
    std::map<const llvm::Value *, int64_t> terms;
};

/// Outcome of a condition. LIKELY: it depends on values that all threads share, such as the size of the data.
enum class Truth { NO, YES, LIKELY, UNKNOWN };

/// Values of one lane, in the first iteration of all loops but one, of which it is the second.
class WarpValues
{
  public:
    /// `first`: the values of the first iteration; null: this is it. `second`: the loop whose second iteration this is.
    WarpValues(const llvm::LoopInfo &loops, unsigned lane, WarpValues *first = nullptr,
               const llvm::Loop *second = nullptr)
        : loops_(loops), lane_(lane), first_(first), second_(second)
    {
    }

    /// Value for code in the block `at`; nothing if the code does not tell.
    std::optional<LaneValue> at(const llvm::Value *value, const llvm::BasicBlock *at);
    Truth truth(const llvm::Value *condition, const llvm::BasicBlock *at);
    /// True if all threads of the block have the same value.
    bool is_common(const llvm::Value *value, unsigned depth = 0) const;

  private:
    std::optional<LaneValue> find(const llvm::Value *value);
    std::optional<LaneValue> find(const llvm::Instruction &instruction);
    std::optional<LaneValue> position(const llvm::CallInst &call) const;
    std::optional<LaneValue> phi(const llvm::PHINode &phi);
    std::optional<LaneValue> arithmetic(const llvm::BinaryOperator &operation);
    std::optional<LaneValue> element(const llvm::GEPOperator &address, const llvm::BasicBlock *at);
    Truth comparison(const llvm::ICmpInst &compare);

    const llvm::LoopInfo &loops_;
    const unsigned lane_;
    WarpValues *const first_;
    const llvm::Loop *const second_;
    unsigned depth_ = 0;
    llvm::DenseMap<const llvm::Value *, std::optional<LaneValue>> known_;
};

} // namespace vgc
