// Parsing of the command line, by the table of options.
#pragma once
#include "options.h"

namespace mynvcc
{

/// Reads a command line without its first word. Raises Failure for unknown options. Prints --help and --version and
/// exits.
Options parse_options(const Words &given);

} // namespace mynvcc
