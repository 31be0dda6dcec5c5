// Links the modules of a program's units, as nvlink does with -rdc=true: names that are a unit's own stay apart, those
// of templates and inline functions become one, and two definitions of any other name are an error.
#include "compiler.h"
#include "ptx/module.h"
#include "unit_symbols.h"
#include "units.h"
#include "work.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MD5.h"

namespace vgc
{
namespace
{

/// Variable of malloc(), of which a program has one.
constexpr char HEAP[] = "__vgc_heap";

/// Ending of the names of a unit's own kernels and variables, which clang makes known to other units.
std::string own_ending(const Options &unit, bool is_variable)
{
    return (is_variable ? "__static__" : "__intern__") + llvm::utohexstr(llvm::MD5Hash(unit.cuid), true);
}

/// Takes the ending from the names of kernels and variables that are the unit's own. clang names a variable without it
/// in code that comes before the host code that uses the variable.
void make_own(llvm::Module &module, const Options &unit)
{
    std::vector<std::pair<llvm::GlobalObject *, std::string>> own;
    for (llvm::GlobalObject &object : module.global_objects()) {
        llvm::StringRef name = object.getName();
        if (name.consume_back(own_ending(unit, llvm::isa<llvm::GlobalVariable>(object))))
            own.emplace_back(&object, name.str());
    }
    for (const auto &[object, name] : own) {
        llvm::GlobalValue *declaration = module.getNamedValue(name);
        if (declaration != nullptr && declaration->isDeclaration()) {
            declaration->replaceAllUsesWith(object);
            declaration->eraseFromParent();
        }
        object->setName(name);
        object->setComdat(nullptr);
        object->setLinkage(llvm::GlobalValue::InternalLinkage);
    }
}

/// Keeps a kernel or variable that is the unit's own from others of its name.
void keep_apart(llvm::GlobalObject &object, const Options &unit)
{
    if (!object.hasInternalLinkage() || object.isDeclaration())
        return;
    if (auto *variable = llvm::dyn_cast<llvm::GlobalVariable>(&object)) {
        variable->addAttribute(UNIT, unit.input);
    } else {
        auto &function = llvm::cast<llvm::Function>(object);
        function.addFnAttr(UNIT, unit.input);
        function.addFnAttr(NAME_IN_UNIT, function.getName());
    }
}

/// Prepares a unit's module for the link.
void prepare(llvm::Module &module, const Options &unit)
{
    if (llvm::GlobalVariable *hosts = module.getGlobalVariable("__clang_gpu_used_external", true)) {
        hosts->replaceAllUsesWith(llvm::PoisonValue::get(hosts->getType()));
        hosts->eraseFromParent();
    }
    make_own(module, unit);
    for (llvm::GlobalObject &object : module.global_objects())
        keep_apart(object, unit);
    llvm::GlobalVariable *heap = module.getGlobalVariable((llvm::Twine("_ZL10") + HEAP).str(), true);
    if (heap == nullptr)
        heap = module.getGlobalVariable(HEAP, true); // of PTX
    if (heap != nullptr) {
        heap->setName(HEAP);
        heap->setLinkage(llvm::GlobalValue::LinkOnceODRLinkage);
        heap->setAttributes({});
    }
}

std::unique_ptr<llvm::Module> compile_unit(llvm::LLVMContext &context, const llvm::TargetMachine &machine, Unit &unit,
                                           Program &program)
{
    auto module = ptx::is_module(unit.text) ? ptx::lower_module(context, machine, unit.options, unit.text, program)
                                            : run_front_end(context, unit.options, std::move(unit.text));
    note_work("unit", *module);
    prepare(*module, unit.options);
    return module;
}

/// Links modules whose names fit together.
std::unique_ptr<llvm::Module> link(llvm::LLVMContext &context, std::vector<UnitModule> &units)
{
    auto whole = std::make_unique<llvm::Module>("units", context);
    whole->setTargetTriple(units.front().module->getTargetTriple());
    whole->setDataLayout(units.front().module->getDataLayout());
    llvm::Linker linker(*whole);
    for (UnitModule &unit : units)
        if (linker.linkInModule(std::move(unit.module)))
            fail("unit '" + unit.name + "' cannot be linked with the others");
    if (llvm::GlobalVariable *heap = whole->getGlobalVariable(HEAP, true))
        heap->setLinkage(llvm::GlobalValue::InternalLinkage);
    return whole;
}

} // namespace

std::unique_ptr<llvm::Module> link_units(llvm::LLVMContext &context, const llvm::TargetMachine &machine,
                                         Options &options, Program &program, Users &users)
{
    std::vector<Unit> units = read_units(options);
    std::vector<UnitModule> modules;
    UnitSymbols symbols;
    for (Unit &unit : units) {
        modules.push_back({compile_unit(context, machine, unit, program), unit.options.input});
        symbols.add(modules.back(), users);
    }
    for (UnitModule &unit : modules)
        symbols.fit(unit);
    if (!symbols.are_good())
        fail("the units do not fit together");
    const Options &first = units.front().options;
    options.flush_denormals = first.flush_denormals;
    options.lockstep = first.lockstep;
    options.checks = first.checks;
    options.is_silent |= llvm::all_of(units, [](const Unit &unit) { return unit.options.is_silent; });
    for (const Unit &unit : units) { // units without lines have none then
        options.lines |= unit.options.lines;
        options.profile |= unit.options.profile;
    }
    return link(context, modules);
}

} // namespace vgc
