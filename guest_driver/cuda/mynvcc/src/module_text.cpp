#include "module_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace mynvcc
{
namespace
{

bool is_name_character(char c)
{
    return isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '$' || c == '.' || c == '_';
}

/// A variable's line from behind its linkage on: "global [4 x i32] undef, align 4".
std::string kind_of(const std::string &head)
{
    for (const char *kind : {" global ", " constant ", " alias "})
        if (const size_t at = head.find(kind); at != std::string::npos)
            return head.substr(at + 1);
    return "";
}

} // namespace

std::string name_at(const std::string &text, size_t at)
{
    size_t end = at;
    if (end < text.size() && text[end] == '"')
        end = text.find('"', end + 1) + 1;
    else
        while (end < text.size() && is_name_character(text[end]))
            end++;
    return text.substr(at, end - at);
}

std::set<std::string> names_in(const std::string &text)
{
    std::set<std::string> names;
    for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + 1))
        if (std::string name = name_at(text, at + 1); !name.empty())
            names.insert(std::move(name));
    return names;
}

std::string field(const std::string &line, const std::string &key)
{
    for (size_t at = line.find(key); at != std::string::npos; at = line.find(key, at + 1)) {
        if (at > 0 && line[at - 1] != ' ' && line[at - 1] != '(')
            continue;
        const size_t begin = at + key.size();
        return line.substr(begin, line.find_first_of(line[begin] == '"' ? "\"" : ",)}", begin + 1) - begin);
    }
    return "";
}

std::string Symbol::head() const
{
    return text.substr(0, text.find('\n'));
}

bool Symbol::is_dynamic() const
{
    return !is_function && !is_defined && kind_of(head()).rfind("global [0 x ", 0) == 0;
}

bool Symbol::is_shared() const
{
    const std::string line = head();
    return is_dynamic() || (!is_function && is_defined && starts_with(kind_of(line), "global ") &&
                            (line.find(" undef,") != std::string::npos || ends_with(line, " undef")));
}

bool Symbol::is_variable() const
{
    return !is_function && is_defined && !is_shared() && starts_with(kind_of(head()), "global ");
}

Module::Module(const std::string &text)
{
    std::string *body = nullptr;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
        const std::string line = text.substr(at, end - at);
        at = end;
        if (body != nullptr) {
            *body += line;
            if (line == "}\n")
                body = nullptr;
            continue;
        }
        const bool is_definition = starts_with(line, "define "),
                   is_function = is_definition || starts_with(line, "declare ");
        if (line[0] == '!')
            if (const size_t equals = line.find(" = "); equals != std::string::npos)
                nodes[line.substr(0, equals)] = line.substr(equals + 3, line.size() - equals - 4);
        if (!is_function && line[0] != '@') {
            order.emplace_back(false, line);
            continue;
        }
        const std::string name = name_at(line, line.find('@') + 1);
        Symbol &symbol = symbols[name];
        symbol.name = name;
        symbol.text = line;
        symbol.is_function = is_function;
        symbol.is_defined = is_function ? is_definition : line.find(" = external ") == std::string::npos;
        order.emplace_back(true, name);
        body = is_definition ? &symbol.text : nullptr;
    }
    for (auto &[name, symbol] : symbols) {
        symbol.references = names_in(symbol.text);
        symbol.references.erase(name);
    }
}

const Symbol *Module::find(const std::string &name) const
{
    const auto found = symbols.find(name);
    return found == symbols.end() ? nullptr : &found->second;
}

std::set<std::string> Module::annotated(const std::string &annotation) const
{
    std::set<std::string> found;
    const Symbol *const list = find("llvm.global.annotations");
    std::string last;
    for (size_t at = list == nullptr ? std::string::npos : list->text.find('@', 1); at != std::string::npos;
         at = list->text.find('@', at + 1)) {
        const std::string name = name_at(list->text, at + 1);
        const Symbol *const symbol = find(name);
        if (symbol != nullptr && symbol->text.find("section \"llvm.metadata\"") == std::string::npos)
            last = name;
        else if (symbol != nullptr && symbol->text.find("c\"" + annotation + "\\00\"") != std::string::npos)
            found.insert(last);
    }
    return found;
}

std::string Module::node(const std::string &number) const
{
    const auto found = nodes.find(number);
    return found == nodes.end() ? "" : found->second;
}

Parameter Module::parameter(const std::string &type) const
{
    std::string line = node(type);
    while (line.find("DIDerivedType(") != std::string::npos && line.find("DW_TAG_pointer_type") == std::string::npos &&
           line.find("reference_type") == std::string::npos && line.find("DW_TAG_ptr_to_member") == std::string::npos)
        line = node(field(line, "baseType: "));
    Parameter result;
    const std::string size = field(line, "size: ");
    result.bytes = size.empty() ? 8 : strtoul(size.c_str(), nullptr, 10) / 8;
    result.is_class =
        line.find("DICompositeType(") != std::string::npos && line.find("DW_TAG_enumeration_type") == std::string::npos;
    if (line.empty() || line.find("DW_TAG_ptr_to_member") != std::string::npos)
        throw Failure{"the type of a parameter is not understood"};
    return result;
}

std::string Module::source_name(const Symbol &function) const
{
    const std::string line =
        node(field(function.head() + " ", "!dbg ").substr(0, field(function.head(), "!dbg ").find(' ')));
    std::string name = field(line, "name: ");
    name = name.empty() ? function.name : name.substr(1);
    return name.substr(0, name.find('<'));
}

std::vector<Parameter> Module::parameters(const Symbol &function) const
{
    const std::string head = function.head();
    const std::string reference = field(head, "!dbg ");
    const std::string type = node(field(node(reference.substr(0, reference.find(' '))), "type: "));
    const std::string list = node(field(type, "types: "));
    if (!starts_with(list, "!{"))
        throw Failure{"its parameters are not known"};
    std::vector<Parameter> result;
    const Words items = split(list.substr(2, list.size() - 3), ',');
    for (size_t i = 1; i < items.size(); i++) {
        const size_t begin = items[i].find('!');
        if (begin == std::string::npos)
            throw Failure{"it has a variable number of parameters"};
        result.push_back(parameter(items[i].substr(begin)));
    }
    return result;
}

std::string Module::text_of(const std::set<std::string> &kept, const std::map<std::string, std::string> &edited) const
{
    std::string result;
    for (const auto &[is_symbol, item] : order) {
        if (!is_symbol) {
            result += item;
        } else if (kept.count(item) != 0) {
            const auto found = edited.find(item);
            result += found == edited.end() ? symbols.at(item).text : found->second;
        }
    }
    return result;
}

bool Module::has_typed_pointers() const
{
    const Symbol *const list = find("llvm.global.annotations"); // all kernels are in it
    return list != nullptr && list->text.find("i8*") != std::string::npos;
}

} // namespace mynvcc
