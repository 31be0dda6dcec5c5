// Every option, in one table: names, values, help, effect.
#pragma once
#include "options.h"

namespace mynvcc
{

enum class Takes {
    nothing,
    /// One, which is the last that is given.
    value,
    /// The same, and a number.
    number,
    /// One, each time that the option is given.
    each,
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
    /// What the value is, for the help. In braces are all that there are, with bars between them.
    const char *value;
    const char *help;
    /// Null: accepted, and without effect here, as the help says.
    void (*apply)(Options &options, const std::string &value);
};

extern const std::vector<OptionRow> OPTION_TABLE;

/// The row of an option as written, without value; null for an unknown one.
const OptionRow *find_option(const std::string &word);
/// Fails unless an option has this value; says which ones it has.
void check_value(const OptionRow &row, const std::string &value);
std::string help_text();
std::string version_text();

} // namespace mynvcc
