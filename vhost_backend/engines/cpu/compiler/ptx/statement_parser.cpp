#include "statement_parser.h"

namespace vgc::ptx
{
namespace
{

const unsigned MAX_REGISTERS = 4096;

} // namespace

bool StatementParser::parse_statements(std::vector<Statement> &statements)
{
    while (token_.kind != Token::END && !token_.is("}")) {
        if (accept(";"))
            continue;
        statements.emplace_back().at = token_.at;
        if (!parse_statement(statements.back()))
            return false;
    }
    return true;
}

bool StatementParser::parse_statement(Statement &statement)
{
    if (accept("{"))
        return parse_block(statement);
    if (token_.kind == Token::DOTTED)
        return parse_directive(statement);
    if (accept("@")) {
        statement.guard.emplace();
        statement.guard->inverted = accept("!");
        if (token_.kind != Token::WORD && token_.kind != Token::ARGUMENT)
            return fail("a predicate after '@'");
        const bool inverted = statement.guard->inverted;
        if (!parse_operand(*statement.guard))
            return false;
        statement.guard->inverted = inverted;
    }
    if (token_.kind != Token::WORD)
        return fail("an instruction, a declaration or a label");
    statement.name = token_.text;
    advance();
    if (!statement.guard && accept(":")) {
        statement.kind = Statement::LABEL;
        return true;
    }
    return parse_instruction(statement);
}

bool StatementParser::parse_block(Statement &statement)
{
    statement.kind = Statement::BLOCK;
    if (++depth_ > MAX_DEPTH)
        return fail("fewer nested blocks");
    if (!parse_statements(statement.body))
        return false;
    depth_--;
    return expect("}", "the statements of a block");
}

bool StatementParser::parse_directive(Statement &statement)
{
    if (token_.text == "pragma" || token_.text == "loc" || token_.text == "file") {
        statement.kind = Statement::BLOCK; // without statements
        while (!token_.is(";") && token_.kind != Token::END && token_.kind != Token::ERROR)
            advance();
        return expect(";", "the directive");
    }
    if (token_.text != "reg")
        return fail("'.reg'");
    advance();
    statement.kind = Statement::REGISTERS;
    while (token_.kind == Token::DOTTED) {
        statement.modifiers.push_back(token_.text);
        advance();
    }
    if (statement.modifiers.empty())
        return fail("a type after '.reg'");
    do {
        if (!parse_registers(statement.registers.emplace_back()))
            return false;
    } while (accept(","));
    return expect(";", "the registers' names");
}

bool StatementParser::parse_registers(Registers &registers)
{
    if (token_.kind != Token::WORD)
        return fail("a register's name");
    registers.name = token_.text;
    advance();
    if (!accept("<"))
        return true;
    if (token_.kind != Token::INTEGER || token_.bits == 0 || token_.bits > MAX_REGISTERS)
        return fail("a number of registers, 1 to " + std::to_string(MAX_REGISTERS));
    registers.count = unsigned(token_.bits);
    advance();
    return expect(">", "the number of registers");
}

bool StatementParser::parse_instruction(Statement &statement)
{
    while (token_.kind == Token::DOTTED) {
        statement.modifiers.push_back(token_.text);
        advance();
    }
    if (!token_.is(";") && token_.kind != Token::END && !token_.is("}"))
        do {
            if (!parse_operand(statement.operands.emplace_back()))
                return false;
        } while (accept(","));
    // ptxas takes the last statement without a semicolon
    return token_.kind == Token::END || expect(";", "'" + statement.name + "'");
}

} // namespace vgc::ptx
