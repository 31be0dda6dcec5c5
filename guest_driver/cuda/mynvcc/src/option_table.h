// Every option, in one table: names, values, help, effect.
#pragma once
#include "options.h"

namespace mynvcc
{

enum class Takes {
    nothing,
    value,
    /// Separated by commas.
    values,
    /// Separated by commas, and each taken apart as by a shell, through which nvcc calls the other programs.
    words,
};

/// A row without a name begins a group of the help.
struct OptionRow {
    /// After "--".
    const char *name;
    /// After "-".
    const char *brief;
    Takes takes;
    /// What the value is, for the help.
    const char *value;
    const char *help;
    /// Null: accepted, and without effect here, as the help says.
    void (*apply)(Options &options, const std::string &value);
};

extern const std::vector<OptionRow> OPTION_TABLE;

/// The row of an option as written, without value; null for an unknown one.
const OptionRow *find_option(const std::string &word);
std::string help_text();
/// What --list-gpu-arch and --list-gpu-code print: builds look for what they ask for.
std::string architectures_text(const std::string &prefix);
std::string version_text();

} // namespace mynvcc
