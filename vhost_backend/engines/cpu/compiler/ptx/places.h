// What errors and debuggers know of a module's functions: the lines of the PTX text.
#pragma once

#include "llvm/IR/DIBuilder.h"

#include "syntax.h"

namespace vgc::ptx
{

class Places
{
  public:
    Places(llvm::Module &module, llvm::StringRef file);
    /// Makes the function known by a name.
    llvm::DISubprogram *add(llvm::Function &ir, const Function &function, llvm::StringRef name);
    void finish()
    {
        builder_.finalize();
    }

  private:
    llvm::DIBuilder builder_;
    llvm::DIFile *file_;
    llvm::DISubroutineType *type_;
};

} // namespace vgc::ptx
