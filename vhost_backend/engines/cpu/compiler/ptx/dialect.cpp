#include "dialect.h"

#include <algorithm>
#include <array>

namespace vgc::ptx
{
namespace
{

constexpr std::string_view SPACE = " \t\r\n";
constexpr std::string_view WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%";
constexpr std::array<std::string_view, 6> UNDOTTED = {"ret", "exit", "trap", "brkpt", "bra", "activemask"};
constexpr std::array<std::string_view, 5> DIRECTIVES = {".reg", ".pragma", ".loc", ".shared", ".local"};

/// Removes white space, comments and empty statements from the front.
std::string_view skip(std::string_view text)
{
    for (;;) {
        const size_t begin = std::min(text.find_first_not_of(" \t\r\n;"), text.size());
        text.remove_prefix(begin);
        if (text.substr(0, 2) == "//")
            text.remove_prefix(std::min(text.find('\n'), text.size()));
        else if (text.substr(0, 2) == "/*")
            text.remove_prefix(std::min(text.find("*/"), text.size() - 2) + 2);
        else
            return text;
    }
}

std::string_view first_word(std::string_view text)
{
    return text.substr(0, std::min(text.find_first_not_of(WORD), text.size()));
}

bool is_directive(std::string_view text)
{
    return std::any_of(DIRECTIVES.begin(), DIRECTIVES.end(), [&](std::string_view directive) {
        return text.substr(0, directive.size()) == directive && text.size() > directive.size() &&
               SPACE.find(text[directive.size()]) != SPACE.npos;
    });
}

} // namespace

bool is_ptx(std::string_view text)
{
    text = skip(text);
    if (text.empty())
        return false;
    if (text[0] == '{' || text[0] == '@' || is_directive(text))
        return true;
    const std::string_view word = first_word(text);
    std::string_view rest = text.substr(word.size());
    if (!word.empty() && rest.substr(0, 1) == ":" && word.find('%') == word.npos)
        return is_ptx(rest.substr(1));
    if (word.empty() || word[0] == '$')
        return false;
    if (rest.substr(0, 1) == ".") // also of an operand that holds a name: "%1.s32"
        return true;
    if (word[0] == '%')
        return false;
    rest = skip(rest);
    return std::find(UNDOTTED.begin(), UNDOTTED.end(), word) != UNDOTTED.end() &&
           (word == "bra" || text.find(';') != text.npos);
}

bool begins_module(std::string_view text)
{
    const std::string_view directive = ".version";
    text = skip(text);
    return text.substr(0, directive.size()) == directive && text.size() > directive.size() &&
           SPACE.find(text[directive.size()]) != SPACE.npos;
}

std::string_view version_of(std::string_view text)
{
    text = skip(text);
    text = skip(text.substr(std::min(text.find_first_of(SPACE), text.size())));
    return text.substr(0, std::min(text.find_first_not_of("0123456789."), text.size()));
}

bool is_blank(std::string_view text)
{
    return skip(text).empty();
}

} // namespace vgc::ptx
