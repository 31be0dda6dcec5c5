// Parser of PTX statements.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "syntax.h"

namespace vgc::ptx
{

/// Statements of a text, or its first error: what was expected, and where.
std::variant<std::vector<Statement>, Problem> parse(std::string_view text);

} // namespace vgc::ptx
