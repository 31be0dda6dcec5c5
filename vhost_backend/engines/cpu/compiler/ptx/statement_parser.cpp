#include "statement_parser.h"

namespace vgc::ptx
{
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

bool StatementParser::is_note(const std::string &directive)
{
    return directive == "pragma" || directive == "loc" || directive == "file";
}

/// Skips `.pragma "a", "b"`, `.file 1 "name"`, or `.loc 1 2 3, function_name name+4, inlined_at 1 2 3`.
bool StatementParser::skip_note()
{
    advance();
    while (token_.kind == Token::INTEGER || token_.kind == Token::STRING || token_.kind == Token::WORD ||
           token_.is(",") || token_.is("+")) {
        const bool names = token_.kind == Token::WORD;
        if (names && token_.text != "function_name" && token_.text != "inlined_at")
            return true; // the next statement
        const bool is_function = names && token_.text == "function_name";
        advance();
        if (is_function)
            advance();
    }
    return true;
}

bool StatementParser::parse_number_of(const std::string &directive, uint64_t &value)
{
    if (token_.kind != Token::INTEGER)
        return fail("a number after '." + directive + "'");
    value = token_.bits;
    advance();
    return true;
}

/// `.loc 1 2 3` with the numbers of a file, a line and a column.
bool StatementParser::parse_source(Statement &statement)
{
    advance();
    uint64_t line = 0, column = 0;
    if (!parse_number_of("loc", statement.file) || !parse_number_of("loc", line) || !parse_number_of("loc", column))
        return false;
    statement.kind = Statement::SOURCE;
    statement.place = {unsigned(line), unsigned(column)};
    return token_.is(",") ? skip_note() : true;
}

bool StatementParser::parse_directive(Statement &statement)
{
    const std::string directive = token_.text;
    if (directive == "loc")
        return parse_source(statement);
    if (is_note(directive)) {
        statement.kind = Statement::BLOCK; // without statements
        return skip_note();
    }
    if (directive == "callprototype" || directive == "calltargets") {
        statement.kind = Statement::BLOCK; // the types of a call's arguments say the same
        while (!token_.is(";") && token_.kind != Token::END && token_.kind != Token::ERROR)
            advance();
        return expect(";", "the directive");
    }
    if (directive == "branchtargets") {
        advance();
        statement.name = directive;
        statement.kind = Statement::TARGETS;
        return parse_instruction(statement);
    }
    Space space;
    if (!space_named(directive, space))
        return fail("'.reg' or a variable");
    advance();
    if (space == Space::REGISTER) {
        statement.kind = Statement::REGISTERS;
        return parse_registers(statement);
    }
    statement.kind = Statement::VARIABLES;
    return parse_variables(space, statement.variables);
}

bool StatementParser::parse_instruction(Statement &statement)
{
    while (token_.kind == Token::DOTTED) {
        statement.modifiers.push_back(token_.text);
        advance();
    }
    if (!token_.is(";") && token_.kind != Token::END && !token_.is("}"))
        do {
            Operand &operand = statement.operands.emplace_back();
            operand.at = token_.at;
            if (statement.name == "call" && accept("(") ? !parse_arguments(operand) : !parse_operand(operand))
                return false;
        } while (accept(","));
    // ptxas takes the last statement without a semicolon
    return token_.kind == Token::END || expect(";", "'" + statement.name + "'");
}

/// Arguments or results of a call after their '('.
bool StatementParser::parse_arguments(Operand &operand)
{
    operand.kind = Operand::LIST;
    return accept(")") || parse_list(operand, Operand::LIST, ")", "the arguments");
}

} // namespace vgc::ptx
