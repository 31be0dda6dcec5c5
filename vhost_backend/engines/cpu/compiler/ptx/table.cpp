#include "table.h"

#include "forms.h"

namespace vgc::ptx
{

void lower_instruction(Lowering &low, const Statement &statement)
{
    Instruction instruction(low, statement);
    for (const llvm::ArrayRef<Form> forms :
         {integer_forms(), bit_forms(), compare_forms(), float_forms(), convert_forms(), memory_forms(), atomic_forms(),
          warp_forms(), control_forms(), call_forms(), copy_forms(), mbarrier_forms(), matrix_forms(), wmma_forms(),
          texture_forms(), surface_forms(), video_forms()})
        for (const Form &form : forms)
            if (form.mnemonic == statement.name) {
                if (instruction.size() < form.min_operands || instruction.size() > form.max_operands)
                    instruction.fail("it has " + llvm::Twine(instruction.size()) + " operands, " +
                                     llvm::Twine(form.min_operands) + " to " + llvm::Twine(form.max_operands) +
                                     " are possible");
                form.lower(instruction);
                instruction.check_taken();
                return;
            }
    instruction.refuse();
}

} // namespace vgc::ptx
