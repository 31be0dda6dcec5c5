// Launches in device code, which clang refuses where a kernel has overloads or is a template: it says that no function
// of the device may call a kernel. Lambdas that are for the host, too, may.
#pragma once
#include <string>

namespace mynvcc
{

/// True if a kernel or another function of the device launches kernels.
bool launches_in_device_code(const std::string &text);
/// Puts each of these launches into a lambda for host and device. Lines stay what they are; columns behind a launch
/// move. Headers of the system, in what clang's -frewrite-includes wrote, stay as they are.
std::string with_launching_lambdas(const std::string &text);

} // namespace mynvcc
