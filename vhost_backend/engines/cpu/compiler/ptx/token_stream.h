// The tokens of a text, one after the other, and its first error.
#pragma once

#include "lexer.h"

namespace vgc::ptx
{

class TokenStream
{
  protected:
    explicit TokenStream(std::string_view text) : lexer_(text), token_(lexer_.next())
    {
    }
    /// Notes that the token is not what was expected; returns false.
    bool fail(const std::string &expected);
    void advance()
    {
        token_ = lexer_.next();
    }
    /// Takes a sign if it is the next token.
    bool accept(std::string_view sign);
    /// Takes a sign that must be there.
    bool expect(std::string_view sign, const std::string &after);

    Lexer lexer_;
    Token token_;
    Problem problem_;
};

} // namespace vgc::ptx
