// Parser of the declarations of variables, with their types, sizes and initialisers.
#pragma once

#include <span>

#include "operand_parser.h"

namespace vgc::ptx
{

class DeclarationParser : public OperandParser
{
  protected:
    explicit DeclarationParser(std::string_view text);
    /// State space that a directive names; false for other directives.
    static bool space_named(const std::string &name, Space &space);
    /// Type and name of a variable or parameter, after its state space.
    bool parse_variable(Variable &variable);
    /// Variables of one declaration after their state space, up to the semicolon.
    bool parse_variables(Space space, std::vector<Variable> &variables);
    bool parse_registers(Statement &statement);
    bool parse_align(uint64_t &align);
    /// Goes on behind the ')' of a directive's arguments.
    bool skip_arguments();

  private:
    bool parse_range(Registers &registers);
    bool parse_word_of_type(Variable &variable);
    bool parse_type(Variable &variable);
    bool parse_name_and_size(Variable &variable);
    bool parse_initialiser(Variable &variable);
    bool parse_elements(Variable &variable, std::span<const uint64_t> extents, uint64_t index);
    bool parse_element(Operand &operand);
    bool parse_value(Operand &operand);

    uint64_t registers_left_; // that the text may declare
};

} // namespace vgc::ptx
