// What nvcc takes and clang does not: brackets of launches with blanks, kernel<< <1, 32>> >(), and __shared__
// alignas(16).
#pragma once
#include <string>

namespace mynvcc
{

/// True if program text has such brackets, or an alignas behind a memory space.
bool has_nvccs_syntax(const std::string &text);
/// Joins the brackets in what clang's -frewrite-includes wrote, and has such an alignas be C's, which clang takes
/// there. Headers of the system stay as they are, and so do columns before an alignas.
std::string in_clangs_syntax(const std::string &rewritten);

} // namespace mynvcc
