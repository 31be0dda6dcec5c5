#include "command_line.h"
#include "architectures.h"
#include "option_table.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

namespace mynvcc
{
namespace
{

/// Splits the values of an option at its commas; "\\," is a comma, and quotes protect some.
Words split_values(const std::string &text)
{
    Words words(1);
    char quote = 0;
    for (size_t at = 0; at < text.size(); at++) {
        const char c = text[at];
        if (c == '\\' && at + 1 < text.size() && text[at + 1] == ',')
            words.back() += text[++at];
        else if (c == ',' && quote == 0)
            words.emplace_back();
        else {
            quote = quote == 0 && (c == '"' || c == '\'') ? c : c == quote ? 0 : quote;
            words.back() += c;
        }
    }
    return words;
}

/// The words of a text, as a shell would take them apart.
Words words_of(const std::string &text)
{
    Words words;
    std::string word;
    bool is_word = false;
    char quote = 0;
    for (size_t at = 0; at < text.size(); at++) {
        const char c = text[at];
        if (quote == 0 && isspace(static_cast<unsigned char>(c))) {
            if (is_word)
                words.push_back(word);
            word.clear();
            is_word = false;
            continue;
        }
        is_word = true;
        if (quote == 0 && (c == '"' || c == '\''))
            quote = c;
        else if (c == quote)
            quote = 0;
        else if (c == '\\' && quote != '\'' && at + 1 < text.size())
            word += text[++at];
        else
            word += c;
    }
    if (is_word)
        words.push_back(word);
    return words;
}

/// The parts of a value that an option takes one by one.
Words parts_of(const std::string &value, Takes takes)
{
    if (takes != Takes::values && takes != Takes::words)
        return {value};
    if (takes == Takes::values)
        return split_values(value);
    Words parts;
    for (const std::string &part : split_values(value)) {
        const Words taken = words_of(part);
        parts.insert(parts.end(), taken.begin(), taken.end());
    }
    return parts;
}

bool is_level(const std::string &word)
{
    return word.size() == 1 && word[0] >= '0' && word[0] <= '9';
}

/// An option as given, with one of its values.
struct Given {
    const OptionRow *row;
    std::string value;
};

/// Does what an option asks for that prints something and nothing else.
void print_and_end(const std::string &name)
{
    if (name == "help")
        std::cout << help_text();
    else if (name == "version")
        std::cout << version_text();
    else if (name == "list-gpu-arch")
        std::cout << architectures_text("compute_");
    else if (name == "list-gpu-code")
        std::cout << architectures_text("sm_");
    else
        return;
    std::exit(0);
}

/// Reads the words of one command line, and those of the files that it names.
class Reader
{
  public:
    explicit Reader(Options &o) : options(o)
    {
    }
    void read(const Words &words, int depth = 0);
    /// Does what the options ask for that were read.
    void apply();

  private:
    void read_option(const Words &words, size_t &at, int depth);
    void take(const OptionRow &row, const std::string &value, int depth);
    void forget_earlier(const OptionRow &row, const std::string &value);
    void take_unknown(const std::string &word);

    Options &options;
    std::vector<Given> given;
};

void Reader::read(const Words &words, int depth)
{
    if (depth > 20)
        fail("files of options name each other");
    for (size_t at = 0; at < words.size(); at++) {
        const std::string &word = words[at];
        if (word.size() > 1 && word[0] == '@')
            read(words_of(read_file(word.substr(1))), depth + 1);
        else if (word.size() > 1 && word[0] == '-')
            read_option(words, at, depth);
        else if (!word.empty())
            options.inputs.push_back({word, ""});
    }
}

void Reader::read_option(const Words &words, size_t &at, int depth)
{
    const std::string &word = words[at];
    const size_t equals = word.find('=');
    const OptionRow *row = find_option(word.substr(0, equals));
    if (row != nullptr && row->takes == Takes::nothing) {
        const std::string value = equals == std::string::npos ? "true" : word.substr(equals + 1);
        if (value != "true" && value != "false")
            fail("Value '" + value + "' is not defined for option '" + row->name + "'");
        if (value == "true")
            take(*row, "", depth);
        return;
    }
    if (row != nullptr && equals != std::string::npos)
        return take(*row, word.substr(equals + 1), depth);
    if (row != nullptr && std::string(row->name) == "optimize") // -O alone or with a level, as a word of its own
        return take(*row, at + 1 < words.size() && is_level(words[at + 1]) ? words[++at] : "1", depth);
    if (row != nullptr) {
        if (at + 1 >= words.size())
            fail("Missing argument for option '" + std::string(row->name) + "'");
        return take(*row, words[++at], depth);
    }
    for (const char *joined : {"-I", "-D", "-U", "-L", "-l", "-O", "-isystem"})
        if (starts_with(word, joined))
            return take(*find_option(joined), word.substr(std::string(joined).size()), depth);
    if (starts_with(word, "-t") && word.find_first_not_of("0123456789", 2) == std::string::npos)
        return take(*find_option("-t"), word.substr(2), depth);
    take_unknown(word);
}

void Reader::take(const OptionRow &row, const std::string &value, int depth)
{
    print_and_end(row.name);
    for (const std::string &part : parts_of(value, row.takes)) {
        check_value(row, part);
        if (row.takes == Takes::value || row.takes == Takes::number)
            forget_earlier(row, part);
        if (std::string(row.name) == "options-file")
            read(words_of(read_file(part)), depth + 1);
        else
            given.push_back({&row, part});
    }
}

/// Of options that have one value, the last one counts.
void Reader::forget_earlier(const OptionRow &row, const std::string &value)
{
    const auto earlier =
        std::find_if(given.begin(), given.end(), [&row](const Given &other) { return other.row == &row; });
    if (earlier == given.end())
        return;
    if (earlier->value != value)
        warn("incompatible redefinition for option '" + std::string(row.name) +
             "', the last value of this option was used");
    given.erase(earlier);
}

void Reader::apply()
{
    for (const Given &one : given)
        if (one.row->apply != nullptr)
            one.row->apply(options, one.value);
    for (Input &input : options.inputs)
        input.language = options.language;
    check_architectures(options);
}

void Reader::take_unknown(const std::string &word)
{
    if (!options.forwards_unknown && !options.forwards_unknown_to_linker)
        fail("Unknown option '" + word + "'");
    given.push_back({find_option(options.forwards_unknown ? "-Xcompiler" : "-Xlinker"), word});
}

} // namespace

Options parse_options(const Words &given)
{
    Options options;
    Words words;
    const char *const before = getenv("NVCC_PREPEND_FLAGS"), *const behind = getenv("NVCC_APPEND_FLAGS");
    for (const Words &more :
         {words_of(before != nullptr ? before : ""), given, words_of(behind != nullptr ? behind : "")})
        words.insert(words.end(), more.begin(), more.end());
    // which of these stands first does not matter
    for (const std::string &word : words)
        if (const OptionRow *row = starts_with(word, "-") ? find_option(word) : nullptr;
            row != nullptr && starts_with(row->name, "forward-unknown"))
            row->apply(options, "");
    Reader reader(options);
    reader.read(words);
    reader.apply();
    if (options.is_shared)
        options.link.push_back("-shared");
    return options;
}

} // namespace mynvcc
