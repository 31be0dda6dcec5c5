// Optimisation pipelines, code generation.
#include "access_order.h"
#include "compiler.h"
#include "crash.h"
#include "effort.h"
#include "lines.h"
#include "lone_threads.h"
#include "switches.h"
#include "work.h"

#include <set>

#include "llvm/ADT/SCCIterator.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Analysis/LazyCallGraph.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/IR/PassTimingInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

namespace vgc
{
namespace
{

/// Notes the function that a pass works on.
void note_subject(llvm::StringRef, llvm::Any ir)
{
    if (const auto *function = llvm::any_cast<const llvm::Function *>(&ir))
        note_function((*function)->getName());
    else if (const auto *loop = llvm::any_cast<const llvm::Loop *>(&ir))
        note_function((*loop)->getHeader()->getParent()->getName());
    else if (const auto *component = llvm::any_cast<const llvm::LazyCallGraph::SCC *>(&ir))
        note_function((*component)->begin()->getName());
    else
        note_function("");
}

/// Function that a pass works on, or in; null for others.
const llvm::Function *function_of(llvm::Any ir)
{
    if (const auto *function = llvm::any_cast<const llvm::Function *>(&ir))
        return *function;
    const auto *loop = llvm::any_cast<const llvm::Loop *>(&ir);
    return loop == nullptr ? nullptr : (*loop)->getHeader()->getParent();
}

/// Runs a pipeline of the new pass manager over the module.
template <typename Build>
void run_pipeline(llvm::Module &module, llvm::TargetMachine &machine, Build build, const Effort &effort = {})
{
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = true;
    tuning.SLPVectorization = true;
    tuning.LoopInterleaving = true;
    llvm::PassInstrumentationCallbacks callbacks;
    callbacks.registerBeforeNonSkippedPassCallback(note_subject);
    callbacks.registerShouldRunOptionalPassCallback([&](llvm::StringRef pass, llvm::Any ir) {
        const llvm::Function *function = function_of(ir);
        if (function != nullptr && is_enormous(*function) && !llvm::is_contained(effort.of_enormous, pass))
            return false;
        return !llvm::is_contained(effort.skipped, pass);
    });
    if (module.getNamedMetadata("llvm.dbg.cu") != nullptr)
        keep_places(callbacks);
    const std::unique_ptr<llvm::TimePassesHandler> times = time_passes(callbacks);
    llvm::PassBuilder builder(&machine, tuning, std::nullopt, &callbacks);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    build(builder).run(module, modules);
}

/// Has functions touch each page of a large frame in its order: none jumps over the page behind the stack.
void probe_stacks(llvm::Module &module)
{
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            function.addFnAttr("probe-stack", "inline-asm");
}

} // namespace

std::unique_ptr<llvm::TargetMachine> host_machine()
{
    std::string error;
    const llvm::Target *target = llvm::TargetRegistry::lookupTarget(TRIPLE, error);
    if (target == nullptr)
        fail(error);
    llvm::SubtargetFeatures features;
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
        features.AddFeature(feature.first(), feature.second);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
    options.FunctionSections = true;
    options.TrapUnreachable = true; // else code that cannot be right runs into the function behind it
    options.NoTrapAfterNoreturn = true;
    return std::unique_ptr<llvm::TargetMachine>(
        target->createTargetMachine(TRIPLE, llvm::sys::getHostCPUName(), features.getString(), options,
                                    llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

/// Gives each thread its own copy of a struct that is passed in memory, unless it is __grid_constant__; the shared
/// original is only read.
static void copy_memory_params(const Kernel &kernel)
{
    llvm::IRBuilder<> builder(&*kernel.function->getEntryBlock().getFirstInsertionPt());
    for (const Param &param : kernel.params) {
        if (param.passing != Param::MEMORY)
            continue;
        llvm::Argument *argument = kernel.function->getArg(param.first_arg);
        const llvm::Align align = std::max(argument->getParamAlign().valueOrOne(), llvm::Align(16));
        argument->removeAttr(llvm::Attribute::ByVal);
        argument->removeAttr(llvm::Attribute::Alignment); // a launch's block of parameters is aligned to 16
        if (param.is_grid_constant && align == llvm::Align(16))
            continue;
        llvm::AllocaInst *copy = builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), param.size));
        copy->setAlignment(align);
        argument->replaceAllUsesWith(copy);
        argument->addAttr(llvm::Attribute::NoAlias);
        argument->addAttr(llvm::Attribute::ReadOnly);
        builder.CreateMemCpy(copy, align, argument, llvm::MaybeAlign(), param.size);
    }
}

void prepare_inlining(llvm::Module &module, const Program &program, bool all)
{
    for (const Kernel &kernel : program.kernels)
        copy_memory_params(kernel);
    std::set<const llvm::Function *> kernels, recursive;
    for (const Kernel &kernel : program.kernels)
        kernels.insert(kernel.function);
    llvm::CallGraph graph(module);
    for (auto scc = llvm::scc_begin(&graph); !scc.isAtEnd(); ++scc)
        if (scc.hasCycle())
            for (const llvm::CallGraphNode *node : *scc)
                recursive.insert(node->getFunction());
    for (llvm::Function &function : module) {
        if (function.isDeclaration() || kernels.contains(&function))
            continue;
        function.setComdat(nullptr);
        function.setLinkage(llvm::GlobalValue::InternalLinkage);
        if (recursive.contains(&function)) {
            function.removeFnAttr(llvm::Attribute::AlwaysInline);
            continue;
        }
        function.removeFnAttr(llvm::Attribute::NoInline);
        function.addFnAttr(llvm::Attribute::AlwaysInline);
    }
    if (!all)
        limit_inlining(module);
    for (llvm::Function &function : module)
        if (is_position_name(function.getName())) {
            function.removeFnAttr(llvm::Attribute::Convergent);
            for (llvm::User *user : function.users())
                if (auto *call = llvm::dyn_cast<llvm::CallInst>(user))
                    call->removeFnAttr(llvm::Attribute::Convergent);
        }
}

void inline_all(llvm::Module &module, llvm::TargetMachine &machine)
{
    run_pipeline(module, machine, [](llvm::PassBuilder &) {
        llvm::ModulePassManager passes;
        passes.addPass(llvm::AlwaysInlinerPass());
        passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::SROAPass(llvm::SROAOptions::ModifyCFG)));
        return passes;
    });
}

namespace
{

/// Takes vectors apart: those of programs, such as float2, cannot be vectorised again.
class SeparateElements : public llvm::PassInfoMixin<SeparateElements>
{
  public:
    llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses)
    {
        if (function.hasFnAttribute(WHOLE_VECTORS))
            return llvm::PreservedAnalyses::all();
        llvm::ScalarizerPassOptions options;
        options.ScalarizeLoadStore = true;
        return llvm::ScalarizerPass(options).run(function, analyses);
    }
};

} // namespace

void simplify(llvm::Module &module, llvm::TargetMachine &machine)
{
    limit_unrolling();
    run_pipeline(module, machine, [](llvm::PassBuilder &builder) {
        llvm::ModulePassManager passes =
            builder.buildModuleSimplificationPipeline(llvm::OptimizationLevel::O2, llvm::ThinOrFullLTOPhase::None);
        llvm::FunctionPassManager scalars;
        scalars.addPass(SeparateElements());
        scalars.addPass(llvm::InstCombinePass());
        scalars.addPass(llvm::EarlyCSEPass());
        passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(scalars)));
        return passes;
    });
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine, const Effort &effort)
{
    llvm::internalizeModule(module, [](const llvm::GlobalValue &value) {
        return value.getName() == "vgc_cpu_image" || value.hasHiddenVisibility();
    });
    keep_strides();
    const auto build = [&](llvm::PassBuilder &builder) {
        builder.registerVectorizerStartEPCallback([](llvm::FunctionPassManager &passes, llvm::OptimizationLevel) {
            passes.addPass(LowerSwitches());
            passes.addPass(llvm::LoopSimplifyPass());
            passes.addPass(MoveLoneThreads());
            passes.addPass(KeepAccessOrder());
        });
        llvm::ModulePassManager passes = builder.buildPerModuleDefaultPipeline(effort.level);
        llvm::FunctionPassManager after; // turns arrays that vectorised loops over lanes leave into registers
        after.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
        after.addPass(llvm::EarlyCSEPass(true));
        after.addPass(llvm::InstCombinePass());
        after.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
        after.addPass(llvm::SimplifyCFGPass());
        passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(after)));
        return passes;
    };
    run_pipeline(module, machine, build, effort);
    lower_block_atomics(module);
    unmask_mixtures(module);
}

void generate(llvm::Module &module, llvm::TargetMachine &machine, const std::string &object)
{
    limit_scheduling();
    split_blocks(module);
    probe_stacks(module);
    std::error_code error;
    llvm::raw_fd_ostream out(object, error);
    if (error)
        fail("cannot write " + object + ": " + error.message());
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile))
        fail("internal: no code generator");
    passes.run(module);
    llvm::reportAndResetTimings();
}

} // namespace vgc
