#include "checks.h"
#include "code_names.h"
#include "crash.h"
#include "effort.h"
#include "lines.h"
#include "one_kernel.h"
#include "options.h"
#include "prelude.h"
#include "ptx/carry.h"
#include "ptx/directed.h"
#include "ptx/grid.h"
#include "ptx/module.h"
#include "shares.h"
#include "source.h"
#include "symbols.h"
#include "work.h"

#include <unistd.h>

#include "clang/Basic/Stack.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

void dump(const llvm::Module &module, const std::string &path)
{
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (error)
        fail("cannot write " + path + ": " + error.message());
    module.print(out, nullptr);
}

void verify(llvm::Module &module, const char *after)
{
    if (llvm::verifyModule(module, &llvm::errs()))
        fail(llvm::Twine("internal: broken IR after ") + after);
}

/// Puts functions and variables in the place of their other names, which passes do not expect.
void resolve_aliases(llvm::Module &module)
{
    for (llvm::GlobalAlias &alias : llvm::make_early_inc_range(module.aliases())) {
        llvm::Constant *named = alias.getAliasee();
        alias.replaceAllUsesWith(named);
        alias.eraseFromParent();
    }
}

/// Refuses functions and variables that would get names of LLVM's intrinsics, perhaps with an ending of ours.
void check_names(const llvm::Module &module)
{
    for (const llvm::GlobalObject &object : module.global_objects())
        if (object.getName() == "llvm" ||
            (llvm::isa<llvm::Function>(object) && !object.isDeclaration() && object.getName().starts_with("llvm.")))
            fail("the name '" + object.getName() + "' is LLVM's own (allowed: any other)");
}

/// Module of a program, with its kernels and variables.
std::unique_ptr<llvm::Module> load(llvm::LLVMContext &context, Options &options, const llvm::TargetMachine &machine,
                                   Program &program, Users &users)
{
    auto module = options.units ? link_units(context, machine, options, program, users)
                  : options.ptx ? ptx::lower_module(context, machine, options, read_source(options), program)
                                : run_front_end(context, options, read_source(options));
    module->setDataLayout(machine.createDataLayout());
    note_step("the list of kernels");
    resolve_aliases(*module);
    check_names(*module);
    ptx::find_linked(*module, program);
    collect(*module, program,
            options.ptx || options.lowered_names); // an empty program is one for drivers and for NVRTC
    return module;
}

void compile(Options options)
{
    llvm::LLVMContext context;
    context.setDiagnosticHandler(diagnostics());
    auto machine = host_machine();
    Users users;
    Program program;
    auto module = load(context, options, *machine, program, users);
    note_work("parsed", *module);
    if (!options.kernel.empty())
        keep_kernel(*module, program, options.kernel);
    lower_launches(*module, program);
    for (const Kernel &kernel : program.kernels)
        if (options.checks != 0 && kernel.function->hasFnAttribute(CLUSTERS))
            fail("kernel '" + kernel.name +
                 "' has clusters of several blocks and cannot be checked: compile without "
                 "--memcheck, --initcheck, --racecheck and --leak-check");
    lower_inline_asm(*module);
    define_results(*module);
    note_places(*module);
    SharedMemory shared(*module);
    const bool warns = !options.lockstep && !options.is_silent && shared.is_used();
    if (options.checks != 0)
        name_objects(*module);
    else if (options.lines)
        drop_variables(*module);
    else if (warns)
        llvm::stripNonLineTableDebugInfo(*module);
    else
        llvm::StripDebugInfo(*module);
    prepare_inlining(*module, program, options.lockstep);
    if (options.lockstep) {
        inline_all(*module, *machine);
        pin_accesses(*module);
    }
    simplify(*module, *machine);
    measure_memory(*module, program);
    note_work("simplified", *module);
    ptx::place_carry_flags(*module);
    ptx::place_grid_barriers(*module);
    if (options.flush_denormals)
        flush_denormals(*module);
    ptx::lower_directed(*module);
    expand_exponentials(*module);
    order_zeroes(*module);
    if (warns)
        warn_of_hazards(program);
    yield_in_spins(*module, program);
    order_warps(*module, program, options.lockstep);
    if (options.checks != 0)
        check_accesses(*module, program, options.checks);
    if (options.lines)
        drop_variables(*module);
    else
        llvm::StripDebugInfo(*module);
    note_step("the placement of shared variables");
    shared.place(program);
    form_regions(*module, program);
    for (Kernel &kernel : program.kernels)
        kernel.flags |= options.profile ? uint32_t(VGC_CPU_KERNEL_PROFILE) : 0;
    note_step("the table of kernels");
    check_variables(*module);
    emit_table(*module, program);
    if (options.allow_undefined)
        define_missing(options, *module);
    define_aborts(*module);
    if (options.lines)
        settle_lines(*module, options);
    verify(*module, "region formation");
    note_work("regions", *module);
    if (!options.dump_ir.empty())
        dump(*module, options.dump_ir + ".before");
    if (options.symbols)
        name_code(*module);
    const Effort effort = limit_effort(*module);
    const auto compile_share = [&](llvm::Module &share, const std::string &object) {
        optimise(share, *machine, effort);
        note_work("optimised", share);
        if (!options.dump_ir.empty())
            dump(share, options.dump_ir);
        generate(share, *machine, object);
    };
    const std::vector<std::string> objects = compile_shares(*module, options, compile_share);
    note_step("the link");
    if (context.getDiagHandlerPtr()->HasErrors)
        fail("the code generator found errors");
    check_symbols(options, objects, users);
    link_image(options, objects);
    for (const std::string &object : objects)
        unlink(object.c_str());
    check_imports(options.output);
}

} // namespace
} // namespace vgc

int main(int argc, char **argv)
{
    clang::noteBottomOfStack(); // clang goes on with another stack before this one ends
    vgc::extend_stack();
    vgc::report_crashes();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    const vgc::Options options = vgc::parse_options(argc, argv);
    if (options.host_headers)
        vgc::print_host_headers(options);
    else if (!options.make_preludes.empty())
        vgc::make_preludes(options);
    else
        vgc::compile(options);
    _exit(0); // without freeing anything
}
