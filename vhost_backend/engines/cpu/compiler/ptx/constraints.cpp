// clang takes inline PTX while it compiles for x86. The letters of PTX constraints (h: 16 bits,
// f: float, d: double, q: 128 bits, C: text) are unknown for x86, or mean a single register there, and clang refuses
// the statement or its types; so it does registers with one percent sign. They are replaced by letters of x86 that take
// such values, one for each, so that statement.cpp knows what they were. Statements in x86 assembly are left as they
// are.
//
// Tokens are changed on their way from the preprocessor to the parser: macros are expanded then, and messages still
// show the source as it was written.
#include "constraints.h"
#include "dialect.h"

#include "clang/Lex/LiteralSupport.h"
#include "clang/Lex/Preprocessor.h"
#include "llvm/ADT/StringExtras.h"

namespace vgc::ptx
{
namespace
{

/// Letter of x86 for a PTX constraint's letter.
char letter_for_x86(char letter)
{
    switch (letter) {
    case 'h':
        return 'R';
    case 'f':
        return 'x';
    case 'd':
        return 'v';
    case 'C':
        return 'Q';
    default:
        return letter; // r, l, q and n are letters of x86, too
    }
}

/// Follows the tokens of asm statements.
class Constraints
{
  public:
    explicit Constraints(clang::Preprocessor &preprocessor) : preprocessor_(preprocessor)
    {
    }

    /// Takes the next token that the parser will get; changes it if it is a constraint of PTX.
    void take(clang::Token &token)
    {
        if (token.is(clang::tok::kw_asm)) {
            text_.clear();
            state_ = AFTER_KEYWORD;
        } else if (state_ == AFTER_KEYWORD) {
            if (token.is(clang::tok::l_paren))
                state_ = TEXT;
            else if (!token.isOneOf(clang::tok::kw_volatile, clang::tok::kw_inline))
                state_ = OUTSIDE;
        } else if (state_ == TEXT) {
            take_text(token);
        } else if (state_ == OPERANDS) {
            take_operand(token);
        }
    }

  private:
    enum State { OUTSIDE, AFTER_KEYWORD, TEXT, OPERANDS };

    void take_text(clang::Token &token)
    {
        if (clang::tok::isStringLiteral(token.getKind())) {
            text_.push_back(token);
            if (is_ptx())
                escape_registers(token);
        } else if (token.isOneOf(clang::tok::colon, clang::tok::coloncolon) && is_ptx()) {
            state_ = OPERANDS;
            depth_ = 0;
            section_ = 0;
            ends_operand_ = false;
            count_section(token);
        } else {
            state_ = OUTSIDE;
        }
    }

    bool is_ptx()
    {
        if (text_.empty())
            return false;
        const clang::StringLiteralParser literal(text_, preprocessor_, clang::StringLiteralEvalMethod::Unevaluated);
        const std::string_view text(literal.GetString());
        return !literal.hadError && (vgc::ptx::is_ptx(text) || is_blank(text));
    }

    /// Doubles the percent sign of `%tid.x`: nvcc takes it alone, too.
    void escape_registers(clang::Token &token)
    {
        const std::string before = preprocessor_.getSpelling(token);
        std::string after;
        for (size_t i = 0; i < before.size(); i++) {
            after += before[i];
            if (before[i] != '%' || i + 1 == before.size())
                continue;
            if (before[i + 1] == '%')
                after += before[++i];
            else if (llvm::isAlpha(before[i + 1]))
                after += '%';
        }
        respell(token, before, after);
    }

    void count_section(const clang::Token &token)
    {
        section_ += token.is(clang::tok::coloncolon) ? 2 : 1;
        if (section_ > 2)
            state_ = OUTSIDE; // clobbers
    }

    void take_operand(clang::Token &token)
    {
        if (token.isOneOf(clang::tok::l_paren, clang::tok::l_brace, clang::tok::l_square))
            depth_++;
        else if (token.isOneOf(clang::tok::r_paren, clang::tok::r_brace, clang::tok::r_square))
            state_ = depth_-- == 0 ? OUTSIDE : state_;
        else if (depth_ == 0 && token.isOneOf(clang::tok::colon, clang::tok::coloncolon))
            count_section(token);
        else if (depth_ == 0 && token.is(clang::tok::string_literal))
            take_constraint(token);
        else if (token.is(clang::tok::eof))
            state_ = OUTSIDE;
        ends_operand_ = state_ == OPERANDS && depth_ == 0 && token.is(clang::tok::r_paren);
    }

    /// Puts a comma before a constraint that follows an operand without one, as nvcc does.
    void take_constraint(clang::Token &token)
    {
        replace(token);
        if (!ends_operand_)
            return;
        preprocessor_.EnterToken(token, true);
        token.startToken();
        token.setKind(clang::tok::comma);
        token.setLocation(preprocessor_.LookAhead(0).getLocation());
        token.setLength(1);
    }

    void replace(clang::Token &token)
    {
        const std::string before = preprocessor_.getSpelling(token);
        std::string after = before;
        for (char &letter : after)
            letter = letter_for_x86(letter);
        respell(token, before, after);
    }

    void respell(clang::Token &token, const std::string &before, const std::string &after)
    {
        if (after == before || before[0] != '"')
            return;
        char *spelling = static_cast<char *>(preprocessor_.getPreprocessorAllocator().Allocate(after.size() + 1, 1));
        memcpy(spelling, after.c_str(), after.size() + 1);
        token.setLiteralData(spelling);
        token.setLength(unsigned(after.size()));
        token.clearFlag(clang::Token::NeedsCleaning);
    }

    clang::Preprocessor &preprocessor_;
    llvm::SmallVector<clang::Token, 4> text_;
    State state_ = OUTSIDE;
    unsigned depth_ = 0;
    unsigned section_ = 0;
    bool ends_operand_ = false; // the last token was the end of one
};

} // namespace

std::function<void(clang::Token &)> constraints_translator(clang::Preprocessor &preprocessor)
{
    auto constraints = std::make_shared<Constraints>(preprocessor);
    return [constraints](clang::Token &token) { constraints->take(token); };
}

} // namespace vgc::ptx
