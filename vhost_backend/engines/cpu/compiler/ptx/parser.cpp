#include "parser.h"

#include "lexer.h"

namespace vgc::ptx
{
namespace
{

const unsigned MAX_DEPTH = 64; // of blocks, vectors and parentheses
const unsigned MAX_REGISTERS = 4096;

std::string shown(const Token &token)
{
    if (token.kind == Token::END)
        return token.text;
    const std::string dot = token.kind == Token::DOTTED ? "." : "";
    return "'" + dot + token.text + "'";
}

/// Recursive descent over the tokens. Functions return false after an error, of which the first is kept.
class Parser
{
  public:
    explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next())
    {
    }

    std::variant<std::vector<Statement>, Problem> run()
    {
        std::vector<Statement> statements;
        if (!parse_statements(statements))
            return problem_;
        if (token_.kind != Token::END && !fail("a statement"))
            return problem_;
        return statements;
    }

  private:
    bool fail(const std::string &expected)
    {
        problem_.at = token_.at;
        problem_.text = token_.kind == Token::ERROR ? token_.text : "expected " + expected + ", not " + shown(token_);
        return false;
    }

    void advance()
    {
        token_ = lexer_.next();
    }

    bool accept(std::string_view sign)
    {
        if (!token_.is(sign))
            return false;
        advance();
        return true;
    }

    bool expect(std::string_view sign, const std::string &after)
    {
        return accept(sign) || fail("'" + std::string(sign) + "' after " + after);
    }

    /// Statements up to the end of the text, or to a '}', which is left.
    bool parse_statements(std::vector<Statement> &statements)
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

    bool parse_statement(Statement &statement)
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

    bool parse_block(Statement &statement)
    {
        statement.kind = Statement::BLOCK;
        if (++depth_ > MAX_DEPTH)
            return fail("fewer nested blocks");
        if (!parse_statements(statement.body))
            return false;
        depth_--;
        return expect("}", "the statements of a block");
    }

    bool parse_directive(Statement &statement)
    {
        if (token_.text == "pragma" || token_.text == "loc" || token_.text == "file") {
            statement.kind = Statement::BLOCK; // without statements
            while (!token_.is(";") && token_.kind != Token::END && token_.kind != Token::ERROR)
                advance();
            return expect(";", "the directive");
        }
        if (token_.text != "reg")
            return fail("'.reg'");
        advance();
        statement.kind = Statement::REGISTERS;
        while (token_.kind == Token::DOTTED) {
            statement.modifiers.push_back(token_.text);
            advance();
        }
        if (statement.modifiers.empty())
            return fail("a type after '.reg'");
        do {
            if (!parse_registers(statement.registers.emplace_back()))
                return false;
        } while (accept(","));
        return expect(";", "the registers' names");
    }

    bool parse_registers(Registers &registers)
    {
        if (token_.kind != Token::WORD)
            return fail("a register's name");
        registers.name = token_.text;
        advance();
        if (!accept("<"))
            return true;
        if (token_.kind != Token::INTEGER || token_.bits == 0 || token_.bits > MAX_REGISTERS)
            return fail("a number of registers, 1 to " + std::to_string(MAX_REGISTERS));
        registers.count = unsigned(token_.bits);
        advance();
        return expect(">", "the number of registers");
    }

    bool parse_instruction(Statement &statement)
    {
        while (token_.kind == Token::DOTTED) {
            statement.modifiers.push_back(token_.text);
            advance();
        }
        if (!token_.is(";") && token_.kind != Token::END && !token_.is("}"))
            do {
                if (!parse_operand(statement.operands.emplace_back()))
                    return false;
            } while (accept(","));
        // ptxas takes the last statement without a semicolon
        return token_.kind == Token::END || expect(";", "'" + statement.name + "'");
    }

    bool parse_operand(Operand &operand)
    {
        if (!parse_single(operand))
            return false;
        if (!token_.is("|") || operand.kind > Operand::NAME)
            return operand.kind != Operand::SINK || !token_.is("|") || parse_second(operand);
        return parse_second(operand);
    }

    bool parse_second(Operand &operand)
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

    bool parse_single(Operand &operand)
    {
        operand.at = token_.at;
        operand.inverted = accept("!");
        switch (token_.kind) {
        case Token::ARGUMENT:
            operand.kind = Operand::ARGUMENT;
            operand.bits = token_.bits;
            advance();
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

    bool parse_name(Operand &operand)
    {
        operand.kind = token_.text == "_" ? Operand::SINK : Operand::NAME;
        operand.name = token_.text;
        advance();
        if (operand.name == "WARP_SZ") {
            operand.kind = Operand::INTEGER;
            operand.bits = 32;
        }
        while (operand.kind == Operand::NAME && token_.kind == Token::DOTTED) {
            operand.name += "." + token_.text;
            advance();
        }
        return true;
    }

    bool parse_list(Operand &operand, Operand::Kind kind, std::string_view end, const std::string &what)
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

    /// An address after its '['.
    bool parse_address(Operand &operand)
    {
        operand.kind = Operand::ADDRESS;
        if (++depth_ > MAX_DEPTH)
            return fail("fewer nested operands");
        if (!parse_single(operand.parts.emplace_back()))
            return false;
        if (token_.is("+") || token_.is("-")) {
            uint64_t offset = 0;
            const bool negative = token_.is("-");
            advance();
            if (!parse_sum(offset))
                return false;
            operand.offset = int64_t(negative ? 0 - offset : offset);
        }
        while (accept(","))
            if (!parse_operand(operand.parts.emplace_back()))
                return false;
        depth_--;
        return expect("]", "the address");
    }

    bool parse_float(Operand &operand, bool negative)
    {
        const bool single = token_.kind == Token::FLOAT32;
        operand.kind = single ? Operand::FLOAT32 : Operand::FLOAT64;
        operand.bits = token_.bits ^ (negative ? single ? 1ull << 31 : 1ull << 63 : 0);
        advance();
        return true;
    }

    bool parse_number(Operand &operand)
    {
        if (token_.is("-")) {
            advance();
            if (token_.kind == Token::FLOAT32 || token_.kind == Token::FLOAT64)
                return parse_float(operand, true);
            uint64_t value = 0;
            operand.kind = Operand::INTEGER;
            if (!parse_unary(value))
                return false;
            operand.bits = 0 - value;
            return parse_rest(operand.bits, 0);
        }
        operand.kind = Operand::INTEGER;
        return parse_sum(operand.bits);
    }

    bool parse_sum(uint64_t &value)
    {
        return parse_unary(value) && parse_rest(value, 0);
    }

    static int strength(const Token &token)
    {
        if (token.is("*") || token.is("/") || token.is("%"))
            return 5;
        if (token.is("+") || token.is("-"))
            return 4;
        if (token.is("<<") || token.is(">>"))
            return 3;
        return token.is("&") ? 2 : token.is("^") || token.is("|") ? 1 : 0;
    }

    /// Operators that bind more strongly than `above`, and their right sides.
    bool parse_rest(uint64_t &value, int above)
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
            value = apply(sign.text[0], value, right);
        }
        return true;
    }

    static uint64_t apply(char sign, uint64_t left, uint64_t right)
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

    bool parse_unary(uint64_t &value)
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
            good = parse_sum(value) && expect(")", "the expression");
        } else if (token_.kind == Token::INTEGER || (token_.kind == Token::WORD && token_.text == "WARP_SZ")) {
            value = token_.kind == Token::INTEGER ? token_.bits : 32;
            advance();
        } else {
            good = fail("an integer");
        }
        depth_--;
        return good;
    }

    Lexer lexer_;
    Token token_;
    Problem problem_;
    unsigned depth_ = 0;
};

} // namespace

std::variant<std::vector<Statement>, Problem> parse(std::string_view text)
{
    return Parser(text).run();
}

} // namespace vgc::ptx
