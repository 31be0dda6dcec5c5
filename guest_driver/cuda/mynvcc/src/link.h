// Objects to programs and libraries.
#pragma once
#include "options.h"
#include "toolkit.h"

namespace mynvcc
{

/// Links a program or, with -shared, a library, against the toolkit's CUDA runtime.
void link_objects(const Options &options, const Toolkit &toolkit, const Words &objects, const std::string &output);
/// Puts objects into a static library.
void archive_objects(const Options &options, const Words &objects, const std::string &output);
/// Makes the object file of a device link: it refers to the units in static libraries, and is empty otherwise.
void make_device_link(const Options &options, const Toolkit &toolkit, const WorkFolder &work,
                      const std::string &output);
/// The words that link the CUDA runtime.
Words runtime_words(const Options &options, const Toolkit &toolkit);

} // namespace mynvcc
