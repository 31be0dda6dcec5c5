// Where clang finds the headers of the host's C and C++ libraries.
#include "compiler.h"
#include "options.h"

#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/DiagnosticIDs.h"
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Driver/Compilation.h"
#include "clang/Driver/Driver.h"
#include "clang/Driver/Tool.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{

std::vector<std::string> host_headers(const Options &options)
{
    clang::DiagnosticsEngine diagnostics(new clang::DiagnosticIDs, new clang::DiagnosticOptions,
                                         new clang::IgnoringDiagConsumer);
    clang::driver::Driver driver(options.llvm + "/bin/clang++", TRIPLE, diagnostics);
    driver.setCheckInputsExist(false);
    const std::unique_ptr<clang::driver::Compilation> compilation(
        driver.BuildCompilation({"clang++", "-fsyntax-only", "-x", "c++", "source"}));
    std::vector<std::string> folders;
    for (const clang::driver::Command &command : compilation->getJobs()) {
        const llvm::opt::ArgStringList &words = command.getArguments();
        for (size_t i = 0; i + 1 < words.size(); i++)
            if (const llvm::StringRef word = words[i];
                word == "-internal-isystem" || word == "-internal-externc-isystem")
                folders.push_back(words[i + 1]);
    }
    return folders;
}

void print_host_headers(const Options &options)
{
    for (const std::string &folder : host_headers(options))
        llvm::outs() << folder << "\n";
    llvm::outs().flush();
}

} // namespace vgc
