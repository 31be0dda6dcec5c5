#include "module.h"

#include "../crash.h"
#include "../options.h"
#include "dialect.h"
#include "externs.h"
#include "functions.h"
#include "module_parser.h"
#include "names.h"
#include "places.h"
#include "variables.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/VersionTuple.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

namespace vgc::ptx
{
namespace
{

/// Attribute of a kernel or variable: its number in the program.
constexpr char NUMBER[] = "vgc-ptx-number";
/// Attribute of functions of PTX modules.
constexpr char FROM_PTX[] = "vgc-ptx";

/// The newest version whose instructions are known, that of CUDA 13.5. A newer one is no error by itself.
const llvm::VersionTuple NEWEST(9, 5);

/// A file of PTX.
class FileText : public Text
{
  public:
    explicit FileText(std::string name) : name_(std::move(name))
    {
    }
    void note_version(llvm::StringRef version)
    {
        if (llvm::VersionTuple number; !number.tryParse(version) && number > NEWEST)
            newer_ = version.str();
    }
    std::string place(Position at) const override
    {
        return name_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
    }

    std::string remark() const override
    {
        if (newer_.empty())
            return {};
        return " (Unsupported .version " + newer_ + "; this compiler knows " + NEWEST.getAsString() + ")";
    }

  private:
    std::string name_;
    std::string newer_; // version that is too new
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
                   Program &program, llvm::StringRef name)
        : is_unit_(!options.cuid.empty()), file_(is_unit_ ? options.input : name.str()), text_(file_),
          options_(options), program_(program), ir_(std::make_unique<llvm::Module>(file_, context)), machine_(machine),
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
    void declare(const Alias &alias, const Module &module);
    void set_attributes(llvm::Function &ir);
    void define(const Function &function, const Module &module);
    void add_kernel(const Function &function, llvm::Function &ir);
    void add_parameters(Kernel &kernel, const Function &function);
    void set_extents(Kernel &kernel, const Function &function);
    void define_externs(const Module &module);
    void keep();

    bool is_unit_; // of several
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
    const bool is_extern = variable.linkage == Linkage::EXTERN, is_shared = variable.space == Space::SHARED;
    if (!is_new) {
        if (is_extern)
            return;
        text_.fail(variable.at, "'" + variable.name + "' is defined twice");
    }
    if (is_extern && !is_shared && !is_unit_)
        text_.fail(variable.at,
                   "variable '" + variable.name +
                       "' is not defined in this module: link the module that defines it (vgc run a.ptx b.ptx)");
    if (variable.space == Space::LOCAL)
        text_.fail(variable.at, "a local variable must be in a function");
    Variable made = variable;
    if (is_extern && is_shared && !is_unit_)
        made.linkage = Linkage::OWN;
    found->second = make_global(*ir_, made, ir_name(variable.name), text_);
    if (is_shared || is_extern)
        return;
    auto *global = llvm::cast<llvm::GlobalVariable>(found->second.address);
    global->setExternallyInitialized(true);
    if (variable.space == Space::CONSTANT)
        global->addAttribute(CONSTANT);
    global->addAttribute(NUMBER, std::to_string(program_.globals.size()));
    program_.globals.push_back({global, variable.name});
}

/// Declares those that the module defines first, then those that it only names.
void ModuleLowering::declare_variables(const Module &module)
{
    for (const bool is_extern : {false, true})
        for (const Variable &variable : module.variables)
            if ((variable.linkage == Linkage::EXTERN) == is_extern)
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

/// Gives a function its further name.
void ModuleLowering::declare(const Alias &alias, const Module &module)
{
    const Function *named = nullptr, *target = nullptr;
    for (const Function &function : module.functions) {
        named = function.name == alias.name ? &function : named;
        target = function.name == alias.target && function.has_body ? &function : target;
    }
    const auto is_possible = [](const Function *function) { return function != nullptr && !function->is_entry; };
    if (!is_possible(named) || named->has_body || named->linkage == Linkage::EXTERN)
        text_.fail(alias.at, "'" + alias.name + "' is no function without a body");
    if (!is_possible(target))
        text_.fail(alias.at, "'" + alias.target + "' is no function with a body");
    Cell &cell = symbols_.find(alias.name)->second;
    const Cell &meant = symbols_.find(alias.target)->second;
    auto *declared = llvm::cast<llvm::Function>(cell.address), *function = llvm::cast<llvm::Function>(meant.address);
    if (declared == function || declared->getFunctionType() != function->getFunctionType())
        text_.fail(alias.at, "'" + alias.name + "' and '" + alias.target + "' are not declared alike");
    auto *further = llvm::GlobalAlias::create(linkage_of(named->linkage), "", function);
    further->takeName(declared);
    declared->eraseFromParent();
    cell = meant;
}

void ModuleLowering::set_attributes(llvm::Function &ir)
{
    ir.addFnAttr(FROM_PTX);
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
    if (function.linkage == Linkage::EXTERN)
        text_.fail(function.at, "function '" + function.name + "' of another module has a body");
    ir.setLinkage(linkage_of(function.linkage));
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

/// Notes the most threads of a block, or those that it must have, and the blocks of a cluster.
void ModuleLowering::set_extents(Kernel &kernel, const Function &function)
{
    kernel.max_threads = max_threads(function);
    uint64_t blocks = 1;
    for (unsigned axis = 0; axis < 3; axis++) {
        kernel.cluster[axis] = std::max(1u, function.cluster[axis]);
        kernel.block[axis] = function.is_exact ? std::max(1u, function.threads[axis]) : 0;
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
    ir.addFnAttr(NUMBER, std::to_string(program_.kernels.size()));
    program_.kernels.push_back(std::move(kernel));
}

/// Gives functions that are only declared their bodies; those that nobody calls need none, and other units may define
/// those of a unit.
void ModuleLowering::define_externs(const Module &module)
{
    for (const Function &function : module.functions) {
        auto &ir = *llvm::cast<llvm::Function>(symbols_.find(function.name)->second.address);
        if (ir.isDeclaration() && !ir.use_empty() && !define_extern(ir, function.name, options_.heap_bytes) &&
            !is_unit_)
            text_.fail(function.at, "function '" + function.name + "' is called and not defined in this module");
    }
}

/// Keeps the module's own kernels and variables when it is linked with others: nobody uses some of them.
void ModuleLowering::keep()
{
    llvm::SmallVector<llvm::GlobalValue *> kept;
    for (llvm::Function &function : *ir_)
        if (function.hasFnAttribute(NUMBER))
            kept.push_back(&function);
    for (llvm::GlobalVariable &variable : ir_->globals())
        if (variable.hasAttribute(NUMBER))
            kept.push_back(&variable);
    llvm::appendToCompilerUsed(*ir_, kept);
}

std::unique_ptr<llvm::Module> ModuleLowering::run(const std::string &text)
{
    note_step("the PTX module");
    if (!options_.name_expressions.empty())
        fail("--name-expression=" + options_.name_expressions.front() + " is for CUDA C, and '" + file_ + "' is PTX");
    text_.note_version(version_of(text));
    const auto parsed = parse_module(text.substr(0, text.find('\0'))); // tools end it with a zero byte
    if (const Problem *problem = std::get_if<Problem>(&parsed))
        text_.fail(problem->at, problem->text);
    const Module &module = std::get<Module>(parsed);
    declare_variables(module);
    for (const Function &function : module.functions)
        declare(function);
    for (const Alias &alias : module.aliases)
        declare(alias, module);
    for (const Variable &variable : module.variables)
        initialise(symbols_.find(variable.name)->second, variable, symbols_, text_);
    for (const Function &function : module.functions)
        if (function.has_body)
            define(function, module);
    define_externs(module);
    if (!module.has_version) // a module may be empty, a text may not
        text_.fail({}, "the module has no '.version'");
    keep();
    places_.finish();
    return std::move(ir_);
}

size_t number_in(const llvm::Attribute &attribute)
{
    size_t number = 0;
    attribute.getValueAsString().getAsInteger(10, number);
    return number;
}

} // namespace

bool is_module(llvm::StringRef text)
{
    return begins_module(std::string_view(text.data(), text.size()));
}

bool is_from_ptx(const llvm::Function &function)
{
    return function.hasFnAttribute(FROM_PTX);
}

void find_linked(llvm::Module &module, Program &program)
{
    Program found;
    for (llvm::Function &function : module)
        if (const llvm::Attribute number = function.getFnAttribute(NUMBER); number.isValid()) {
            Kernel &kernel = found.kernels.emplace_back(program.kernels[number_in(number)]);
            kernel.function = &function;
            function.setLinkage(llvm::GlobalValue::ExternalLinkage);
        }
    for (llvm::GlobalVariable &variable : module.globals())
        if (const llvm::Attribute number = variable.getAttribute(NUMBER); number.isValid()) {
            found.globals.push_back({&variable, program.globals[number_in(number)].name});
            variable.setLinkage(llvm::GlobalValue::InternalLinkage);
        }
    program = std::move(found);
}

/// Takes a line `#line 1 "NAME"` from the front of a module: clients name the user's file so, as for CUDA C. Empty if
/// it has none.
static llvm::StringRef take_name(llvm::StringRef &text)
{
    const auto [line, rest] = text.split('\n');
    llvm::StringRef name = line;
    if (!name.consume_front("#line 1 \"") || !name.consume_back("\"") || !llvm::json::isUTF8(name))
        return "";
    text = rest;
    return name;
}

std::unique_ptr<llvm::Module> lower_module(llvm::LLVMContext &context, const llvm::TargetMachine &machine,
                                           const Options &options, const std::string &text, Program &program)
{
    llvm::StringRef own = text;
    const llvm::StringRef name = take_name(own);
    const llvm::StringRef input = llvm::sys::path::filename(options.input);
    return ModuleLowering(context, machine, options, program, name.empty() ? input : name).run(own.str());
}

} // namespace vgc::ptx
