// A look at the source's text before clang parses it: which names it expects to find declared, and how launches are
// written.
#include "source.h"
#include "compiler.h"
#include "options.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace vgc
{
namespace
{

/// Name in an #include directive; empty for other lines.
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

/// Length of the comment or the literal at the start of `text`; 0 for other text.
size_t opaque(llvm::StringRef text)
{
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

} // namespace

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
    return text.contains("<<<") || text.contains("std::") || includes_others(options, text);
}

bool may_name_api(llvm::StringRef text)
{
    return text.contains("cuda") || text.contains("<<<") || text.contains("include") || has_libraries_text(text);
}

bool uses_textures(const Options &options, llvm::StringRef text)
{
    for (const auto *words : {&options.clang, &options.name_expressions})
        for (const std::string &word : *words) {
            const bool defines = llvm::StringRef(word).starts_with("-D");
            if (names_texture_function(defines ? llvm::StringRef(word).split('=').second : llvm::StringRef(word)))
                return true;
        }
    return names_texture_function(text);
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

void join_launch_brackets(std::string &text)
{
    for (size_t at = 0; at < text.size();) {
        const llvm::StringRef rest = llvm::StringRef(text).drop_front(at);
        if (const size_t length = opaque(rest)) {
            at += length;
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
