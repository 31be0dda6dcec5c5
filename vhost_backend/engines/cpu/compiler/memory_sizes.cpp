// Memory that kernels have for themselves, as CUDA's attributes of functions tell it.
#include "compiler.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Instructions.h"

namespace vgc
{
namespace
{

/// Local memory of a thread that calls a function: variables that did not become registers, of it and of what it calls.
/// A recursion counts once, and calls through pointers do not.
class LocalMemory
{
  public:
    uint64_t of(const llvm::Function &function)
    {
        if (const auto [found, is_new] = known_.try_emplace(&function, 0); !is_new)
            return found->second;
        uint64_t own = 0, deepest = 0;
        for (const llvm::BasicBlock &block : function)
            for (const llvm::Instruction &instruction : block) {
                if (const auto *variable = llvm::dyn_cast<llvm::AllocaInst>(&instruction))
                    own += size_of(*variable);
                const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
                if (const llvm::Function *callee = call == nullptr ? nullptr : call->getCalledFunction())
                    deepest = std::max(deepest, of(*callee));
            }
        return known_[&function] = own + deepest;
    }

  private:
    static uint64_t size_of(const llvm::AllocaInst &variable)
    {
        const auto size = variable.getAllocationSize(variable.getModule()->getDataLayout());
        return size.has_value() && size->isFixed() ? size->getFixedValue() : 0;
    }
    llvm::DenseMap<const llvm::Function *, uint64_t> known_;
};

} // namespace

void measure_memory(const llvm::Module &module, Program &program)
{
    LocalMemory local;
    uint64_t constant = 0;
    for (Kernel &kernel : program.kernels)
        kernel.local_bytes = uint32_t(std::min<uint64_t>(local.of(*kernel.function), UINT32_MAX));
    for (const llvm::GlobalVariable &variable : module.globals())
        if (variable.hasAttribute(CONSTANT) && !variable.isDeclaration())
            constant += module.getDataLayout().getTypeAllocSize(variable.getValueType());
    program.constant_bytes = uint32_t(std::min<uint64_t>(constant, UINT32_MAX));
}

} // namespace vgc
