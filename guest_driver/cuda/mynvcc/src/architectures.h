// Architectures of GPUs, as -arch, -code and -gencode name them. They choose nothing here, but wrong ones are refused.
#pragma once
#include "options.h"

namespace mynvcc
{

void set_architecture(Options &options, const std::string &value);
void add_code(Options &options, const std::string &value);
void add_generated_code(Options &options, const std::string &value);
/// Fails if what -arch and -code name does not go together.
void check_architectures(const Options &options);
/// The one that notes on commands name, where CMake looks for it.
std::string noted_architecture(const Options &options);
/// What --list-gpu-arch and --list-gpu-code print: builds look for what they ask for.
std::string architectures_text(const std::string &prefix);

} // namespace mynvcc
