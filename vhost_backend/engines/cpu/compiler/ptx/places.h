// What errors and debuggers know of a module's functions: the lines of the PTX text.
#pragma once

#include "llvm/IR/DIBuilder.h"

#include "lowering.h"

namespace vgc::ptx
{

class Places
{
  public:
    Places(llvm::Module &module, llvm::StringRef file);
    /// Makes the function known by a name. The function that is returned says which place a statement has, if it is
    /// asked in the statements' order.
    Lowering::Locate add(llvm::Function &ir, const Function &function, llvm::StringRef name, const Module &module);
    void finish()
    {
        builder_.finalize();
    }

  private:
    llvm::DIScope *scope_of(llvm::DISubprogram *subprogram, const Module &module, uint64_t file);

    llvm::DIBuilder builder_;
    llvm::DIFile *file_;
    llvm::DISubroutineType *type_;
};

} // namespace vgc::ptx
