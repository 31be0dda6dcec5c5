// Parser of PTX modules.
#pragma once

#include <string_view>
#include <variant>

#include "syntax.h"

namespace vgc::ptx
{

/// The module that a text is, or its first error: what was expected, and where.
std::variant<Module, Problem> parse_module(std::string_view text);

} // namespace vgc::ptx
