// Macros such as `#define UNROLL #pragma unroll`. nvcc preprocesses a source before it parses it, so that the text of
// such a macro is a directive by then. clang does both at once: the macro gets the text `_Pragma("unroll")`.
#include "arguments.h"

#include "clang/Lex/MacroInfo.h"
#include "clang/Lex/PPCallbacks.h"
#include "clang/Lex/Preprocessor.h"

namespace vgc
{
namespace
{

class MacroPragmas : public clang::PPCallbacks
{
  public:
    explicit MacroPragmas(clang::Preprocessor &preprocessor) : preprocessor_(preprocessor)
    {
    }

    void MacroDefined(const clang::Token &name, const clang::MacroDirective *directive) override
    {
        const clang::MacroInfo &macro = *directive->getMacroInfo();
        if (!macro.isObjectLike() || macro.getNumTokens() < 3 || macro.getReplacementToken(0).isNot(clang::tok::hash) ||
            preprocessor_.getSpelling(macro.getReplacementToken(1)) != "pragma")
            return;
        std::string text;
        for (unsigned i = 2; i < macro.getNumTokens(); i++)
            text += (i == 2 ? "" : " ") + preprocessor_.getSpelling(macro.getReplacementToken(i));
        replace(name, macro, clang::Lexer::Stringify(text));
    }

  private:
    void replace(const clang::Token &name, const clang::MacroInfo &old, const std::string &pragma)
    {
        const clang::SourceLocation at = old.getReplacementToken(0).getLocation();
        clang::Token tokens[4];
        for (clang::Token &token : tokens) {
            token.startToken();
            token.setLocation(at);
            token.setLength(1);
        }
        tokens[0].setKind(clang::tok::identifier);
        tokens[0].setIdentifierInfo(preprocessor_.getIdentifierInfo("_Pragma"));
        tokens[0].setLength(7);
        tokens[1].setKind(clang::tok::l_paren);
        tokens[2].setKind(clang::tok::string_literal);
        preprocessor_.CreateString("\"" + pragma + "\"", tokens[2], at, at);
        tokens[3].setKind(clang::tok::r_paren);
        clang::MacroInfo *made = preprocessor_.AllocateMacroInfo(old.getDefinitionLoc());
        made->setDefinitionEndLoc(old.getDefinitionEndLoc());
        made->setTokens(tokens, preprocessor_.getPreprocessorAllocator());
        preprocessor_.appendDefMacroDirective(name.getIdentifierInfo(), made);
    }

    clang::Preprocessor &preprocessor_;
};

} // namespace

void watch_macros(clang::Preprocessor &preprocessor)
{
    preprocessor.addPPCallbacks(std::make_unique<MacroPragmas>(preprocessor));
}

} // namespace vgc
