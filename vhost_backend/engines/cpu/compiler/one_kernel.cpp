#include "one_kernel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

namespace vgc
{
namespace
{

using Reached = llvm::SmallPtrSet<const llvm::Constant *, 32>;

/// Functions, variables and other constants that `root` uses, itself included.
Reached reach(const llvm::Function &root)
{
    Reached reached;
    llvm::SmallVector<const llvm::Constant *> waiting;
    const auto note = [&](const llvm::User &user) {
        for (const llvm::Use &use : user.operands())
            if (const auto *constant = llvm::dyn_cast<llvm::Constant>(use.get()))
                if (reached.insert(constant).second)
                    waiting.push_back(constant);
    };
    reached.insert(&root);
    waiting.push_back(&root);
    while (!waiting.empty()) {
        const llvm::Constant *constant = waiting.pop_back_val();
        note(*constant);
        if (const auto *function = llvm::dyn_cast<llvm::Function>(constant))
            for (const llvm::Instruction &instruction : llvm::instructions(*function))
                note(instruction);
    }
    return reached;
}

/// Fails if the kernel uses memory that other kernels of its program see.
void check_variables(const llvm::Module &module, const Program &program, const Reached &reached)
{
    for (const Global &global : program.globals)
        if (reached.contains(global.variable))
            fail("--kernel: the kernel uses '" + global.name + "', which it may share with others");
    for (const char *name : {"__vgc_heap_allocate", "__vgc_heap_release"})
        if (const llvm::Function *function = module.getFunction(name);
            function != nullptr && reached.contains(function))
            fail("--kernel: the kernel uses the heap, which it may share with others");
}

/// Erases what was not reached: first all that refers to others, as they may refer to each other.
void erase_others(llvm::Module &module, const Reached &reached)
{
    for (llvm::Function &function : module)
        if (!function.isDeclaration() && !reached.contains(&function)) {
            function.setComdat(nullptr);
            function.deleteBody();
        }
    for (llvm::GlobalVariable &variable : module.globals())
        if (variable.hasInitializer() && !reached.contains(&variable) && !variable.getName().starts_with("llvm.")) {
            variable.setComdat(nullptr);
            variable.setLinkage(llvm::GlobalValue::ExternalLinkage);
            variable.setInitializer(nullptr);
        }
    for (llvm::GlobalVariable &variable : llvm::make_early_inc_range(module.globals())) {
        variable.removeDeadConstantUsers();
        if (variable.isDeclaration() && variable.use_empty())
            variable.eraseFromParent();
    }
    for (llvm::Function &function : llvm::make_early_inc_range(module)) {
        function.removeDeadConstantUsers();
        if (function.isDeclaration() && function.use_empty())
            function.eraseFromParent();
    }
}

} // namespace

void keep_kernel(llvm::Module &module, Program &program, llvm::StringRef name)
{
    const auto kernel =
        llvm::find_if(program.kernels, [&](const Kernel &known) { return known.function->getName() == name; });
    if (kernel == program.kernels.end())
        fail("--kernel=" + name + ": the source has no such kernel");
    const Reached reached = reach(*kernel->function);
    check_variables(module, program, reached);
    llvm::erase_if(program.kernels, [&](const Kernel &known) { return !reached.contains(known.function); });
    if (llvm::GlobalVariable *list = module.getGlobalVariable("llvm.compiler.used")) // of variables
        list->eraseFromParent();
    program.globals.clear();
    erase_others(module, reached);
}

} // namespace vgc
