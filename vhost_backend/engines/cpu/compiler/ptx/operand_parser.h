// Parser of the operands of instructions.
#pragma once

#include "token_stream.h"

namespace vgc::ptx
{

/// Recursive descent over the tokens. Functions return false after an error, of which the first is kept.
class OperandParser : public TokenStream
{
  protected:
    using TokenStream::TokenStream;
    static constexpr unsigned MAX_DEPTH = 64; // of blocks, vectors and parentheses

    bool parse_operand(Operand &operand);
    bool parse_second(Operand &operand);
    /// Number that is added to a symbol or register, if one is.
    bool parse_offset(Operand &operand);
    bool parse_single(Operand &operand);
    bool parse_name(Operand &operand);
    void parse_parts_of_name(Operand &operand);
    bool parse_list(Operand &operand, Operand::Kind kind, std::string_view end, const std::string &what);
    /// An address after its '['.
    bool parse_address(Operand &operand);
    bool parse_float(Operand &operand, bool negative);
    bool parse_number(Operand &operand);
    bool parse_sum(uint64_t &value);
    /// Operators that bind more strongly than `above`, and their right sides.
    bool parse_rest(uint64_t &value, int above);
    bool parse_unary(uint64_t &value);

    unsigned depth_ = 0;
    bool has_unsigned_ = false; // the constant expression has a number that is too large for a sign, or ends in U
};

} // namespace vgc::ptx
