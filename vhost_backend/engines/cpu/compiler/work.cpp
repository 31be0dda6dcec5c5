#include "work.h"

#include "compiler.h"

#include "llvm/IR/PassInstrumentation.h"
#include "llvm/IR/PassTimingInfo.h"
#include "llvm/Pass.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

std::string report; // empty: none

/// Writes a line, unless nobody asked for the report.
void write_line(const llvm::Twine &line)
{
    if (report.empty())
        return;
    std::error_code error;
    llvm::raw_fd_ostream out(report, error, llvm::sys::fs::OF_Append);
    if (error)
        fail("cannot write " + report + ": " + error.message());
    out << line << "\n";
}

} // namespace

void report_work(const std::string &path, bool times)
{
    report = path;
    llvm::TimePassesIsEnabled = times;
}

void note_work(const char *step, const llvm::Module &module)
{
    if (report.empty())
        return;
    size_t functions = 0, blocks = 0, instructions = 0, largest = 0;
    for (const llvm::Function &function : module)
        if (!function.isDeclaration()) {
            const size_t size = function.getInstructionCount();
            functions++;
            blocks += function.size();
            instructions += size;
            largest = std::max(largest, size);
        }
    write_line(llvm::Twine(step) + " " + llvm::Twine(functions) + " " + llvm::Twine(blocks) + " " +
               llvm::Twine(instructions) + " " + llvm::Twine(largest));
}

void note_prelude(llvm::StringRef name)
{
    write_line("prelude " + name);
}

std::unique_ptr<llvm::TimePassesHandler> time_passes(llvm::PassInstrumentationCallbacks &callbacks)
{
    auto handler = std::make_unique<llvm::TimePassesHandler>(llvm::TimePassesIsEnabled);
    handler->registerCallbacks(callbacks);
    return handler;
}

} // namespace vgc
