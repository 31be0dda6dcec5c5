#include "module.h"

#include "../crash.h"
#include "../options.h"
#include "externs.h"
#include "functions.h"
#include "module_parser.h"
#include "names.h"
#include "places.h"
#include "variables.h"

#include "llvm/Support/Path.h"

namespace vgc::ptx
{
namespace
{

/// A file of PTX.
class FileText : public Text
{
  public:
    explicit FileText(std::string name) : name_(std::move(name))
    {
    }
    std::string place(Position at) const override
    {
        return name_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
    }

  private:
    std::string name_;
};

vgc_cpu_param_kind kind_of(const Variable &parameter)
{
    if (parameter.is_array || parameter.vector != 1)
        return VGC_CPU_PARAM_OTHER;
    if (parameter.is_pointer)
        return VGC_CPU_PARAM_POINTER;
    const char letter = parameter.type[0];
    const bool may_be_pointer = letter == 'b' || parameter.type == "u64";
    return letter == 'f' ? VGC_CPU_PARAM_FLOAT : may_be_pointer ? VGC_CPU_PARAM_UNKNOWN : VGC_CPU_PARAM_INTEGER;
}

class ModuleLowering
{
  public:
    ModuleLowering(llvm::LLVMContext &context, const llvm::TargetMachine &machine, const Options &options,
                   Program &program)
        : file_(llvm::sys::path::filename(options.input).str()), text_(file_), options_(options), program_(program),
          ir_(std::make_unique<llvm::Module>(file_, context)), machine_(machine),
          places_(prepared(*ir_, machine), file_)
    {
    }
    std::unique_ptr<llvm::Module> run(const std::string &text);

  private:
    static llvm::Module &prepared(llvm::Module &module, const llvm::TargetMachine &machine)
    {
        module.setTargetTriple(TRIPLE);
        module.setDataLayout(machine.createDataLayout());
        module.setPICLevel(llvm::PICLevel::BigPIC);
        return module;
    }
    void declare_variables(const Module &module);
    void declare(const Variable &variable);
    void declare(const Function &function);
    void set_attributes(llvm::Function &ir);
    void define(const Function &function, const Module &module);
    void add_kernel(const Function &function, llvm::Function &ir);
    void add_parameters(Kernel &kernel, const Function &function);
    void set_extents(Kernel &kernel, const Function &function);
    void define_externs(const Module &module);

    std::string file_;
    FileText text_;
    const Options &options_;
    Program &program_;
    std::unique_ptr<llvm::Module> ir_;
    const llvm::TargetMachine &machine_;
    Places places_;
    Symbols symbols_;
};

void ModuleLowering::declare(const Variable &variable)
{
    const auto [found, is_new] = symbols_.try_emplace(variable.name);
    if (!is_new) {
        if (variable.is_extern)
            return;
        text_.fail(variable.at, "'" + variable.name + "' is defined twice");
    }
    const bool is_shared = variable.space == Space::SHARED;
    if (variable.is_extern && !is_shared)
        text_.fail(variable.at, "variable '" + variable.name + "' is not defined in this module");
    if (variable.space == Space::LOCAL)
        text_.fail(variable.at, "local variables outside of functions are not supported");
    found->second = make_global(*ir_, variable, ir_name(variable.name), text_);
    if (is_shared)
        return;
    auto *global = llvm::cast<llvm::GlobalVariable>(found->second.address);
    global->setExternallyInitialized(true);
    program_.globals.push_back({global, variable.name});
}

/// Declares those that the module defines first, then those that it only names.
void ModuleLowering::declare_variables(const Module &module)
{
    for (const bool is_extern : {false, true})
        for (const Variable &variable : module.variables)
            if (variable.is_extern == is_extern)
                declare(variable);
}

void ModuleLowering::declare(const Function &function)
{
    llvm::FunctionType *type = function_type(function, ir_->getContext(), text_);
    const auto [found, is_new] = symbols_.try_emplace(function.name);
    if (is_new) {
        auto *made = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, ir_name(function.name), *ir_);
        set_attributes(*made);
        found->second.address = made;
        found->second.is_kernel = function.is_entry;
    }
    if (!found->second.is_function() || found->second.is_kernel != function.is_entry ||
        llvm::cast<llvm::Function>(found->second.address)->getFunctionType() != type)
        text_.fail(function.at, "'" + function.name + "' is declared as something else before");
}

void ModuleLowering::set_attributes(llvm::Function &ir)
{
    ir.addFnAttr(llvm::Attribute::NoUnwind);
    ir.addFnAttr(llvm::Attribute::Convergent);
    ir.addFnAttr("target-cpu", machine_.getTargetCPU());
    ir.addFnAttr("target-features", machine_.getTargetFeatureString());
}

void ModuleLowering::define(const Function &function, const Module &module)
{
    auto &ir = *llvm::cast<llvm::Function>(symbols_.find(function.name)->second.address);
    if (!ir.isDeclaration())
        text_.fail(function.at, "function '" + function.name + "' is defined twice");
    note_function(function.name);
    lower_body(ir, function, symbols_, text_, places_.add(ir, function, short_name(function.name), module));
    if (function.is_entry)
        add_kernel(function, ir);
}

void ModuleLowering::add_parameters(Kernel &kernel, const Function &function)
{
    uint64_t offset = 0;
    for (const Variable &parameter : function.parameters) {
        Param param{};
        param.size = uint32_t(bytes_of(parameter, text_));
        offset = llvm::alignTo(offset, align_of(parameter, text_));
        param.offset = uint32_t(offset);
        offset += param.size;
        param.kind = kind_of(parameter);
        param.first_arg = unsigned(kernel.params.size());
        param.num_args = 1;
        param.passing = parameter.is_array ? Param::MEMORY : Param::DIRECT;
        param.is_grid_constant = parameter.is_array;
        kernel.params.push_back(param);
        if (offset > VGC_CPU_MAX_PARAMS)
            text_.fail(parameter.at, "kernel '" + function.name + "' has more than " +
                                         llvm::Twine(int(VGC_CPU_MAX_PARAMS)) + " bytes of parameters");
    }
    kernel.param_bytes = uint32_t(offset);
}

/// Notes the most threads of a block, and the blocks of a cluster.
void ModuleLowering::set_extents(Kernel &kernel, const Function &function)
{
    kernel.max_threads = max_threads(function);
    uint64_t blocks = 1;
    for (unsigned axis = 0; axis < 3; axis++) {
        kernel.cluster[axis] = std::max(1u, function.cluster[axis]);
        blocks = std::min<uint64_t>(blocks * kernel.cluster[axis], VGC_CPU_MAX_CLUSTER + 1);
    }
    if (blocks > VGC_CPU_MAX_CLUSTER)
        text_.fail(function.at, "kernel '" + function.name + "' has clusters of too many blocks (allowed: 1 to " +
                                    llvm::Twine(int(VGC_CPU_MAX_CLUSTER)) + ")");
    if (blocks > 1)
        kernel.function->addFnAttr(CLUSTERS);
}

void ModuleLowering::add_kernel(const Function &function, llvm::Function &ir)
{
    Kernel kernel{};
    kernel.function = &ir;
    kernel.name = function.name;
    kernel.short_name = short_name(function.name);
    add_parameters(kernel, function);
    set_extents(kernel, function);
    program_.kernels.push_back(std::move(kernel));
}

/// Gives functions that are only declared their bodies; those that nobody calls need none.
void ModuleLowering::define_externs(const Module &module)
{
    for (const Function &function : module.functions) {
        auto &ir = *llvm::cast<llvm::Function>(symbols_.find(function.name)->second.address);
        if (ir.isDeclaration() && !ir.use_empty() && !define_extern(ir, function.name, options_.heap_bytes))
            text_.fail(function.at, "function '" + function.name + "' is called and not defined in this module");
    }
}

std::unique_ptr<llvm::Module> ModuleLowering::run(const std::string &text)
{
    note_step("the PTX module");
    const auto parsed = parse_module(text.substr(0, text.find('\0'))); // tools end it with a zero byte
    if (const Problem *problem = std::get_if<Problem>(&parsed))
        text_.fail(problem->at, problem->text);
    const Module &module = std::get<Module>(parsed);
    declare_variables(module);
    for (const Function &function : module.functions)
        declare(function);
    for (const Variable &variable : module.variables)
        initialise(symbols_.find(variable.name)->second, variable, symbols_, text_);
    for (const Function &function : module.functions)
        if (function.has_body)
            define(function, module);
    define_externs(module);
    if (program_.kernels.empty() && program_.globals.empty())
        text_.fail({}, "the module has no kernel (.entry)");
    keep_globals(*ir_, program_);
    places_.finish();
    return std::move(ir_);
}

} // namespace

std::unique_ptr<llvm::Module> lower_module(llvm::LLVMContext &context, const llvm::TargetMachine &machine,
                                           const Options &options, const std::string &text, Program &program)
{
    return ModuleLowering(context, machine, options, program).run(text);
}

} // namespace vgc::ptx
