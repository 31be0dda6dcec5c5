// Names in IR.
#pragma once

#include <string>

namespace vgc::ptx
{

/// Name in IR of something that a text names so: functions of the runtime and of libraries have theirs for themselves.
std::string ir_name(const std::string &name);
/// Name of a function in its source, unqualified, without parameters.
std::string short_name(const std::string &name);

} // namespace vgc::ptx
