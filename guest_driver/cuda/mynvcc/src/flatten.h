// One text of a source and the headers of its program, for the device's compiler.
#pragma once
#include <string>

namespace mynvcc
{

/// Makes the text that travels to the device of what clang's -E -frewrite-includes wrote. The program's headers stay in
/// it, with markers of their lines. Headers that every machine has, and CUDA's own (those in `cuda_headers`, and the
/// header-only libraries), become `#include` lines again; conditions that clang has evaluated become conditions again.
std::string flatten(const std::string &rewritten, const std::string &cuda_headers);

/// True for headers of C, C++ and POSIX, and of CUDA's header-only libraries.
bool is_common_header(const std::string &name);

} // namespace mynvcc
