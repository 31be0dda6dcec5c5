#include "device_launches.h"
#include "process.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace mynvcc
{
namespace
{

const size_t NONE = std::string::npos;

bool is_name(char c)
{
    return isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool has_at(const std::string &text, size_t at, const char *word)
{
    return text.compare(at, std::char_traits<char>::length(word), word) == 0;
}

bool has_word(const std::string &text, const std::string &word)
{
    for (size_t at = text.find(word); at != NONE; at = text.find(word, at + 1))
        if ((at == 0 || !is_name(text[at - 1])) &&
            (at + word.size() == text.size() || !is_name(text[at + word.size()])))
            return true;
    return false;
}

/// Position behind the number at `at`, which may have separators, as 1'000.
size_t behind_number(const std::string &text, size_t at)
{
    while (at < text.size() &&
           (is_name(text[at]) || (text[at] == '\'' && at + 1 < text.size() && is_name(text[at + 1]))))
        at++;
    return at;
}

/// Position behind the name, number, comment or literal that begins at `at`; `at` for other text.
size_t behind_word(const std::string &text, size_t at)
{
    if (isdigit(static_cast<unsigned char>(text[at])))
        return behind_number(text, at);
    if (has_at(text, at, "//"))
        return std::min(text.find('\n', at), text.size());
    if (has_at(text, at, "/*"))
        return std::min(text.find("*/", at + 2), text.size() - 2) + 2;
    if (has_at(text, at, "R\"")) {
        const size_t open = std::min(text.find('(', at), text.size());
        const std::string close = ")" + text.substr(at + 2, open - at - 2) + "\"";
        const size_t end = text.find(close, open);
        return end == NONE ? text.size() : end + close.size();
    }
    if (text[at] == '"' || text[at] == '\'') {
        size_t end = at + 1;
        while (end < text.size() && text[end] != text[at] && text[end] != '\n')
            end += text[end] == '\\' ? 2 : 1;
        return std::min(end + 1, text.size());
    }
    size_t end = at;
    while (end < text.size() && is_name(text[end]))
        end++;
    return end;
}

/// Position behind the preprocessor's directive that begins at `at`.
size_t behind_directive(const std::string &text, size_t at)
{
    size_t end = text.find('\n', at);
    while (end != NONE && end > at && text[end - 1] == '\\')
        end = text.find('\n', end + 1);
    return std::min(end, text.size());
}

/// Position of the first `end` from `at` on that is not in brackets, or NONE.
size_t find_outside(const std::string &text, size_t at, const char *end)
{
    for (int depth = 0; at < text.size();) {
        if (const size_t behind = behind_word(text, at); behind != at) {
            at = behind;
            continue;
        }
        if (depth == 0 && has_at(text, at, end))
            return at;
        depth += text[at] == '(' || text[at] == '[' || text[at] == '{';
        depth -= text[at] == ')' || text[at] == ']' || text[at] == '}';
        if (depth < 0)
            return NONE;
        at++;
    }
    return NONE;
}

size_t behind_blanks(const std::string &text, size_t at)
{
    while (at < text.size()) {
        const bool is_comment = has_at(text, at, "//") || has_at(text, at, "/*");
        if (!is_comment && !isspace(static_cast<unsigned char>(text[at])))
            break;
        at = is_comment ? behind_word(text, at) : at + 1;
    }
    return at;
}

/// End of the text before the blanks that end at `at`.
size_t before_blanks(const std::string &text, size_t at)
{
    while (at > 0 && isspace(static_cast<unsigned char>(text[at - 1])))
        at--;
    return at;
}

/// Position of the bracket that the one before `at` closes.
size_t opening_bracket(const std::string &text, size_t at, char open, char close)
{
    int depth = 0;
    while (at > 0) {
        at--;
        if (text[at] == ')' && open != '(')
            at = opening_bracket(text, at + 1, '(', ')');
        depth += text[at] == close ? 1 : text[at] == open ? -1 : 0;
        if (depth == 0)
            break;
    }
    return at;
}

size_t begin_of_name(const std::string &text, size_t at)
{
    while (at > 0 && is_name(text[at - 1]))
        at--;
    return at;
}

/// Begin of the kernel's name, which ends before the brackets at `at`: space::Class<T>::template name<int, 2>.
size_t begin_of_kernel(const std::string &text, size_t at)
{
    for (;;) {
        at = before_blanks(text, at);
        if (at > 0 && text[at - 1] == ')')
            return opening_bracket(text, at, '(', ')');
        if (at > 0 && text[at - 1] == '>')
            at = before_blanks(text, opening_bracket(text, at, '<', '>'));
        at = begin_of_name(text, at);
        const size_t keyword = begin_of_name(text, before_blanks(text, at));
        if (has_at(text, keyword, "template") && before_blanks(text, at) - keyword == 8)
            at = keyword;
        if (at < 2 || text[at - 1] != ':' || text[at - 2] != ':')
            return at;
        at -= 2;
        if (at == 0 || (!is_name(text[at - 1]) && text[at - 1] != '>'))
            return at;
    }
}

/// Where a launch is in a text: from the kernel's name to behind its arguments.
struct Launch {
    size_t begin = 0, end = 0;
};

/// The launch with the brackets at `at`; false if none is complete there.
bool find_launch(const std::string &text, size_t at, Launch &launch)
{
    const size_t close = find_outside(text, at + 3, ">>>");
    const size_t open = close == NONE ? text.size() : behind_blanks(text, close + 3);
    const size_t end = open < text.size() && text[open] == '(' ? find_outside(text, open + 1, ")") : NONE;
    launch = {begin_of_kernel(text, at), end == NONE ? NONE : end + 1};
    return end != NONE && launch.begin != at;
}

const char OPEN_LAMBDA[] = "[&]__attribute__((host)) __attribute__((device))() -> void {";
const char CLOSE_LAMBDA[] = ";}()";

/// Name of the macro that a directive defines; "" for other directives.
std::string defined_name(const std::string &line)
{
    const size_t word = std::min(line.find_first_not_of(" \t", 1), line.size());
    if (!has_at(line, word, "define"))
        return "";
    const size_t name = std::min(line.find_first_not_of(" \t", word + 6), line.size());
    return line.substr(name, behind_word(line, name) - name);
}

/// The definition of a macro with its launches in lambdas.
std::string with_lambdas(std::string line)
{
    Launch launch;
    for (size_t at = line.find("<<<"); at != NONE; at = line.find("<<<", at)) {
        if (!find_launch(line, at, launch)) {
            at += 3;
            continue;
        }
        line.insert(launch.end, CLOSE_LAMBDA);
        line.insert(launch.begin, OPEN_LAMBDA);
        at = launch.end + sizeof(OPEN_LAMBDA) - 1;
    }
    return line;
}

/// A look through program text that knows where device code is.
class Walk
{
  public:
    /// Makes `result` of `all`, in which launches of device code are in lambdas, and those of the `chosen` macros.
    explicit Walk(const std::string &all, const std::set<std::string> &chosen_macros = {})
        : text(all), chosen(chosen_macros)
    {
    }
    void run();

    std::string result;
    /// Device code has a launch, or a macro with one.
    bool found = false;
    /// Macros with launches that device code uses.
    std::set<std::string> used;

  private:
    /// Where braces stand, and the outermost function of the device (-1: none).
    struct Braces {
        int depth = 0, device = -1;
    };

    bool begins_line() const;
    void take_directive();
    bool take_launch();
    void take_word(size_t end);
    void take_character();
    void copy_until(size_t end)
    {
        result.append(text, at, end - at);
        at = end;
    }

    const std::string &text;
    std::set<std::string> chosen, macros;
    size_t at = 0;
    /// Begin of what may be a function's declaration.
    size_t header = 0;
    /// In a header of the system.
    bool is_system = false;
    Braces braces;
    /// As they were at each #if that is open: each of its branches begins with them.
    std::vector<Braces> conditions;
};

bool Walk::begins_line() const
{
    size_t before = at;
    while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t'))
        before--;
    return before == 0 || text[before - 1] == '\n';
}

void Walk::take_directive()
{
    const size_t end = behind_directive(text, at);
    const std::string line = text.substr(at, end - at);
    const size_t word = std::min(line.find_first_not_of(" \t", 1), line.size());
    if (has_at(line, word, "if"))
        conditions.push_back(braces);
    else if (has_at(line, word, "el") && !conditions.empty())
        braces = conditions.back();
    else if (has_at(line, word, "endif") && !conditions.empty())
        conditions.pop_back();
    else if (word < line.size() && isdigit(static_cast<unsigned char>(line[word])) && line.find('"') != NONE)
        is_system = line.find('3', line.rfind('"')) != NONE;
    if (const std::string name = defined_name(line); !is_system && !name.empty() && line.find("<<<") != NONE)
        macros.insert(name);
    if (chosen.count(defined_name(line)) != 0)
        result += with_lambdas(line), at = end;
    else
        copy_until(end);
    header = at;
}

/// Copies a launch, in a lambda; false if none is complete here.
bool Walk::take_launch()
{
    Launch launch;
    if (!find_launch(text, at, launch))
        return false;
    found = true;
    result.insert(result.size() - (at - launch.begin), OPEN_LAMBDA);
    copy_until(launch.end);
    result += CLOSE_LAMBDA;
    return true;
}

void Walk::take_word(size_t end)
{
    if (braces.device >= 0 && !macros.empty())
        if (const std::string word = text.substr(at, end - at); macros.count(word) != 0) {
            used.insert(word);
            found = true;
        }
    copy_until(end);
}

void Walk::take_character()
{
    if (is_system) {
        copy_until(at + 1);
        return;
    }
    if (text[at] == '{') {
        const std::string declaration = text.substr(header, at - header);
        if (braces.device < 0 && (has_word(declaration, "__global__") || has_word(declaration, "__device__")))
            braces.device = braces.depth;
        braces.depth++;
    } else if (text[at] == '}' && --braces.depth == braces.device) {
        braces.device = -1;
    }
    if (text[at] == '{' || text[at] == '}' || text[at] == ';')
        header = at + 1;
    copy_until(at + 1);
}

void Walk::run()
{
    while (at < text.size()) {
        if (text[at] == '#' && begins_line())
            take_directive();
        else if (const size_t end = behind_word(text, at); end != at)
            take_word(end);
        else if (braces.device < 0 || !has_at(text, at, "<<<") || !take_launch())
            take_character();
    }
}

} // namespace

bool launches_in_device_code(const std::string &text)
{
    if (text.find("<<<") == NONE)
        return false;
    Walk walk(text);
    walk.run();
    return walk.found;
}

std::string with_launching_lambdas(const std::string &text)
{
    Walk macros(text);
    macros.run();
    Walk walk(text, macros.used);
    walk.run();
    return walk.result;
}

} // namespace mynvcc
