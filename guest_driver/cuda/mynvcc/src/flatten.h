// One text of a source and the headers of its program, for the device's compiler.
#pragma once
#include <string>

namespace mynvcc
{

/// Makes the text that travels to the device of what clang's -E -frewrite-includes wrote. The program's headers stay in
/// it, with markers of their lines. Headers that every machine has, and CUDA's own (those in `cuda_headers`, and the
/// header-only libraries), become `#include` lines again; conditions that clang has evaluated become conditions again.
std::string flatten(const std::string &rewritten, const std::string &cuda_headers);

/// True for headers of C, C++ and POSIX.
bool is_common_header(const std::string &name);
/// True for names that CUDA's header-only libraries have (CUB, Thrust, libcu++); a program's own header may, too.
bool is_library_name(const std::string &name);
/// True for a header of these libraries, wherever they are: by the name that it is included with, and its path.
bool is_library_header(const std::string &name, const std::string &path);

/// True for headers of the toolkit's libraries (cublas_v2.h, cufft.h), which the device's compiler does not have.
bool is_host_library_header(const std::string &name);

} // namespace mynvcc
