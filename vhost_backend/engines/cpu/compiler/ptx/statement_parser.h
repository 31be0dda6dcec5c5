// Parser of statements: instructions, declarations, labels, blocks.
#pragma once

#include <vector>

#include "operand_parser.h"

namespace vgc::ptx
{

class StatementParser : public OperandParser
{
  protected:
    using OperandParser::OperandParser;
    /// Statements up to the end of the text, or to a '}', which is left.
    bool parse_statements(std::vector<Statement> &statements);
    bool parse_statement(Statement &statement);
    bool parse_block(Statement &statement);
    bool parse_directive(Statement &statement);
    bool parse_registers(Registers &registers);
    bool parse_instruction(Statement &statement);
};

} // namespace vgc::ptx
