// What a command line asks for.
#pragma once
#include "process.h"

namespace mynvcc
{

/// What is made of the inputs; the last of these on the command line counts.
enum class Phase { link, object, device_link, preprocess, dependencies, device_code, host_code, library };

struct Input {
    std::string path;
    /// As after -x: "cu", "c++" or "c"; "" means what the path's suffix says.
    std::string language;
};

struct Options {
    Phase phase = Phase::link;
    std::vector<Input> inputs;
    std::string output, output_folder, language, host_compiler, keep_folder;
    std::string cudart = "shared", standard, device_suffix;
    bool is_relocatable = false, is_shared = false, is_run = false, is_checked = false, is_keeping = false;
    bool forwards_unknown = false, forwards_unknown_to_linker = false, omits_system_headers = false;
    Shell shell;

    /// For the preprocessor of every file: -I, -isystem and -include; -D and -U.
    Words includes, macros;
    /// For every compilation of the host's compilers, for their links, for the linker, for ar.
    Words host, link, linker, archiver;
    /// For the device's compiler, when a program runs.
    Words device;
    /// -L and -l, in their order.
    Words libraries;
    /// -MD, -MF and so on, of rules that are written beside a compilation.
    Words dependencies;
    /// As -arch names it; "" unless it is given.
    std::string architecture;
    /// Those that -gencode names, and what -code names.
    Words generated, codes;
    /// Patterns of kernels that get a CPU version, beside those that the source marks.
    Words either;
    /// Of the program, with --run.
    Words arguments;
};

} // namespace mynvcc
