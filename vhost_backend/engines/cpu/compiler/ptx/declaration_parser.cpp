#include "declaration_parser.h"

#include <array>

namespace vgc::ptx
{
namespace
{

const unsigned MAX_REGISTERS = 1 << 17; // of a text
const uint64_t MAX_ALIGN = 4096;
const uint64_t MAX_ELEMENTS = 1ull << 31;

} // namespace

bool DeclarationParser::space_named(const std::string &name, Space &space)
{
    static const std::array<std::pair<const char *, Space>, 6> SPACES = {{{"shared", Space::SHARED},
                                                                          {"global", Space::GLOBAL},
                                                                          {"local", Space::LOCAL},
                                                                          {"const", Space::CONSTANT},
                                                                          {"param", Space::PARAMETER},
                                                                          {"reg", Space::REGISTER}}};
    for (const auto &[known, found] : SPACES)
        if (name == known) {
            space = found;
            return true;
        }
    return false;
}

bool DeclarationParser::parse_registers(Statement &statement)
{
    while (token_.kind == Token::DOTTED) {
        statement.modifiers.push_back(token_.text);
        advance();
    }
    if (statement.modifiers.empty())
        return fail("a type after '.reg'");
    do {
        if (!parse_range(statement.registers.emplace_back()))
            return false;
    } while (accept(","));
    return expect(";", "the registers' names");
}

bool DeclarationParser::parse_range(Registers &registers)
{
    if (token_.kind != Token::WORD)
        return fail("a register's name");
    registers.name = token_.text;
    advance();
    if (!accept("<"))
        return true;
    if (token_.kind != Token::INTEGER || token_.bits == 0 || token_.bits > MAX_REGISTERS - registers_)
        return fail("a number of registers, 1 to " + std::to_string(MAX_REGISTERS) + " in all");
    registers.count = unsigned(token_.bits);
    registers_ += registers.count;
    advance();
    return expect(">", "the number of registers");
}

bool DeclarationParser::parse_align(uint64_t &align)
{
    if (token_.kind != Token::INTEGER || token_.bits == 0 || token_.bits > MAX_ALIGN ||
        (token_.bits & (token_.bits - 1)) != 0)
        return fail("a power of two, at most " + std::to_string(MAX_ALIGN) + ", after '.align'");
    align = token_.bits;
    advance();
    return true;
}

bool DeclarationParser::skip_arguments()
{
    if (!expect("(", "the directive"))
        return false;
    while (!token_.is(")") && token_.kind != Token::END && token_.kind != Token::ERROR)
        advance();
    return expect(")", "the directive's arguments");
}

/// Takes one of the words with dots before a variable's name.
bool DeclarationParser::parse_word_of_type(Variable &variable)
{
    const std::string word = token_.text;
    advance();
    Space space;
    uint64_t align = 0;
    if (word == "align") {
        if (!parse_align(align))
            return false;
        if (!variable.is_pointer) // that of what it points to
            variable.align = align;
    } else if (word == "attribute") {
        return skip_arguments();
    } else if (word == "ptr") {
        variable.is_pointer = true;
    } else if (word == "v2" || word == "v4" || word == "v8") {
        variable.vector = unsigned(word[1] - '0');
    } else if (variable.is_pointer && space_named(word, space)) {
        return true;
    } else if (variable.type.empty()) {
        variable.type = word;
    } else {
        return fail("a name after '." + word + "'");
    }
    return true;
}

bool DeclarationParser::parse_type(Variable &variable)
{
    while (token_.kind == Token::DOTTED)
        if (!parse_word_of_type(variable))
            return false;
    return !variable.type.empty() || fail("a type");
}

bool DeclarationParser::parse_name_and_size(Variable &variable)
{
    variable.at = token_.at;
    if (token_.kind != Token::WORD)
        return fail("a variable's name");
    variable.name = token_.text;
    advance();
    while (accept("[")) {
        uint64_t count = 0;
        if (!token_.is("]") && !parse_sum(count))
            return false;
        if (count > MAX_ELEMENTS / std::max<uint64_t>(1, variable.count))
            return fail("at most " + std::to_string(MAX_ELEMENTS) + " elements");
        variable.count *= count;
        variable.is_array = true;
        if (!expect("]", "the number of elements"))
            return false;
    }
    return true;
}

bool DeclarationParser::parse_variable(Variable &variable)
{
    return parse_type(variable) && parse_name_and_size(variable);
}

/// Number, name, or `generic(name)`, whose address is the same.
bool DeclarationParser::parse_element(Operand &operand)
{
    const bool is_generic = token_.kind == Token::WORD && token_.text == "generic";
    if (is_generic) {
        advance();
        if (!expect("(", "'generic'"))
            return false;
    }
    if (!parse_operand(operand))
        return false;
    if (operand.kind != Operand::NAME && operand.kind != Operand::INTEGER && operand.kind != Operand::FLOAT32 &&
        operand.kind != Operand::FLOAT64)
        return fail("a number or a name before");
    return !is_generic || (expect(")", "the variable's name") && parse_offset(operand));
}

bool DeclarationParser::parse_initialiser(Variable &variable)
{
    if (!accept("{"))
        return parse_element(variable.initialiser.emplace_back());
    do {
        if (!parse_element(variable.initialiser.emplace_back()))
            return false;
    } while (accept(","));
    return expect("}", "the initialiser");
}

bool DeclarationParser::parse_variables(Space space, std::vector<Variable> &variables)
{
    Variable first;
    first.space = space;
    if (!parse_type(first))
        return false;
    do {
        Variable &variable = variables.emplace_back(first);
        if (!parse_name_and_size(variable))
            return false;
        if (accept("=") && !parse_initialiser(variable))
            return false;
    } while (accept(","));
    return expect(";", "the variable");
}

} // namespace vgc::ptx
