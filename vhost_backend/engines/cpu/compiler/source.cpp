// A look at the source's text before clang parses it: which names it expects to find declared, and how launches are
// written.
#include "source.h"
#include "compiler.h"
#include "options.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace vgc
{
namespace
{

bool is_device_header(const Options &options, llvm::StringRef name)
{
    return llvm::any_of(options.include_dirs, [&](const std::string &folder) {
        llvm::SmallString<128> path(folder);
        llvm::sys::path::append(path, name);
        return llvm::sys::fs::exists(path);
    });
}

bool includes_others(const Options &options, llvm::StringRef text)
{
    for (llvm::StringRef rest = text; !rest.empty();) {
        llvm::StringRef line;
        std::tie(line, rest) = rest.split('\n');
        if (const llvm::StringRef name = included(line); !name.empty() && !is_device_header(options, name))
            return true;
    }
    return false;
}

bool is_name(char c)
{
    return llvm::isAlnum(c) || c == '_';
}

/// Length of the comment or the literal at the start of `text`; 0 for other text.
size_t opaque(llvm::StringRef text)
{
    if (llvm::isDigit(text[0])) { // a number, with separators such as 1'000
        size_t end = 1;
        while (end < text.size() &&
               (is_name(text[end]) || (text[end] == '\'' && end + 1 < text.size() && llvm::isAlnum(text[end + 1]))))
            end++;
        return end;
    }
    if (text.starts_with("u8'"))
        return 2 + opaque(text.drop_front(2));
    if (text.starts_with("//"))
        return std::min(text.find('\n'), text.size());
    if (text.starts_with("/*"))
        return std::min(text.find("*/", 2), text.size() - 2) + 2;
    if (text.starts_with("R\"")) {
        const size_t open = text.find('(');
        const std::string close = ")" + text.slice(2, std::min(open, text.size())).str() + "\"";
        const size_t end = text.find(close);
        return end == llvm::StringRef::npos ? text.size() : end + close.size();
    }
    if (text[0] != '"' && text[0] != '\'')
        return 0;
    size_t end = 1;
    while (end < text.size() && text[end] != text[0] && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
}

/// Length of "<< <" or ">> >" at the start of `text`, blanks included; 0 for other text.
size_t spaced_bracket(llvm::StringRef text)
{
    if (!text.starts_with("<<") && !text.starts_with(">>"))
        return 0;
    const size_t next = text.find_first_not_of(" \t", 2);
    return next != llvm::StringRef::npos && next > 2 && text[next] == text[0] ? next + 1 : 0;
}

/// True for an alignas behind a memory space (__shared__ alignas(16) float a[4]), where clang takes only C's _Alignas.
bool is_late_alignas(llvm::StringRef before, llvm::StringRef text)
{
    const llvm::StringRef space = before.rtrim(" \t");
    return space.size() < before.size() && text.starts_with("alignas") &&
           text.drop_front(7).ltrim(" \t").starts_with("(") &&
           llvm::any_of(
               llvm::ArrayRef{"__shared__", "__constant__", "__device__", "__managed__"},
               [&](llvm::StringRef word) { return space.ends_with(word); });
}

/// True if the text has an identifier that may be, or may be pasted together to, the name of a texture or surface
/// function.
bool names_texture_function(llvm::StringRef text)
{
    for (llvm::StringRef prefix : {"tex", "surf"})
        for (size_t at = text.find(prefix); at != llvm::StringRef::npos; at = text.find(prefix, at + 1)) {
            const llvm::StringRef rest = text.drop_front(at + prefix.size());
            if (at > 0 && (llvm::isAlnum(text[at - 1]) || text[at - 1] == '_'))
                continue;
            if (rest.starts_with("1D") || rest.starts_with("2D") || rest.starts_with("3D") ||
                rest.starts_with("Cubemap") || rest.ltrim().starts_with("##"))
                return true;
        }
    return false;
}

bool may_launch(llvm::StringRef text)
{
    return text.contains("<<<") || text.contains("__vgc_configure(");
}

bool has_word(llvm::StringRef text, llvm::StringRef word)
{
    for (size_t at = text.find(word); at != llvm::StringRef::npos; at = text.find(word, at + 1))
        if ((at == 0 || !is_name(text[at - 1])) &&
            (at + word.size() == text.size() || !is_name(text[at + word.size()])))
            return true;
    return false;
}

/// Length of the directive of the preprocessor at the start of a line.
size_t directive(llvm::StringRef line)
{
    size_t end = line.find('\n');
    while (end != llvm::StringRef::npos && end > 0 && line[end - 1] == '\\')
        end = line.find('\n', end + 1);
    return std::min(end, line.size());
}

/// Position of the first `end` in `text` from `at` on that is not in brackets, or npos.
size_t find_outside(llvm::StringRef text, size_t at, llvm::StringRef end)
{
    for (int depth = 0; at < text.size();) {
        const llvm::StringRef rest = text.drop_front(at);
        if (const size_t length = opaque(rest)) {
            at += length;
            continue;
        }
        if (depth == 0 && rest.starts_with(end))
            return at;
        depth += llvm::StringRef("([{").contains(rest[0]) ? 1 : llvm::StringRef(")]}").contains(rest[0]) ? -1 : 0;
        if (depth < 0)
            return llvm::StringRef::npos;
        at++;
    }
    return llvm::StringRef::npos;
}

/// Position behind blanks and comments.
size_t skip_blanks(llvm::StringRef text, size_t at)
{
    while (at < text.size()) {
        const llvm::StringRef rest = text.drop_front(at);
        const bool comment = rest.starts_with("//") || rest.starts_with("/*");
        if (!comment && !llvm::isSpace(rest[0]))
            break;
        at += comment ? opaque(rest) : 1;
    }
    return at;
}

/// Where braces stand, and the outermost function of the device (-1: none).
struct Braces {
    int depth = 0, device = -1;
};

/// Follows a directive that begins, parts or ends branches.
void take_condition(llvm::StringRef line, Braces &braces, std::vector<Braces> &conditions)
{
    const llvm::StringRef word = line.drop_front().ltrim(" \t");
    if (word.starts_with("if"))
        conditions.push_back(braces);
    else if (word.starts_with("el") && !conditions.empty())
        braces = conditions.back();
    else if (word.starts_with("endif") && !conditions.empty())
        conditions.pop_back();
}

/// Name of the macro that a directive defines; "" for other directives.
llvm::StringRef defined_name(llvm::StringRef line)
{
    llvm::StringRef word = line.drop_front().ltrim(" \t");
    return word.consume_front("define") ? word.ltrim(" \t").take_while(is_name) : "";
}

} // namespace

bool launches_in_device_code(llvm::StringRef text)
{
    if (!text.contains("<<<"))
        return false;
    size_t header = 0; // begin of what may be a function's declaration
    Braces braces;
    std::vector<Braces> conditions; // as at each #if that is open: each of its branches begins there
    llvm::StringSet<> macros;       // with launches
    for (size_t at = 0; at < text.size();) {
        const llvm::StringRef rest = text.drop_front(at);
        const bool begins_line = text.take_front(at).rtrim(" \t").ends_with("\n") || at == 0;
        if (begins_line && rest[0] == '#') {
            const llvm::StringRef line = rest.take_front(directive(rest));
            take_condition(line, braces, conditions);
            if (line.contains("<<<"))
                macros.insert(defined_name(line));
            header = at += line.size();
            continue;
        }
        if (const size_t length = opaque(rest)) {
            at += length;
            continue;
        }
        if (const llvm::StringRef word = rest.take_while(is_name); !word.empty()) {
            if (braces.device >= 0 && macros.contains(word))
                return true;
            at += word.size();
            continue;
        }
        if (braces.device >= 0 && rest.starts_with("<<<"))
            return true;
        if (rest[0] == '{') {
            const llvm::StringRef declaration = text.slice(header, at);
            if (braces.device < 0 && (has_word(declaration, "__global__") || has_word(declaration, "__device__")))
                braces.device = braces.depth;
            braces.depth++;
        } else if (rest[0] == '}' && --braces.depth == braces.device) {
            braces.device = -1;
        }
        if (llvm::StringRef("{};").contains(rest[0]))
            header = at + 1;
        at++;
    }
    return false;
}

std::string rewrite_launches(llvm::StringRef text)
{
    std::string written;
    for (size_t at = 0; at < text.size();) {
        const llvm::StringRef rest = text.drop_front(at);
        size_t length = opaque(rest);
        if (length == 0 && rest.starts_with("<<<")) {
            const size_t close = find_outside(text, at + 3, ">>>");
            const size_t open = close == llvm::StringRef::npos ? close : skip_blanks(text, close + 3);
            const size_t end = open < text.size() && text[open] == '(' ? find_outside(text, open + 1, ")") : text.npos;
            if (end != llvm::StringRef::npos) {
                written += text.slice(open, end + 1).str() + ", __vgc_configure(" + text.slice(at + 3, close).str() +
                           text.slice(close + 3, open).str() + ")";
                at = end + 1;
                continue;
            }
        }
        length = std::max<size_t>(length, 1);
        written += rest.take_front(length);
        at += length;
    }
    return written;
}

llvm::StringRef included(llvm::StringRef line)
{
    line = line.ltrim();
    if (!line.consume_front("#"))
        return "";
    line = line.ltrim();
    if (!line.consume_front("include"))
        return "";
    line = line.ltrim();
    if (line.empty() || (line[0] != '<' && line[0] != '"'))
        return "";
    return line.drop_front().take_until([](char c) { return c == '>' || c == '"'; });
}

std::string read_source(const Options &options)
{
    auto buffer = llvm::MemoryBuffer::getFile(options.input);
    if (!buffer)
        fail("cannot read " + options.input + ": " + buffer.getError().message());
    return (*buffer)->getBuffer().str();
}

bool has_libraries_text(llvm::StringRef text)
{
    return text.contains("__u_char;") || text.contains("namespace std __attribute__");
}

bool wants_hosts_names(const Options &options, llvm::StringRef text)
{
    if (has_libraries_text(text))
        return false;
    return may_launch(text) || text.contains("std::") || includes_others(options, text);
}

bool may_name_api(llvm::StringRef text)
{
    return text.contains("cuda") || text.contains("std::") || may_launch(text) || text.contains("include") ||
           has_libraries_text(text);
}

bool uses_textures(const Options &options, llvm::StringRef text)
{
    for (const auto *words : {&options.clang, &options.name_expressions})
        for (const std::string &word : *words) {
            const bool defines = llvm::StringRef(word).starts_with("-D");
            if (names_texture_function(defines ? llvm::StringRef(word).split('=').second : llvm::StringRef(word)))
                return true;
        }
    return names_texture_function(text) || !options.program_dirs.empty(); // folders: a header may name them
}

void replace_gccs_packs(std::string &text)
{
    static const std::pair<llvm::StringRef, llvm::StringRef> forms[] = {
        {"integer_sequence<_Tp, __integer_pack(_Num)...>", "__make_integer_seq<integer_sequence, _Tp, _Num>"},
        {"_Index_tuple<__integer_pack(_Num)...>",
         "__make_integer_seq<::__vgc_indices<_Index_tuple>::template type, size_t, _Num>"},
    };
    for (const auto &[gcc, clang] : forms)
        if (const size_t at = text.find(gcc.data()); at != std::string::npos)
            text.replace(at, gcc.size(), clang.data());
}

void part_linkage(std::string &text)
{
    const llvm::StringRef linkage = "\"C\"";
    for (size_t at = text.find(linkage.data()); at != std::string::npos; at = text.find(linkage.data(), at + 1))
        if (llvm::StringRef(text).take_front(at).rtrim().ends_with("extern") && text[at + linkage.size()] == '_')
            text.insert(at + linkage.size(), " ");
}

void take_nvccs_syntax(std::string &text)
{
    for (size_t at = 0; at < text.size();) {
        const llvm::StringRef rest = llvm::StringRef(text).drop_front(at);
        if (const size_t length = opaque(rest)) {
            at += length;
        } else if (is_late_alignas(llvm::StringRef(text).take_front(at), rest)) {
            text.replace(at, 7, "_Alignas");
            at += 8;
        } else if (const size_t spaced = spaced_bracket(rest);
                   spaced != 0 && !llvm::StringRef(text).take_front(at).rtrim().ends_with("operator")) {
            std::swap(text[at + 2], text[at + spaced - 1]);
            at += spaced;
        } else {
            at++;
        }
    }
}

} // namespace vgc
