// One instruction while it is lowered: its modifiers and operands.
#pragma once

#include "lowering.h"

namespace vgc::ptx
{

class Instruction
{
  public:
    Instruction(Lowering &low, const Statement &statement)
        : low(low), b(low.b), statement_(statement), taken_(statement.modifiers.size())
    {
    }
    /// True if the modifier is there; it counts as understood then.
    bool take(llvm::StringRef modifier);
    /// Takes one of several modifiers; empty if none of them is there.
    llvm::StringRef take_one(llvm::ArrayRef<llvm::StringRef> modifiers);
    /// The same, but one of them must be there.
    llvm::StringRef need_one(llvm::ArrayRef<llvm::StringRef> modifiers);
    /// Takes the first modifier that is a type and not taken yet.
    std::optional<Type> take_type();
    Type need_type();
    /// Takes all modifiers that begin so.
    void take_all(llvm::StringRef prefix);
    /// Fails if a modifier was not understood.
    void check_taken() const;
    [[noreturn]] void fail(const llvm::Twine &message) const;
    [[noreturn]] void refuse() const;

    const Operand &operand(size_t index) const;
    /// Element of a vector of `count`; an operand without braces is one.
    const Operand &element(const Operand &vector, unsigned index, unsigned count) const;
    size_t size() const
    {
        return statement_.operands.size();
    }
    Position at() const
    {
        return statement_.at;
    }
    /// Integer operand `index` in the width of `type`.
    llvm::Value *in(size_t index, Type type)
    {
        return low.value(operand(index), type);
    }
    /// Integer operand `index`, which must be a number.
    uint64_t number(size_t index) const;
    /// Name with all modifiers, as in the source.
    std::string name() const;
    llvm::StringRef mnemonic() const
    {
        return statement_.name;
    }

    Lowering &low;
    llvm::IRBuilder<> &b;

  private:
    const Statement &statement_;
    std::vector<bool> taken_;
};

} // namespace vgc::ptx
