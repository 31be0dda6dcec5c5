#include "token_stream.h"

namespace vgc::ptx
{
namespace
{

std::string shown(const Token &token)
{
    if (token.kind == Token::END)
        return token.text;
    const std::string dot = token.kind == Token::DOTTED ? "." : "";
    return "'" + dot + token.text + "'";
}

} // namespace

bool TokenStream::fail(const std::string &expected)
{
    problem_.at = token_.at;
    problem_.text = token_.kind == Token::ERROR ? token_.text : "expected " + expected + ", not " + shown(token_);
    return false;
}

bool TokenStream::accept(std::string_view sign)
{
    if (!token_.is(sign))
        return false;
    advance();
    return true;
}

bool TokenStream::expect(std::string_view sign, const std::string &after)
{
    return accept(sign) || fail("'" + std::string(sign) + "' after " + after);
}

} // namespace vgc::ptx
