// Options of gcc's that clang refuses, as -Xcompiler brings them.
#pragma once
#include "options.h"

namespace mynvcc
{

/// Options for a compilation, without those of gcc's own passes, debugging and link: none of them changes a result.
Words without_gcc_options(Words options);
/// Options for a link by clang: its own word for an option of gcc's that exports symbols, and no others of gcc's.
Words link_options_of_clang(const Words &options);

} // namespace mynvcc
