// CPU versions of kernels, made of what clang writes as LLVM's text of the device code for the host's processor.
#pragma once
#include "process.h"

namespace mynvcc
{

struct LocalCode {
    /// LLVM's text of the kernels that can run on a CPU, and of what they reach.
    std::string text;
    /// C source of the table that the runtime reads.
    std::string table;
    /// What is said about kernels that cannot.
    Words warnings;
    bool is_empty = true;
};

/// Takes the marked kernels, and those whose name matches a pattern (the linker's name, or that in the source without
/// its namespace and arguments), out of LLVM's text with debugging information.
LocalCode take_local_code(const std::string &text, const Words &patterns);

} // namespace mynvcc
