// Launches whose brackets are written with blanks, as nvcc takes them: kernel<< <1, 32>> >().
#pragma once
#include <string>

namespace mynvcc
{

/// True if program text has such brackets.
bool has_spaced_brackets(const std::string &text);
/// Joins them in what clang's -frewrite-includes wrote; headers of the system stay as they are, and so do columns.
std::string join_brackets(const std::string &rewritten);

} // namespace mynvcc
