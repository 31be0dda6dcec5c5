#include "operand_parser.h"

namespace vgc::ptx
{
namespace
{

const int PRODUCTS = 6; // strength of the strongest operators
const int SUMS = 5;

int strength(const Token &token)
{
    if (token.is("*") || token.is("/") || token.is("%"))
        return PRODUCTS;
    if (token.is("+") || token.is("-"))
        return SUMS;
    if (token.is("<<") || token.is(">>"))
        return 4;
    return token.is("&") ? 3 : token.is("^") ? 2 : token.is("|") ? 1 : 0;
}

/// Operation on numbers without sign.
uint64_t apply_unsigned(char sign, uint64_t left, uint64_t right)
{
    switch (sign) {
    case '*':
        return left * right;
    case '/':
        return left / right;
    case '%':
        return left % right;
    case '+':
        return left + right;
    case '-':
        return left - right;
    case '<':
        return right < 64 ? left << right : 0;
    case '>':
        return right < 64 ? left >> right : 0;
    case '&':
        return left & right;
    default:
        return sign == '^' ? left ^ right : left | right;
    }
}

/// Operation on numbers with sign. The least number divided by -1 is itself, as on a GPU.
uint64_t apply_signed(char sign, uint64_t left, uint64_t right)
{
    const int64_t number = int64_t(left), by = int64_t(right);
    if (sign == '>')
        return uint64_t(number >> (right < 64 ? right : 63));
    if (sign == '/')
        return by == -1 ? 0 - left : uint64_t(number / by);
    if (sign == '%')
        return by == -1 ? 0 : uint64_t(number % by);
    return apply_unsigned(sign, left, right);
}

} // namespace

bool OperandParser::parse_operand(Operand &operand)
{
    if (!parse_single(operand))
        return false;
    if (operand.kind == Operand::NAME && !parse_offset(operand))
        return false;
    if (!token_.is("|") || operand.kind > Operand::NAME)
        return operand.kind != Operand::SINK || !token_.is("|") || parse_second(operand);
    return parse_second(operand);
}

bool OperandParser::parse_offset(Operand &operand)
{
    if (!token_.is("+") && !token_.is("-"))
        return true;
    uint64_t offset = 0;
    has_unsigned_ = false;
    if (!parse_rest(offset, 0))
        return false;
    operand.offset = int64_t(offset);
    return true;
}

bool OperandParser::parse_second(Operand &operand)
{
    Operand pair;
    pair.kind = Operand::PAIR;
    pair.at = operand.at;
    pair.parts.push_back(operand);
    advance();
    if (!parse_single(pair.parts.emplace_back()))
        return false;
    operand = std::move(pair);
    return true;
}

bool OperandParser::parse_single(Operand &operand)
{
    operand.at = token_.at;
    operand.inverted = accept("!");
    switch (token_.kind) {
    case Token::ARGUMENT:
        operand.kind = Operand::ARGUMENT;
        operand.bits = token_.bits;
        advance();
        parse_parts_of_name(operand);
        return true;
    case Token::WORD:
        return parse_name(operand);
    case Token::FLOAT32:
    case Token::FLOAT64:
        return parse_float(operand, false);
    case Token::INTEGER:
        return parse_number(operand);
    default:
        break;
    }
    if (accept("{"))
        return parse_list(operand, Operand::VECTOR, "}", "the elements");
    if (accept("["))
        return parse_address(operand);
    if (token_.is("-") || token_.is("+") || token_.is("~") || token_.is("("))
        return parse_number(operand);
    return fail("an operand");
}

bool OperandParser::parse_name(Operand &operand)
{
    operand.kind = token_.text == "_" ? Operand::SINK : Operand::NAME;
    operand.name = token_.text;
    advance();
    if (operand.name == "WARP_SZ") {
        operand.kind = Operand::INTEGER;
        operand.bits = 32;
    }
    if (operand.kind == Operand::NAME)
        parse_parts_of_name(operand);
    if (operand.kind == Operand::NAME && accept("["))
        return parse_sum(operand.index) && expect("]", "the element's number");
    return true;
}

/// Takes what follows a name after dots: an element of a vector, or a part of a register.
void OperandParser::parse_parts_of_name(Operand &operand)
{
    while (token_.kind == Token::DOTTED) {
        operand.name += "." + token_.text;
        advance();
    }
}

bool OperandParser::parse_list(Operand &operand, Operand::Kind kind, std::string_view end, const std::string &what)
{
    operand.kind = kind;
    if (++depth_ > MAX_DEPTH)
        return fail("fewer nested operands");
    do {
        if (!parse_operand(operand.parts.emplace_back()))
            return false;
    } while (accept(","));
    depth_--;
    return expect(end, what);
}

bool OperandParser::parse_address(Operand &operand)
{
    operand.kind = Operand::ADDRESS;
    if (++depth_ > MAX_DEPTH)
        return fail("fewer nested operands");
    if (!parse_single(operand.parts.emplace_back()))
        return false;
    if (!parse_offset(operand))
        return false;
    while (accept(","))
        if (!parse_operand(operand.parts.emplace_back()))
            return false;
    depth_--;
    return expect("]", "the address");
}

bool OperandParser::parse_float(Operand &operand, bool negative)
{
    const bool single = token_.kind == Token::FLOAT32;
    operand.kind = single ? Operand::FLOAT32 : Operand::FLOAT64;
    operand.bits = token_.bits ^ (negative ? single ? 1ull << 31 : 1ull << 63 : 0);
    advance();
    return true;
}

bool OperandParser::parse_number(Operand &operand)
{
    if (token_.is("-")) {
        advance();
        if (token_.kind == Token::FLOAT32 || token_.kind == Token::FLOAT64)
            return parse_float(operand, true);
        uint64_t value = 0;
        operand.kind = Operand::INTEGER;
        has_unsigned_ = false;
        if (!parse_unary(value))
            return false;
        operand.bits = 0 - value;
        return parse_rest(operand.bits, 0);
    }
    operand.kind = Operand::INTEGER;
    return parse_sum(operand.bits);
}

bool OperandParser::parse_sum(uint64_t &value)
{
    has_unsigned_ = false;
    return parse_unary(value) && parse_rest(value, 0);
}

bool OperandParser::parse_rest(uint64_t &value, int above)
{
    while (strength(token_) > above) {
        const Token sign = token_;
        advance();
        uint64_t right = 0;
        if (++depth_ > MAX_DEPTH)
            return fail("a shorter expression");
        if (!parse_unary(right) || !parse_rest(right, strength(sign)))
            return false;
        depth_--;
        if ((sign.is("/") || sign.is("%")) && right == 0)
            return fail("a divisor other than 0");
        value = has_unsigned_ ? apply_unsigned(sign.text[0], value, right) : apply_signed(sign.text[0], value, right);
    }
    return true;
}

bool OperandParser::parse_unary(uint64_t &value)
{
    if (++depth_ > MAX_DEPTH)
        return fail("a shorter expression");
    bool good = true;
    if (accept("-")) {
        good = parse_unary(value);
        value = 0 - value;
    } else if (accept("+")) {
        good = parse_unary(value);
    } else if (accept("~")) {
        good = parse_unary(value);
        value = ~value;
    } else if (accept("(")) {
        good = parse_unary(value) && parse_rest(value, 0) && expect(")", "the expression");
    } else if (token_.kind == Token::INTEGER || (token_.kind == Token::WORD && token_.text == "WARP_SZ")) {
        value = token_.kind == Token::INTEGER ? token_.bits : 32;
        has_unsigned_ |= token_.kind == Token::INTEGER && token_.is_unsigned;
        advance();
    } else {
        good = fail("an integer");
    }
    depth_--;
    return good;
}

} // namespace vgc::ptx
