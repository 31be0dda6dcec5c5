#include "table.h"

#include "forms.h"

namespace vgc::ptx
{

namespace
{

struct Group {
    llvm::ArrayRef<Form> forms;
    bool is_exact = false; // registers are as wide as the instruction's type says, not wider
};

/// True for what newer GPUs have, and this engine does not: a name of the ISA is no typing error.
bool is_unsupported(const Instruction &instruction)
{
    if (!llvm::is_contained({"wgmma", "tcgen05", "multimem", "sured", "tensormap", "cp", "mma"},
                            instruction.mnemonic()))
        return false;
    const std::string name = instruction.name();
    const llvm::StringRef text = name;
    if (instruction.mnemonic() == "cp")
        return text.contains(".bulk");
    return instruction.mnemonic() != "mma" || text.contains(".sp.") || text.contains(".sp::") ||
           text.contains(".e4m3") || text.contains(".e5m2") || (text.contains(".m8n8k4.") && text.contains(".f16"));
}

void lower_form(Instruction &instruction, const Form &form)
{
    if (instruction.size() < form.min_operands || instruction.size() > form.max_operands)
        instruction.fail("it has " + llvm::Twine(instruction.size()) + " operands, " + llvm::Twine(form.min_operands) +
                         " to " + llvm::Twine(form.max_operands) + " are possible");
    form.lower(instruction);
    instruction.check_taken();
}

} // namespace

void lower_instruction(Lowering &low, const Statement &statement)
{
    Instruction instruction(low, statement);
    if (is_unsupported(instruction))
        instruction.fail("not supported by the CPU engine");
    for (const Group &group : {Group{integer_forms(), true}, Group{bit_forms(), true}, Group{compare_forms(), true},
                               Group{float_forms(), true}, Group{convert_forms()}, Group{memory_forms()},
                               Group{atomic_forms()}, Group{warp_forms()}, Group{control_forms()}, Group{call_forms()},
                               Group{copy_forms()}, Group{mbarrier_forms()}, Group{matrix_forms()}, Group{wmma_forms()},
                               Group{texture_forms()}, Group{surface_forms()}, Group{video_forms()}})
        for (const Form &form : group.forms)
            if (form.mnemonic == statement.name) {
                low.set_exact(group.is_exact || form.mnemonic == "mov");
                lower_form(instruction, form);
                low.set_exact(false);
                return;
            }
    instruction.refuse();
}

} // namespace vgc::ptx
