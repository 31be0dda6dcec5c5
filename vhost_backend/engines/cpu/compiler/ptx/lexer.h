// Words of PTX.
#pragma once

#include <string>
#include <string_view>

#include "syntax.h"

namespace vgc::ptx
{

struct Token {
    enum Kind { WORD, DOTTED, ARGUMENT, INTEGER, FLOAT32, FLOAT64, STRING, SIGN, END, ERROR };
    Kind kind = END;
    Position at;
    std::string text;         // without the dot of DOTTED; message of an ERROR
    uint64_t bits = 0;        // of a literal; number of an argument
    bool is_unsigned = false; // an INTEGER that ends in U, or is too large for 64 bits with a sign
    /// True for the sign `text`, such as "{" or "<<".
    bool is(std::string_view sign) const
    {
        return kind == SIGN && text == sign;
    }
};

/// Cuts a text into tokens. `%` and digits are an operand of an asm statement.
class Lexer
{
  public:
    explicit Lexer(std::string_view text) : text_(text)
    {
    }
    /// Next token; END again and again at the end.
    Token next();

  private:
    char peek(size_t ahead = 0) const;
    void advance(size_t count);
    bool skip_space();
    Token word();
    Token dotted();
    Token number();
    Token hexadecimal_float(size_t digits, Token::Kind kind);
    Token decimal_float(std::string spelling);
    Token string();
    Token sign();
    Token error(std::string text) const;

    std::string_view text_;
    size_t offset_ = 0;
    Position at_;
};

} // namespace vgc::ptx
