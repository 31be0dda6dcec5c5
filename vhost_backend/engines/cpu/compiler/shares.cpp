// Most of a compilation's time is the optimiser's and the code generator's, which take the functions of regions one by
// one. Programs that are not small are divided by functions among two processes, as many as a run of the compiler may
// keep busy (compiler/run.py). The division depends on the program alone, so that an image does, too: without a second
// process, the first compiles one share after the other.
#include "shares.h"

#include "compiler.h"
#include "options.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <tuple>

#include <sys/wait.h>
#include <unistd.h>

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace vgc
{
namespace
{

const size_t SHARES = 2;
const size_t SMALL = 3000; // instructions of a program whose code takes less time than the division gains

/// Gives everything a name that other objects, and copies of the module, can use. None of these is the name of a
/// function of the runtime or of compiler-rt, which the code generator may call.
void make_visible(llvm::Module &module)
{
    for (llvm::GlobalValue &value : module.global_values()) {
        if (value.isDeclaration() || value.hasAppendingLinkage() || value.getName() == "vgc_cpu_image" ||
            (value.hasExternalLinkage() && value.hasHiddenVisibility()))
            continue;
        std::string name = value.getName().str();
        std::replace(name.begin(), name.end(), '@', ':'); // the linker would take what follows for a version
        if (llvm::StringRef(name).find_first_of(". ") == llvm::StringRef::npos)
            name += ".shared";
        value.setName(name);
        llvm::cast<llvm::GlobalObject>(value).setComdat(nullptr);
        value.setLinkage(llvm::GlobalValue::ExternalLinkage);
        value.setVisibility(llvm::GlobalValue::HiddenVisibility);
        value.setDSOLocal(true);
    }
}

/// The functions of each share: the largest function goes to the share with the least so far.
std::vector<std::vector<llvm::Function *>> divide(llvm::Module &module)
{
    std::vector<std::tuple<size_t, size_t, llvm::Function *>> functions;
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            functions.emplace_back(function.getInstructionCount(), functions.size(), &function);
    llvm::sort(functions, [](const auto &a, const auto &b) {
        return std::get<0>(a) != std::get<0>(b) ? std::get<0>(a) > std::get<0>(b) : std::get<1>(a) < std::get<1>(b);
    });
    std::vector<std::vector<llvm::Function *>> shares(SHARES);
    std::array<size_t, SHARES> sums{};
    for (const auto &[size, place, function] : functions) {
        const size_t least = std::min_element(sums.begin(), sums.end()) - sums.begin();
        sums[least] += size;
        shares[least].push_back(function);
    }
    return shares;
}

void make_declaration(llvm::Function &function)
{
    function.deleteBody();
    function.setSubprogram(nullptr);
    function.setComdat(nullptr);
}

/// Leaves variables to the first share. Constants stay readable for the optimiser.
void make_declarations_of_variables(llvm::Module &module)
{
    for (llvm::GlobalVariable &variable : llvm::make_early_inc_range(module.globals())) {
        if (variable.hasAppendingLinkage()) { // llvm.used and the like
            variable.eraseFromParent();
            continue;
        }
        if (variable.isDeclaration())
            continue;
        variable.setComdat(nullptr);
        if (variable.isConstant()) {
            variable.setLinkage(llvm::GlobalValue::AvailableExternallyLinkage);
            continue;
        }
        variable.setInitializer(nullptr);
        variable.setLinkage(llvm::GlobalValue::ExternalLinkage);
    }
}

/// Waits for another process's share, and ends as it has ended if that was not well. It has said why.
void expect_success(pid_t process)
{
    int status = 0;
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR)
            fail("internal: lost a process of the compiler");
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        _exit(1);
}

/// Leaves only the functions of share `index` in `module`, and variables if it is the first. `shares` may be those of a
/// module that `module` is a copy of.
void keep_share(llvm::Module &module, const std::vector<std::vector<llvm::Function *>> &shares, size_t index)
{
    for (size_t other = 0; other < shares.size(); other++)
        if (other != index)
            for (const llvm::Function *function : shares[other])
                make_declaration(*module.getFunction(function->getName()));
    if (index != 0)
        make_declarations_of_variables(module);
}

bool has_errors(const llvm::Module &module)
{
    return module.getContext().getDiagHandlerPtr()->HasErrors;
}

} // namespace

std::vector<std::string> compile_shares(llvm::Module &module, const Options &options, CompileShare compile)
{
    std::vector<std::string> objects = {options.output + ".o"};
    if (module.getInstructionCount() < SMALL || !module.ifunc_empty() || !options.dump_ir.empty()) {
        compile(module, objects[0]);
        return objects;
    }
    make_visible(module);
    const std::vector<std::vector<llvm::Function *>> shares = divide(module);
    std::vector<pid_t> processes;
    std::vector<std::pair<std::unique_ptr<llvm::Module>, std::string>> late; // for which there was no process
    llvm::errs().flush();
    for (size_t index = 1; index < SHARES; index++) {
        objects.push_back(options.output + "." + std::to_string(index) + ".o");
        const pid_t process = fork();
        if (process > 0) {
            processes.push_back(process);
            continue;
        }
        // the child compiles a copy, too: the order of uses differs from the original's, and code with it
        std::unique_ptr<llvm::Module> share = llvm::CloneModule(module);
        keep_share(*share, shares, index);
        if (process == 0) {
            compile(*share, objects[index]);
            _exit(has_errors(*share) ? 1 : 0);
        }
        late.emplace_back(std::move(share), objects[index]);
    }
    keep_share(module, shares, 0);
    compile(module, objects[0]);
    for (const auto &[share, object] : late)
        compile(*share, object);
    for (const pid_t process : processes)
        expect_success(process);
    return objects;
}

} // namespace vgc
