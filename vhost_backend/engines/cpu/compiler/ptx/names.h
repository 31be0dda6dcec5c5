// Names in IR.
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace vgc::ptx
{

/// Name in IR of something that a text names so: functions of the runtime and of libraries have theirs for themselves.
std::string ir_name(const std::string &name);
/// Name that the text has.
std::string given_name(llvm::StringRef ir_name);
/// Name of a function in its source, unqualified, without parameters.
std::string short_name(const std::string &name);

} // namespace vgc::ptx
