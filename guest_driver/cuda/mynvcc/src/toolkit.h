// Where things are: the toolkit that mynvcc is in, and the host's compiler.
#pragma once
#include "process.h"

namespace mynvcc
{

struct Toolkit {
    /// Folder with bin, include and lib64; found from the program's own path.
    std::string top;
    /// clang for C++, and for C.
    std::string clangxx, clang;
    /// Compilers of files without CUDA, and linker: the same, unless -ccbin names others.
    std::string cxx, cc;
    /// Folder of CUB, Thrust and libcu++, which do not come with the toolkit; "" if they were not found.
    std::string cccl;

    /// Options for folders of headers: those in `includes`, which are the program's, then the libraries'. Ahead of the
    /// libraries, also of the program's own, comes a folder with names that CUDA 12's had.
    Words folder_options(const Words &includes) const;
};

/// How to get them.
extern const char CCCL_HINT[];

/// Finds the toolkit and a clang that can compile CUDA. `host_compiler` is the value of -ccbin, or "".
Toolkit find_toolkit(const std::string &host_compiler);
/// Fails if the compiler that -ccbin means is missing.
void check_host_compiler(const Toolkit &toolkit);
/// Only `top`, of any program in TOP/bin.
std::string find_top();

} // namespace mynvcc
