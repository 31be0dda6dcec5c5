#include "brackets.h"
#include "process.h"

namespace mynvcc
{
namespace
{

/// Position behind a literal or comment that begins at `at`; `at` for other text.
size_t behind_opaque(const std::string &line, size_t at)
{
    if (line.compare(at, 2, "//") == 0)
        return line.size();
    if (line[at] != '"' && (line[at] != '\'' || (at > 0 && isalnum(static_cast<unsigned char>(line[at - 1])))))
        return at;
    size_t end = at + 1;
    while (end < line.size() && line[end] != line[at])
        end += line[end] == '\\' ? 2 : 1;
    return std::min(end + 1, line.size());
}

/// Joins the brackets of one line; true if there were any.
bool join_line(std::string &line)
{
    bool joined = false;
    for (size_t at = 0; at + 3 < line.size();) {
        if (const size_t end = behind_opaque(line, at); end != at) {
            at = end;
            continue;
        }
        const char bracket = line[at];
        const size_t next = line.find_first_not_of(" \t", at + 2);
        const bool is_spaced = (bracket == '<' || bracket == '>') && line[at + 1] == bracket && next > at + 2 &&
                               next != std::string::npos && line[next] == bracket;
        const size_t before = line.find_last_not_of(" \t", at - (at > 0));
        const bool is_operator = before != std::string::npos && ends_with(line.substr(0, before + 1), "operator");
        if (!is_spaced || is_operator) {
            at++;
            continue;
        }
        std::swap(line[at + 2], line[next]);
        at += 3;
        joined = true;
    }
    return joined;
}

/// Writes `__shared__ alignas(16)` with C's word; true if there was one.
bool replace_alignas(std::string &line)
{
    static const std::string WORD = "alignas";
    bool replaced = false;
    for (size_t at = 0; (at = line.find(WORD, at)) != std::string::npos; at += WORD.size()) {
        const size_t behind = line.find_first_not_of(" \t", at + WORD.size());
        const size_t blank = at == 0 ? std::string::npos : line.find_last_not_of(" \t", at - 1);
        if (behind == std::string::npos || line[behind] != '(' || blank == std::string::npos || blank + 1 == at)
            continue;
        const std::string before = line.substr(0, blank + 1);
        for (const char *space : {"__shared__", "__constant__", "__device__", "__managed__"}) {
            if (ends_with(before, space)) {
                line.replace(at, WORD.size(), "_Alignas");
                replaced = true;
                break;
            }
        }
    }
    return replaced;
}

} // namespace

bool has_nvccs_syntax(const std::string &text)
{
    for (std::string &line : split(text, '\n'))
        if ((line.find("<< ") != std::string::npos && join_line(line)) || replace_alignas(line))
            return true;
    return false;
}

std::string in_clangs_syntax(const std::string &rewritten)
{
    std::string result;
    bool is_system = false;
    for (std::string &line : split(rewritten, '\n')) {
        if (starts_with(line, "# ") && line.find('"') != std::string::npos) {
            is_system = line.find('3', line.rfind('"')) != std::string::npos;
        } else if (!is_system) {
            join_line(line);
            replace_alignas(line);
        }
        result += line + '\n';
    }
    return result;
}

} // namespace mynvcc
