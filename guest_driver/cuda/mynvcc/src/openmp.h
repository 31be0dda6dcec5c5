// OpenMP of host code: which library a link takes for it.
#pragma once
#include "options.h"
#include "toolkit.h"

namespace mynvcc
{

/// Words of a link, as the linking compiler takes them.
struct LinkWords {
    Words options, linker, inputs, libraries;
};

/// True if host code is compiled with OpenMP.
bool uses_openmp(const Options &options);
/// True if clang's OpenMP library can be linked.
bool has_openmp(const Toolkit &toolkit);
/// Has a link take clang's OpenMP library for gcc's, which the command line names, or for that of -fopenmp with gcc.
/// What clang has compiled needs clang's, which serves gcc's code, too; with both, threads would not know their
/// numbers. `archives` are static libraries that -l names. Raises Failure if the link needs clang's library and lacks
/// it.
void take_clangs_openmp(LinkWords &words, const Words &archives, bool is_openmp, const Toolkit &toolkit);

} // namespace mynvcc
