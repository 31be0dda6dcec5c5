// Parser of statements: instructions, declarations, labels, blocks.
#pragma once

#include <vector>

#include "declaration_parser.h"

namespace vgc::ptx
{

class StatementParser : public DeclarationParser
{
  protected:
    using DeclarationParser::DeclarationParser;
    /// Statements up to the end of the text, or to a '}', which is left.
    bool parse_statements(std::vector<Statement> &statements);
    bool parse_statement(Statement &statement);
    bool parse_block(Statement &statement);
    bool parse_directive(Statement &statement);
    /// True for directives that say nothing of what statements do.
    static bool is_note(const std::string &directive);
    bool skip_note();
    bool parse_number_of(const std::string &directive, uint64_t &value);

  private:
    bool parse_source(Statement &statement);
    bool parse_instruction(Statement &statement);
    bool parse_arguments(Operand &operand);
};

} // namespace vgc::ptx
