// Links the modules of a program's units, as nvlink does with -rdc=true: names that are a unit's own stay apart, those
// of templates and inline functions become one, and two definitions of any other name are an error.
#include "compiler.h"
#include "units.h"
#include "work.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Constants.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/raw_ostream.h"

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
    if (llvm::GlobalVariable *heap = module.getGlobalVariable((llvm::Twine("_ZL10") + HEAP).str(), true)) {
        heap->setName(HEAP);
        heap->setLinkage(llvm::GlobalValue::LinkOnceODRLinkage);
        heap->setAttributes({});
    }
}

/// The modules that have been linked, and who defines and uses their names.
class UnitLinker
{
  public:
    UnitLinker(llvm::LLVMContext &context, Users &users)
        : module_(std::make_unique<llvm::Module>("units", context)), linker_(*module_), users_(users)
    {
    }

    void add(std::unique_ptr<llvm::Module> unit, const std::string &name)
    {
        note_names(*unit, name);
        if (failed_)
            return;
        if (module_->getTargetTriple().empty()) {
            module_->setTargetTriple(unit->getTargetTriple());
            module_->setDataLayout(unit->getDataLayout());
        }
        if (linker_.linkInModule(std::move(unit)))
            fail("unit '" + name + "' cannot be linked with the others");
    }

    std::unique_ptr<llvm::Module> take()
    {
        if (failed_)
            fail("the units do not fit together");
        if (llvm::GlobalVariable *heap = module_->getGlobalVariable(HEAP, true))
            heap->setLinkage(llvm::GlobalValue::InternalLinkage);
        return std::move(module_);
    }

  private:
    void note_names(const llvm::Module &unit, const std::string &name)
    {
        for (const llvm::GlobalObject &object : unit.global_objects()) {
            if (object.isDeclaration())
                users_.try_emplace(object.getName().str(), name);
            else if (object.hasExternalLinkage())
                define(object.getName().str(), name);
        }
    }
    void define(const std::string &symbol, const std::string &name)
    {
        const auto [known, is_new] = definitions_.try_emplace(symbol, name);
        if (is_new)
            return;
        failed_ = true;
        llvm::errs() << "vgc-cpucc: error: '" << llvm::demangle(symbol) << "' is defined in unit '" << known->second
                     << "' and in unit '" << name << "'\n";
    }

    std::unique_ptr<llvm::Module> module_;
    llvm::Linker linker_;
    Users &users_;
    std::map<std::string, std::string> definitions_;
    bool failed_ = false;
};

} // namespace

std::unique_ptr<llvm::Module> link_units(llvm::LLVMContext &context, Options &options, Users &users)
{
    std::vector<Unit> units = read_units(options);
    UnitLinker linker(context, users);
    for (Unit &unit : units) {
        auto module = run_front_end(context, unit.options, std::move(unit.text));
        note_work("unit", *module);
        prepare(*module, unit.options);
        linker.add(std::move(module), unit.options.input);
    }
    const Options &first = units.front().options;
    options.flush_denormals = first.flush_denormals;
    options.lockstep = first.lockstep;
    options.checks = first.checks;
    options.is_silent |= llvm::all_of(units, [](const Unit &unit) { return unit.options.is_silent; });
    for (const Unit &unit : units) { // units without lines have none then
        options.lines |= unit.options.lines;
        options.profile |= unit.options.profile;
    }
    return linker.take();
}

} // namespace vgc
