#include "instruction.h"

namespace vgc::ptx
{

bool Instruction::take(llvm::StringRef modifier)
{
    for (size_t i = 0; i < taken_.size(); i++)
        if (!taken_[i] && statement_.modifiers[i] == modifier) {
            taken_[i] = true;
            return true;
        }
    return false;
}

llvm::StringRef Instruction::take_one(llvm::ArrayRef<llvm::StringRef> modifiers)
{
    for (llvm::StringRef modifier : modifiers)
        if (take(modifier))
            return modifier;
    return "";
}

llvm::StringRef Instruction::need_one(llvm::ArrayRef<llvm::StringRef> modifiers)
{
    const llvm::StringRef found = take_one(modifiers);
    if (found.empty()) {
        std::string text;
        for (llvm::StringRef modifier : modifiers)
            text += (text.empty() ? "." : ", .") + modifier.str();
        fail("expected one of " + text);
    }
    return found;
}

std::optional<Type> Instruction::take_type()
{
    for (size_t i = 0; i < taken_.size(); i++)
        if (!taken_[i])
            if (const std::optional<Type> type = type_named(statement_.modifiers[i])) {
                taken_[i] = true;
                return type;
            }
    return std::nullopt;
}

Type Instruction::need_type()
{
    const std::optional<Type> type = take_type();
    if (!type)
        fail("expected a type");
    return *type;
}

void Instruction::take_all(llvm::StringRef prefix)
{
    for (size_t i = 0; i < taken_.size(); i++)
        if (llvm::StringRef(statement_.modifiers[i]).starts_with(prefix))
            taken_[i] = true;
}

void Instruction::check_taken() const
{
    for (size_t i = 0; i < taken_.size(); i++)
        if (!taken_[i])
            fail("'." + statement_.modifiers[i] + "' is not known here");
}

std::string Instruction::name() const
{
    std::string name = statement_.name;
    for (const std::string &modifier : statement_.modifiers)
        name += "." + modifier;
    return name;
}

void Instruction::fail(const llvm::Twine &message) const
{
    low.fail(statement_.at, "PTX instruction '" + name() + "': " + message);
}

void Instruction::refuse() const
{
    low.fail(statement_.at, "PTX instruction '" + name() + "' is not known");
}

const Operand &Instruction::operand(size_t index) const
{
    if (index >= statement_.operands.size())
        fail("it needs more operands than " + llvm::Twine(statement_.operands.size()));
    return statement_.operands[index];
}

const Operand &Instruction::element(const Operand &vector, unsigned index, unsigned count) const
{
    if (count == 1 && vector.kind != Operand::VECTOR)
        return vector;
    if (vector.kind != Operand::VECTOR || vector.parts.size() != count)
        low.fail(vector.at, "expected " + llvm::Twine(count) + " registers in braces");
    return vector.parts[index];
}

uint64_t Instruction::number(size_t index) const
{
    const auto *constant = llvm::dyn_cast<llvm::ConstantInt>(low.bits(operand(index), 64));
    if (constant == nullptr)
        low.fail(operand(index).at, "expected a number");
    return constant->getZExtValue();
}

} // namespace vgc::ptx
