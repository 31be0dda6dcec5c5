#include "declaration_parser.h"

#include <array>
#include <bit>

namespace vgc::ptx
{
namespace
{

const uint64_t MAX_REGISTERS = 1 << 17; // of a short text
const uint64_t BYTES_OF_REGISTER = 16;  // of a text that has more: compilers declare a register for each instruction
const uint64_t MAX_ALIGN = 4096;
const uint64_t MAX_ELEMENTS = 1ull << 31;
const size_t MAX_DIMENSIONS = 16; // also bounds the depth of braces
const unsigned BYTE = 0xFF;

uint64_t product(std::span<const uint64_t> extents)
{
    uint64_t found = 1;
    for (const uint64_t extent : extents)
        found *= extent;
    return found;
}

} // namespace

DeclarationParser::DeclarationParser(std::string_view text)
    : OperandParser(text), registers_left_(MAX_REGISTERS + text.size() / BYTES_OF_REGISTER)
{
}

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
    if (token_.kind != Token::INTEGER || token_.bits == 0 || token_.bits > registers_left_)
        return fail("a number of registers, 1 to " + std::to_string(registers_left_) + " here");
    registers.count = unsigned(token_.bits);
    registers_left_ -= registers.count;
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
    uint64_t elements = 1; // of the array, or of one row of an array without a size
    while (accept("[")) {
        uint64_t count = 0;
        if (!token_.is("]") && !parse_sum(count))
            return false;
        if (count == 0 && variable.is_array)
            return fail("a number of elements");
        if (count > MAX_ELEMENTS / elements)
            return fail("at most " + std::to_string(MAX_ELEMENTS) + " elements");
        if (variable.dimensions.size() == MAX_DIMENSIONS)
            return fail("at most " + std::to_string(MAX_DIMENSIONS) + " dimensions");
        elements *= std::max<uint64_t>(1, count);
        variable.count *= count;
        variable.dimensions.push_back(count);
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
bool DeclarationParser::parse_value(Operand &operand)
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

/// Value, or a byte of an address: `0xFF00(name)`.
bool DeclarationParser::parse_element(Operand &operand)
{
    if (!parse_value(operand))
        return false;
    if (operand.kind != Operand::INTEGER || !token_.is("("))
        return true;
    const uint64_t mask = operand.bits;
    const int shift = mask == 0 ? 0 : std::countr_zero(mask);
    if (mask >> shift != BYTE || shift % 8 != 0)
        return fail("a mask of one byte, such as 0xFF00, before");
    advance();
    operand = {};
    if (!parse_value(operand))
        return false;
    operand.mask = mask;
    return (operand.kind == Operand::NAME || fail("a name before")) && expect(")", "the variable's name");
}

/// Elements in braces, those from `index` on. Rows may have braces of their own, and need not be full then.
bool DeclarationParser::parse_elements(Variable &variable, std::span<const uint64_t> extents, uint64_t index)
{
    const uint64_t row = product(extents.subspan(1));
    const uint64_t end = extents[0] == 0 ? MAX_ELEMENTS : index + row * extents[0];
    uint64_t next = index;
    do {
        if (next >= end)
            return fail("at most " + std::to_string(end - index) + " elements");
        if (extents.size() > 1 && accept("{")) {
            if ((next - index) % row != 0)
                return fail("a number or a name in the midst of a row");
            if (!parse_elements(variable, extents.subspan(1), next))
                return false;
            next += row;
        } else {
            variable.initialiser.push_back({next++, {}});
            if (!parse_element(variable.initialiser.back().value))
                return false;
        }
    } while (accept(","));
    return expect("}", "the initialiser");
}

bool DeclarationParser::parse_initialiser(Variable &variable)
{
    if (!accept("{")) {
        variable.initialiser.push_back({0, {}});
        return parse_element(variable.initialiser.back().value);
    }
    std::vector<uint64_t> extents = variable.dimensions;
    if (variable.vector > 1 || extents.empty())
        extents.push_back(variable.vector);
    if (!parse_elements(variable, extents, 0))
        return false;
    if (variable.count == 0) { // as many rows as there are
        const uint64_t row = product(std::span(extents).subspan(1));
        variable.count = (variable.initialiser.back().index / row + 1) * row / variable.vector;
    }
    return true;
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
