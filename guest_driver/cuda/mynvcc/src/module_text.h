// LLVM's text of a module, as clang writes it before any optimisation, from clang 14 to 19.
#pragma once
#include "process.h"

#include <map>
#include <set>

namespace mynvcc
{

/// A function or global variable.
struct Symbol {
    std::string name;
    /// Its lines, each with its end.
    std::string text;
    /// Names that stand in it.
    std::set<std::string> references;
    bool is_function = false, is_defined = false;

    /// The first line.
    std::string head() const;
    /// Memory of a block: it has no initial value, which other variables of the device have.
    bool is_shared() const;
    /// Shared memory whose size the launch tells.
    bool is_dynamic() const;
    bool is_variable() const;
};

struct Parameter {
    /// Size as the caller sees it.
    size_t bytes = 0;
    bool is_class = false;
};

class Module
{
  public:
    explicit Module(const std::string &text);
    /// NULL if the module has no such symbol.
    const Symbol *find(const std::string &name) const;
    /// Functions and variables that have an annotation.
    std::set<std::string> annotated(const std::string &annotation) const;
    /// Parameters of a function in the source; raises Failure if the text does not tell.
    std::vector<Parameter> parameters(const Symbol &function) const;
    /// The function's name in the source, as far as debugging information tells it.
    std::string source_name(const Symbol &function) const;
    /// The module with these symbols alone. `edited` has the text of those that are to be changed.
    std::string text_of(const std::set<std::string> &kept, const std::map<std::string, std::string> &edited) const;
    /// Pointers have the type that they point to, as up to clang 14.
    bool has_typed_pointers() const;

  private:
    std::string node(const std::string &number) const;
    Parameter parameter(const std::string &type) const;

    std::map<std::string, Symbol> symbols;
    std::map<std::string, std::string> nodes;
    /// Texts between symbols, and names of symbols.
    std::vector<std::pair<bool, std::string>> order;
};

/// The name at `at`, which is behind the @; with its quotes, if it has any.
std::string name_at(const std::string &text, size_t at);
/// Names that stand behind an @ in the text.
std::set<std::string> names_in(const std::string &text);
/// What stands behind `key` in a line, up to a comma or bracket; "" if it is missing.
std::string field(const std::string &line, const std::string &key);

} // namespace mynvcc
