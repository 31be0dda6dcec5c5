// What the front end wants to know of a source's text before clang parses it.
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace vgc
{

struct Options;

std::string read_source(const Options &options);
/// Name in a line with an #include directive; empty for other lines.
llvm::StringRef included(llvm::StringRef line);
/// Says how a host gets a library that `text`, which does not compile, includes and the host lacks.
void advise_on_libraries(const Options &options, llvm::StringRef text);
/// True for text that a preprocessor has left, with the declarations of the C or C++ library in it.
bool has_libraries_text(llvm::StringRef text);
/// False for a source that cannot use CUDA's API for host code, whose declarations then need not be read.
bool may_name_api(llvm::StringRef text);
/// Replaces a builtin of GCC in its C++ library's text by clang's.
void replace_gccs_packs(std::string &text);
/// True for a source that may use names which nvcc takes from the host's C and C++ libraries without being asked.
bool wants_hosts_names(const Options &options, llvm::StringRef text);
/// True if the program may use textures or surfaces: their headers are too slow to be included always.
bool uses_textures(const Options &options, llvm::StringRef text);
/// Makes "<< <" and ">> >" the brackets of a launch, as nvcc reads them, and lets alignas stand behind __shared__.
void take_nvccs_syntax(std::string &text);
/// Parts `extern "C"__global__`, which C++ reads as one literal, into two words, as nvcc does.
void part_linkage(std::string &text);
/// True if a kernel or another function of the device launches kernels.
bool launches_in_device_code(llvm::StringRef text);
/// Writes `kernel<<<configuration>>>(arguments)` as `kernel(arguments), __vgc_configure(configuration)`.
std::string rewrite_launches(llvm::StringRef text);

} // namespace vgc
