// What people are told: the compiler's own errors, and LLVM's.
#include "compiler.h"

#include <unistd.h>

#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{

void fail(const llvm::Twine &message)
{
    llvm::errs() << "vgc-cpucc: error: " << message << "\n";
    llvm::errs().flush();
    _exit(1);
}

namespace
{

/// Ignores the optimiser's warnings about its own hints; shows errors, for example of inline assembly.
class Diagnostics : public llvm::DiagnosticHandler
{
  public:
    bool handleDiagnostics(const llvm::DiagnosticInfo &info) override
    {
        if (info.getSeverity() != llvm::DS_Error)
            return true;
        llvm::DiagnosticPrinterRawOStream printer(llvm::errs());
        llvm::errs() << "vgc-cpucc: error: ";
        info.print(printer);
        llvm::errs() << "\n";
        HasErrors = true;
        return true;
    }
};

} // namespace

std::unique_ptr<llvm::DiagnosticHandler> diagnostics()
{
    return std::make_unique<Diagnostics>();
}

} // namespace vgc
