#include "module_parser.h"

#include <algorithm>
#include <array>

#include "statement_parser.h"

namespace vgc::ptx
{
namespace
{

class ModuleParser : public StatementParser
{
  public:
    explicit ModuleParser(std::string_view text) : StatementParser(text)
    {
    }

    std::variant<Module, Problem> run()
    {
        Module module;
        while (token_.kind != Token::END)
            if (!accept(";") && !parse_directive(module))
                return problem_;
        return module;
    }

  private:
    bool parse_directive(Module &module);
    bool parse_header(const std::string &directive, Module &module);
    bool parse_target();
    bool parse_definition(Module &module);
    bool parse_linkage(Linkage &linkage);
    bool parse_alias(Module &module);
    bool parse_function(Function &function);
    bool parse_parameters(std::vector<Variable> &parameters);
    bool parse_parameter(Variable &parameter);
    bool parse_property(Function &function);
    bool parse_extents(uint32_t (&extents)[3]);
    bool parse_file(Module &module);
    bool skip_section();
};

bool ModuleParser::parse_target()
{
    if (token_.text.rfind("sm_", 0) != 0)
        return fail("an architecture such as sm_80 after '.target'");
    do {
        if (token_.kind != Token::WORD)
            return fail("a property of the target");
        advance();
    } while (accept(","));
    return true;
}

/// Directives that say for which machine and tools the text is.
bool ModuleParser::parse_header(const std::string &directive, Module &module)
{
    advance();
    if (directive == "version") {
        module.has_version = true;
        if (token_.kind != Token::FLOAT64)
            return fail("a version such as 8.0 after '.version'");
        advance();
        return true;
    }
    if (directive == "target")
        return parse_target();
    if (token_.kind != Token::INTEGER || token_.bits != 64)
        return fail("64 after '.address_size'");
    advance();
    return true;
}

bool ModuleParser::skip_section()
{
    advance();
    while (!token_.is("{") && token_.kind != Token::END && token_.kind != Token::ERROR)
        advance();
    while (!token_.is("}") && token_.kind != Token::END && token_.kind != Token::ERROR)
        advance();
    return expect("}", "the section");
}

bool ModuleParser::parse_directive(Module &module)
{
    if (token_.kind != Token::DOTTED)
        return fail("a directive");
    const std::string directive = token_.text;
    if (!module.has_version && directive != "version")
        return fail("'.version'");
    if (directive == "version" || directive == "target" || directive == "address_size")
        return parse_header(directive, module);
    if (directive == "section")
        return skip_section();
    if (directive == "file")
        return parse_file(module);
    if (directive == "alias")
        return parse_alias(module);
    if (is_note(directive))
        return skip_note();
    return parse_definition(module);
}

/// A function's further name, and the function: `.alias name, function;`.
bool ModuleParser::parse_alias(Module &module)
{
    advance();
    Alias &alias = module.aliases.emplace_back();
    alias.at = token_.at;
    for (std::string *name : {&alias.name, &alias.target}) {
        if (token_.kind != Token::WORD)
            return fail("a function's name");
        *name = token_.text;
        advance();
        if (!expect(name == &alias.name ? "," : ";", "the function's name"))
            return false;
    }
    return true;
}

/// Number and name of a source: `.file 1 "kernel.cu"`, and perhaps more.
bool ModuleParser::parse_file(Module &module)
{
    advance();
    uint64_t number = 0;
    if (!parse_number_of("file", number))
        return false;
    if (token_.kind != Token::STRING)
        return fail("a name in quotes");
    module.files[number] = token_.text.substr(1, token_.text.size() - 2);
    return skip_note();
}

/// Takes the directive that says what other modules know, if there is one.
bool ModuleParser::parse_linkage(Linkage &linkage)
{
    static const std::array<std::pair<const char *, Linkage>, 4> LINKAGES = {{{"extern", Linkage::EXTERN},
                                                                              {"visible", Linkage::VISIBLE},
                                                                              {"weak", Linkage::WEAK},
                                                                              {"common", Linkage::COMMON}}};
    for (const auto &[name, known] : LINKAGES)
        if (token_.kind == Token::DOTTED && token_.text == name) {
            linkage = known;
            advance();
            break;
        }
    const bool is_global = token_.kind == Token::DOTTED && token_.text == "global";
    return linkage != Linkage::COMMON || is_global || fail("'.global' after '.common'");
}

bool ModuleParser::parse_definition(Module &module)
{
    Linkage linkage = Linkage::OWN;
    if (!parse_linkage(linkage))
        return false;
    const std::string directive = token_.kind == Token::DOTTED ? token_.text : "";
    Space space;
    if (directive == "entry" || directive == "func") {
        Function &function = module.functions.emplace_back();
        function.is_entry = directive == "entry";
        function.linkage = linkage;
        advance();
        return parse_function(function);
    }
    if (!space_named(directive, space) || space == Space::REGISTER || space == Space::PARAMETER)
        return fail("a function or a variable");
    advance();
    const size_t before = module.variables.size();
    if (!parse_variables(space, module.variables))
        return false;
    for (size_t i = before; i < module.variables.size(); i++)
        module.variables[i].linkage = linkage;
    return true;
}

bool ModuleParser::parse_parameter(Variable &parameter)
{
    if (token_.kind != Token::DOTTED || !space_named(token_.text, parameter.space) ||
        (parameter.space != Space::PARAMETER && parameter.space != Space::REGISTER))
        return fail("'.param' or '.reg'");
    advance();
    return parse_variable(parameter);
}

/// Parameters in parentheses, if there are any.
bool ModuleParser::parse_parameters(std::vector<Variable> &parameters)
{
    if (!accept("(") || accept(")"))
        return true;
    do {
        if (!parse_parameter(parameters.emplace_back()))
            return false;
    } while (accept(","));
    return expect(")", "the parameters");
}

bool ModuleParser::parse_extents(uint32_t (&extents)[3])
{
    for (uint32_t &extent : extents) {
        if (token_.kind != Token::INTEGER || token_.bits == 0 || token_.bits > UINT32_MAX)
            return fail("a number");
        extent = uint32_t(token_.bits);
        advance();
        if (!accept(","))
            break;
    }
    return true;
}

/// One of the directives between a function's parameters and its body.
bool ModuleParser::parse_property(Function &function)
{
    const std::string directive = token_.text;
    if (is_note(directive))
        return skip_note() && (accept(";") || true);
    uint64_t ignored;
    const auto is_one_of = [&](std::initializer_list<const char *> names) {
        return std::find(names.begin(), names.end(), directive) != names.end();
    };
    const bool is_extents = is_one_of({"maxntid", "reqntid"}), is_cluster = directive == "reqnctapercluster";
    const bool is_number = is_one_of({"minnctapersm", "maxnctapersm", "maxnreg", "maxclusterrank", "abi_preserve"});
    const bool is_word = is_one_of({"noreturn", "explicitcluster", "blocksareclusters", "unified"});
    if (!is_extents && !is_cluster && !is_number && !is_word)
        return fail("a body or a property of the function");
    advance();
    function.is_exact |= directive == "reqntid";
    if (is_extents || is_cluster)
        return parse_extents(is_cluster ? function.cluster : function.threads);
    return is_word || parse_number_of(directive, ignored);
}

bool ModuleParser::parse_function(Function &function)
{
    if (token_.kind == Token::DOTTED && token_.text == "attribute") {
        advance();
        if (!skip_arguments())
            return false;
    }
    if (!function.is_entry && !parse_parameters(function.results))
        return false;
    function.at = token_.at;
    if (token_.kind != Token::WORD)
        return fail("a function's name");
    function.name = token_.text;
    advance();
    if (!parse_parameters(function.parameters))
        return false;
    while (token_.kind == Token::DOTTED)
        if (!parse_property(function))
            return false;
    if (accept(";"))
        return true;
    if (!expect("{", "the function's parameters"))
        return false;
    function.has_body = true;
    return parse_statements(function.body) && expect("}", "the function's statements");
}

} // namespace

std::variant<Module, Problem> parse_module(std::string_view text)
{
    return ModuleParser(text).run();
}

} // namespace vgc::ptx
