#include "parser.h"

#include "statement_parser.h"

namespace vgc::ptx
{
namespace
{

class Parser : public StatementParser
{
  public:
    explicit Parser(std::string_view text) : StatementParser(text)
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
};

} // namespace

std::variant<std::vector<Statement>, Problem> parse(std::string_view text)
{
    return Parser(text).run();
}

} // namespace vgc::ptx
