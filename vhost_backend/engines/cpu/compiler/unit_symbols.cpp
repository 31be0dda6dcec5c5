#include "unit_symbols.h"
#include "demangled.h"
#include "ptx/module.h"
#include "ptx/names.h"
#include "shared_variables.h"
#include "unit_calls.h"

#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

bool is_shared(const llvm::GlobalVariable &variable)
{
    return variable.getSection() == SHARED_SECTION ||
           (variable.hasInitializer() && llvm::isa<llvm::UndefValue>(variable.getInitializer()));
}

/// Bytes of a variable; 0 for an array of unknown size.
uint64_t bytes_of(const llvm::GlobalVariable &variable)
{
    return variable.getParent()->getDataLayout().getTypeAllocSize(variable.getValueType());
}

/// True if one of both functions is in PTX and the other in CUDA C, which pass arguments differently.
bool are_mixed(const llvm::GlobalObject &one, const llvm::GlobalObject &other)
{
    const auto *function = llvm::dyn_cast<llvm::Function>(&one), *with = llvm::dyn_cast<llvm::Function>(&other);
    return function != nullptr && with != nullptr && ptx::is_from_ptx(*function) != ptx::is_from_ptx(*with);
}

} // namespace

std::string source_name(llvm::StringRef symbol)
{
    return demangled(ptx::given_name(symbol));
}

void UnitSymbols::report(const llvm::Twine &message)
{
    failed_ = true;
    llvm::errs() << "vgc-cpucc: error: " << message << "\n";
}

void UnitSymbols::define(llvm::GlobalValue &value, llvm::GlobalObject &object, const std::string &unit)
{
    const bool is_weak = !value.hasExternalLinkage();
    const auto [found, is_new] = definitions_.try_emplace(value.getName().str(), Definition{&object, unit, is_weak});
    Definition &known = found->second;
    if (is_new)
        return;
    if (are_mixed(object, *known.object) && (is_weak || known.is_weak)) { // each kind of unit keeps its own
        (is_weak ? value : *known.object).setLinkage(llvm::GlobalValue::InternalLinkage);
        known = is_weak ? known : Definition{&object, unit, is_weak};
    } else if (!is_weak && !known.is_weak) {
        report("'" + source_name(value.getName()) + "' is defined in unit '" + known.unit + "' and in unit '" + unit +
               "'");
    } else {
        compare(object, known, unit);
        known = is_weak ? known : Definition{&object, unit, is_weak};
    }
}

void UnitSymbols::add(UnitModule &unit, Users &users)
{
    for (llvm::GlobalObject &object : unit.module->global_objects()) {
        if (object.isDeclaration())
            users.try_emplace(object.getName().str(), unit.name);
        else if (!object.hasLocalLinkage() && !object.hasAppendingLinkage())
            define(object, object, unit.name);
    }
    for (llvm::GlobalAlias &alias : unit.module->aliases())
        if (llvm::GlobalObject *object = alias.getAliaseeObject(); object != nullptr && !alias.hasLocalLinkage())
            define(alias, *object, unit.name);
}

void UnitSymbols::compare(const llvm::Function &function, const Definition &definition, const std::string &unit)
{
    const auto &defined = llvm::cast<llvm::Function>(*definition.object);
    if (ptx::is_from_ptx(function) && ptx::is_from_ptx(defined) &&
        function.getFunctionType() != defined.getFunctionType())
        report("function '" + source_name(function.getName()) + "' has other parameters or results in unit '" + unit +
               "' than in unit '" + definition.unit + "', which defines it");
}

void UnitSymbols::compare(const llvm::GlobalVariable &variable, const Definition &definition, const std::string &unit)
{
    const auto &defined = llvm::cast<llvm::GlobalVariable>(*definition.object);
    const std::string name = "variable '" + source_name(variable.getName()) + "'";
    const uint64_t bytes = bytes_of(variable), given = bytes_of(defined);
    if (is_shared(variable) != is_shared(defined))
        report(name + " is " + (is_shared(variable) ? "" : "not ") + "shared in unit '" + unit + "' and " +
               (is_shared(defined) ? "" : "not ") + "in unit '" + definition.unit + "', which defines it");
    else if (bytes != 0 && bytes != given && !(variable.hasCommonLinkage() && defined.hasCommonLinkage()))
        report(name + " has " + llvm::Twine(bytes) + " bytes in unit '" + unit + "' and " + llvm::Twine(given) +
               " in unit '" + definition.unit + "', which defines it");
}

void UnitSymbols::compare(const llvm::GlobalObject &object, const Definition &definition, const std::string &unit)
{
    const auto *function = llvm::dyn_cast<llvm::Function>(&object);
    const bool is_defined_function = llvm::isa<llvm::Function>(definition.object);
    if ((function != nullptr) != is_defined_function)
        report("'" + source_name(object.getName()) + "' is a " + (function != nullptr ? "function" : "variable") +
               " in unit '" + unit + "' and a " + (is_defined_function ? "function" : "variable") + " in unit '" +
               definition.unit + "', which defines it");
    else if (function != nullptr)
        compare(*function, definition, unit);
    else
        compare(llvm::cast<llvm::GlobalVariable>(object), definition, unit);
}

void UnitSymbols::adapt(llvm::Function &declared, const Definition &definition, const std::string &unit)
{
    if (!adapt_calls(declared, llvm::cast<llvm::Function>(*definition.object)))
        report("function '" + source_name(declared.getName()) + "' of unit '" + definition.unit +
               "' cannot be used by unit '" + unit +
               "': between PTX and CUDA C, arguments and results are numbers or pointers of the same size");
}

const UnitSymbols::Named *UnitSymbols::find(const llvm::GlobalObject &declared) const
{
    const std::string name = declared.getName().str(), given = ptx::given_name(name);
    auto found = definitions_.find(name);
    if (found == definitions_.end()) {
        found = definitions_.find(given == name ? ptx::ir_name(name) : given);
        if (found == definitions_.end() || found->second.is_weak ||
            declared.getParent()->getNamedValue(found->first) != nullptr)
            return nullptr;
    }
    return &*found;
}

void UnitSymbols::fit(UnitModule &unit)
{
    std::vector<llvm::GlobalObject *> declared;
    for (llvm::GlobalObject &object : unit.module->global_objects())
        if (object.isDeclaration())
            declared.push_back(&object);
    for (llvm::GlobalObject *object : declared) {
        const Named *found = find(*object);
        if (found == nullptr)
            continue;
        object->setName(found->first);
        if (are_mixed(*object, *found->second.object))
            adapt(llvm::cast<llvm::Function>(*object), found->second, unit.name);
        else
            compare(*object, found->second, unit.name);
    }
}

} // namespace vgc
