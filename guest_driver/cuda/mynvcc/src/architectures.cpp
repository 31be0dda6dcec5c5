#include "architectures.h"

#include <algorithm>

namespace mynvcc
{
namespace
{

/// Of all releases of CUDA: old Makefiles name GPUs that newer compilers have forgotten.
const Words NUMBERS = {"10", "11", "12", "13",  "20",  "21",  "30",  "32",  "35", "37", "50",
                       "52", "53", "60", "61",  "62",  "70",  "72",  "75",  "80", "86", "87",
                       "88", "89", "90", "100", "101", "103", "110", "120", "121"};
/// What --list-gpu-arch prints.
const char *const LISTED[] = {"50", "52", "53", "60", "61",  "62",  "70",  "72",  "75", "80",
                              "86", "87", "89", "90", "100", "101", "103", "120", "121"};

/// Whether a number is that of an architecture: 90 and later may have the suffix of features of its own, "a", and 100
/// and later that of a family, "f".
bool is_number(std::string number)
{
    const bool has_suffix = ends_with(number, "a") || ends_with(number, "f");
    const int first = ends_with(number, "f") ? 100 : 90;
    if (has_suffix)
        number.pop_back();
    return std::find(NUMBERS.begin(), NUMBERS.end(), number) != NUMBERS.end() &&
           (!has_suffix || std::stoi(number) >= first);
}

bool is_named(const std::string &name, std::initializer_list<const char *> prefixes)
{
    return std::any_of(prefixes.begin(), prefixes.end(), [&name](const std::string &prefix) {
        return starts_with(name, prefix) && is_number(name.substr(prefix.size()));
    });
}

[[noreturn]] void refuse(const std::string &name)
{
    fail("Unsupported gpu architecture '" + name +
         "'. Allowed: sm_50 to sm_121, also as compute_ and lto_, sm_90a, sm_100f and so on");
}

/// Checks names of code, with commas between, perhaps in brackets or quotes.
void check_codes(const std::string &value)
{
    std::string list = value;
    if (list.size() > 1 && ((list.front() == '[' && list.back() == ']') || (list.front() == '"' && list.back() == '"')))
        list = list.substr(1, list.size() - 2);
    for (const std::string &name : split(list, ','))
        if (!is_named(name, {"sm_", "compute_", "lto_"}))
            refuse(name);
}

} // namespace

void set_architecture(Options &options, const std::string &value)
{
    if (value != "all" && value != "all-major" && value != "native" && !is_named(value, {"sm_", "compute_", "lto_"}))
        refuse(value);
    options.architecture = value;
}

void add_code(Options &options, const std::string &value)
{
    check_codes(value);
    options.codes.push_back(value);
}

/// `value` is "arch=...,code=...", whose code may be a list in brackets.
void add_generated_code(Options &options, const std::string &value)
{
    std::string architecture, code;
    for (size_t at = 0; at < value.size();) {
        const size_t equals = value.find('=', at);
        const std::string key = value.substr(at, equals == std::string::npos ? equals : equals - at);
        if (equals == std::string::npos || (key != "arch" && key != "code"))
            fail("'" + key + "' is not in 'keyword=value' format, as in arch=compute_80,code=[sm_80,compute_80]");
        const char first = equals + 1 < value.size() ? value[equals + 1] : 0;
        const size_t list_end = first == '['   ? value.find(']', equals)
                                : first == '"' ? value.find('"', equals + 2)
                                               : at;
        const size_t end = std::min(value.find(',', list_end == at ? equals : list_end), value.size());
        (key == "arch" ? architecture : code) = value.substr(equals + 1, end - equals - 1);
        at = end + 1;
    }
    if (architecture.empty() || code.empty())
        fail("Option '--generate-code " + value + "', missing " + (code.empty() ? "code" : "architecture"));
    if (!is_named(architecture, {"sm_", "compute_"}))
        refuse(architecture);
    if (starts_with(architecture, "sm_"))
        fail("Value of -arch option ('" + architecture + "') must be a virtual code architecture");
    check_codes(code);
    options.generated.push_back(value);
}

void check_architectures(const Options &options)
{
    if (options.codes.empty())
        return;
    if (options.architecture.empty())
        fail("-arch option not specified");
    if (starts_with(options.architecture, "all") || options.architecture == "native")
        fail("Cannot use '-arch=" + options.architecture + "' with '--gpu-code (-code)'");
    if (starts_with(options.architecture, "sm_"))
        fail("Value of -arch option ('" + options.architecture + "') must be a virtual code architecture");
}

std::string noted_architecture(const Options &options)
{
    if (!options.generated.empty())
        return options.generated.back();
    return options.architecture.empty() ? "compute_80" : options.architecture;
}

std::string architectures_text(const std::string &prefix)
{
    std::string text;
    for (const char *number : LISTED)
        text += prefix + number + "\n";
    return text;
}

} // namespace mynvcc
