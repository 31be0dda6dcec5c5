// Inline assembly: PTX becomes IR (ptx/); jumps to addresses of labels are refused; x86 passes through.
#include "compiler.h"
#include "ptx/dialect.h"
#include "ptx/statement.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"

namespace vgc
{
namespace
{

/// File and line of the instruction, or else of its function.
std::string where(const llvm::Instruction &instruction)
{
    auto text = [](const llvm::DIScope &scope, unsigned line) {
        return (scope.getFilename() + ":" + llvm::Twine(line) + ": ").str();
    };
    if (const llvm::DebugLoc &location = instruction.getDebugLoc())
        return text(*llvm::cast<llvm::DIScope>(location.getScope()), location.getLine());
    const llvm::DISubprogram *function = instruction.getFunction()->getSubprogram();
    return function == nullptr ? std::string() : text(*function, function->getLine());
}

/// Lowers PTX, and assembly without text that has results; keeps the rest.
void lower(llvm::CallInst &call)
{
    const std::string text = ptx::text_of(call);
    if (ptx::is_ptx(text) || (ptx::is_blank(text) && !call.getType()->isVoidTy()))
        ptx::lower(call, where(call));
}

/// Refuses jumps to addresses of labels: regions are copies of the code that the addresses are of.
void refuse_computed_jumps(const llvm::Instruction &instruction)
{
    if (llvm::isa<llvm::IndirectBrInst>(instruction))
        fail(where(instruction) + "computed goto is not supported");
    if (llvm::isa<llvm::CallBrInst>(instruction))
        fail(where(instruction) + "assembly that jumps to labels is not supported");
}

} // namespace

void lower_inline_asm(llvm::Module &module)
{
    std::vector<llvm::CallInst *> calls;
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function)) {
            refuse_computed_jumps(instruction);
            if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call != nullptr && call->isInlineAsm())
                calls.push_back(call);
        }
    for (llvm::CallInst *call : calls)
        lower(*call);
    if (!module.getModuleInlineAsm().empty())
        fail("assembly outside of functions is not allowed");
}

} // namespace vgc
