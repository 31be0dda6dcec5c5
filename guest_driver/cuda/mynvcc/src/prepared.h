// Precompiled headers of the host half: parsing CUDA's headers is most of the time that a small program takes.
#pragma once
#include "process.h"
#include "toolkit.h"

namespace mynvcc
{

/// The words of a command that compiles a host half, with a precompiled header in the place of cuda_runtime.h; the same
/// words where mynvcc cannot make or keep one. Precompiled headers are kept per user, or come from the installation,
/// and are used as long as compiler, options and headers are what they were made of.
Words with_prepared_header(const Words &command, const Toolkit &toolkit);
/// Makes those of the usual options in TOP/prepared, for all users: `mynvcc --prepare`, at the installation.
void prepare_headers();

} // namespace mynvcc
