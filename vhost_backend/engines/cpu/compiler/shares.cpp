// Most of a compilation's time is the optimiser's and the code generator's, which take the functions of regions one by
// one. Programs that are not small are divided by functions among two processes, as many as a run of the compiler may
// keep busy (compiler/run.py). The division depends on the program alone, so that an image does, too.
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

namespace vgc
{
namespace
{

const size_t SHARES = 2;
const size_t SMALL = 3000; // instructions of a program whose code takes less time than the division gains

/// Gives everything a name that other objects can use. None of these is the name of a function of the runtime or of
/// compiler-rt, which the code generator may call.
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

} // namespace

Share::Share(llvm::Module &module, const Options &options) : objects_{options.output + ".o"}
{
    if (module.getInstructionCount() < SMALL || !module.ifunc_empty() || !options.dump_ir.empty())
        return;
    const std::vector<std::vector<llvm::Function *>> shares = divide(module);
    make_visible(module);
    llvm::errs().flush();
    for (size_t index = 1; index < SHARES; index++) {
        const pid_t process = fork();
        if (process < 0)
            break; // no more processes: the first has all that is left
        objects_.push_back(options.output + "." + std::to_string(index) + ".o");
        if (process == 0) {
            index_ = index;
            others_.clear();
            break;
        }
        others_.push_back(process);
    }
    for (size_t index = 0; index < SHARES; index++) {
        const bool is_own = index == index_ || (index_ == 0 && index > others_.size());
        if (!is_own)
            for (llvm::Function *function : shares[index])
                make_declaration(*function);
    }
    if (index_ != 0)
        make_declarations_of_variables(module);
}

const std::vector<std::string> &Share::join(bool has_errors)
{
    if (index_ != 0)
        _exit(has_errors ? 1 : 0);
    for (const pid_t process : others_)
        expect_success(process);
    return objects_;
}

} // namespace vgc
