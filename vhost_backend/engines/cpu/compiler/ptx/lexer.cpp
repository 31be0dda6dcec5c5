#include "lexer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vgc::ptx
{
namespace
{

bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

/// Value of a digit, 99 for other characters.
unsigned digit_value(char c)
{
    if (is_digit(c))
        return unsigned(c - '0');
    if (c >= 'a' && c <= 'f')
        return unsigned(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return unsigned(c - 'A') + 10;
    return 99;
}

} // namespace

char Lexer::peek(size_t ahead) const
{
    return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
}

void Lexer::advance(size_t count)
{
    for (; count > 0 && offset_ < text_.size(); count--) {
        at_.column++;
        if (text_[offset_++] == '\n')
            at_ = {at_.line + 1, 1};
    }
}

Token Lexer::error(std::string text) const
{
    return {Token::ERROR, at_, std::move(text), 0};
}

/// Skips white space and comments; false at a comment without an end.
bool Lexer::skip_space()
{
    for (;;) {
        if (peek() != '\0' && strchr(" \t\r\n\v\f", peek()) != nullptr) {
            advance(1);
        } else if (peek() == '/' && peek(1) == '/') {
            while (offset_ < text_.size() && peek() != '\n')
                advance(1);
        } else if (peek() == '/' && peek(1) == '*') {
            const size_t end = text_.find("*/", offset_ + 2);
            if (end == text_.npos)
                return false;
            advance(end + 2 - offset_);
        } else {
            return true;
        }
    }
}

Token Lexer::next()
{
    if (!skip_space())
        return error("a comment has no end");
    if (offset_ >= text_.size())
        return {Token::END, at_, "the end", 0};
    if (is_digit(peek()))
        return number();
    if (peek() == '.' && is_word(peek(1)))
        return dotted();
    if (is_word(peek()) || peek() == '%')
        return word();
    if (peek() == '"')
        return string();
    return sign();
}

Token Lexer::word()
{
    Token token{Token::WORD, at_, std::string(1, peek()), 0};
    const bool percent = peek() == '%';
    advance(1);
    while (is_word(peek())) {
        token.text += peek();
        advance(1);
    }
    if (!percent)
        return token;
    if (token.text.size() == 1) // modulo, in a constant expression
        return {Token::SIGN, token.at, "%", 0};
    if (token.text.find_first_not_of("0123456789", 1) == std::string::npos) {
        token.kind = Token::ARGUMENT;
        token.bits = token.text.size() > 4 ? 9999 : strtoull(token.text.c_str() + 1, nullptr, 10);
    }
    return token;
}

Token Lexer::dotted()
{
    Token token{Token::DOTTED, at_, "", 0};
    advance(1);
    for (;;) {
        if (is_word(peek())) {
            token.text += peek();
            advance(1);
        } else if (peek() == ':' && peek(1) == ':' && is_word(peek(2))) {
            token.text += "::";
            advance(2);
        } else {
            return token;
        }
    }
}

Token Lexer::hexadecimal_float(size_t digits, Token::Kind kind)
{
    Token token{kind, at_, std::string(text_.substr(offset_, 2 + digits)), 0};
    for (size_t i = 0; i < digits; i++) {
        const unsigned digit = digit_value(peek(2 + i));
        if (digit > 15)
            return error("a float needs " + std::to_string(digits) + " hexadecimal digits");
        token.bits = token.bits << 4 | digit;
    }
    if (is_word(peek(2 + digits)))
        return error("a float needs " + std::to_string(digits) + " hexadecimal digits");
    advance(2 + digits);
    return token;
}

Token Lexer::decimal_float(std::string spelling)
{
    Token token{Token::FLOAT64, at_, spelling, 0};
    const double value = strtod(spelling.c_str(), nullptr);
    memcpy(&token.bits, &value, sizeof value);
    advance(spelling.size());
    return token;
}

Token Lexer::number()
{
    if (peek() == '0' && (peek(1) == 'f' || peek(1) == 'F'))
        return hexadecimal_float(8, Token::FLOAT32);
    if (peek() == '0' && (peek(1) == 'd' || peek(1) == 'D'))
        return hexadecimal_float(16, Token::FLOAT64);
    const bool hexadecimal = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    const bool binary = peek() == '0' && (peek(1) == 'b' || peek(1) == 'B');
    const unsigned base = hexadecimal ? 16 : binary ? 2 : peek() == '0' ? 8 : 10;
    size_t size = hexadecimal || binary ? 2 : 0;
    const size_t begin = size;
    while (digit_value(peek(size)) < (hexadecimal ? 16 : 10))
        size++;
    if (!hexadecimal && ((peek(size) == '.' && is_digit(peek(size + 1))) || peek(size) == 'e' || peek(size) == 'E')) {
        const char *text = text_.data() + offset_;
        const std::string spelling(text, text_.size() - offset_ < 64 ? text_.size() - offset_ : 64);
        char *end = nullptr;
        strtod(spelling.c_str(), &end);
        return decimal_float(spelling.substr(0, size_t(end - spelling.c_str())));
    }
    Token token{Token::INTEGER, at_, std::string(text_.substr(offset_, size)), 0};
    for (size_t i = begin; i < size; i++) {
        const unsigned digit = digit_value(peek(i));
        if (digit >= base)
            return error("'" + token.text + "' has a digit that is too large");
        if (token.bits > (UINT64_MAX - digit) / base)
            return error("'" + token.text + "' has more than 64 bits");
        token.bits = token.bits * base + digit;
    }
    if (size == begin && begin > 0)
        return error("'" + token.text + "' has no digits");
    token.is_unsigned = peek(size) == 'U' || token.bits > uint64_t(INT64_MAX);
    size += peek(size) == 'U' ? 1 : 0;
    if (is_word(peek(size)))
        return error("'" + std::string(text_.substr(offset_, size + 1)) + "' is no number");
    advance(size);
    return token;
}

Token Lexer::string()
{
    const size_t end = text_.find('"', offset_ + 1);
    if (end == text_.npos)
        return error("a string has no end");
    Token token{Token::STRING, at_, std::string(text_.substr(offset_, end + 1 - offset_)), 0};
    advance(token.text.size());
    return token;
}

Token Lexer::sign()
{
    for (const char *two : {"<<", ">>", "&&", "||", "==", "!=", "<=", ">="})
        if (peek() == two[0] && peek(1) == two[1]) {
            Token token{Token::SIGN, at_, two, 0};
            advance(2);
            return token;
        }
    if (strchr("{}[]()<>,;:@!|+-*/&^~=?", peek()) == nullptr) {
        char text[32];
        snprintf(text, sizeof text, peek() > ' ' && peek() < 127 ? "'%c'" : "character %d", int(uint8_t(peek())));
        return error(std::string(text) + " has no meaning in PTX");
    }
    Token token{Token::SIGN, at_, std::string(1, peek()), 0};
    advance(1);
    return token;
}

} // namespace vgc::ptx
