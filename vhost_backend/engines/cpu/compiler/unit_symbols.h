// Names that the units of a program have in common: who defines them, and whether declarations fit.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "compiler.h"

namespace vgc
{

/// Module of a unit, and its name in errors.
struct UnitModule {
    std::unique_ptr<llvm::Module> module;
    std::string name;
};

/// Name as the source has it.
std::string source_name(llvm::StringRef symbol);

/// What the units of a program define for one another.
class UnitSymbols
{
  public:
    /// Notes the definitions and uses of a unit; says what is wrong with them on stderr.
    void add(UnitModule &unit, Users &users);
    /// Checks a unit's declarations against the definitions, and has PTX and CUDA C call one another.
    void fit(UnitModule &unit);
    /// True if no error was found.
    bool are_good() const
    {
        return !failed_;
    }

  private:
    struct Definition {
        llvm::GlobalObject *object;
        std::string unit;
        bool is_weak;
    };
    using Named = std::pair<const std::string, Definition>;
    void define(llvm::GlobalValue &value, llvm::GlobalObject &object, const std::string &unit);
    /// What a declaration stands for, and the name of it in IR; nullptr: no unit defines it. In the IR of PTX, names
    /// that begin with two underscores have a prefix.
    const Named *find(const llvm::GlobalObject &declared) const;
    /// Each says on stderr how an object differs from what another unit defines by its name.
    void compare(const llvm::Function &function, const Definition &definition, const std::string &unit);
    void compare(const llvm::GlobalVariable &variable, const Definition &definition, const std::string &unit);
    void compare(const llvm::GlobalObject &object, const Definition &definition, const std::string &unit);
    /// Has a function of PTX or CUDA C call one of the other kind.
    void adapt(llvm::Function &declared, const Definition &definition, const std::string &unit);
    void report(const llvm::Twine &message);

    std::map<std::string, Definition> definitions_;
    bool failed_ = false;
};

} // namespace vgc
