// Compilation of device code while a program is built (--check).
#pragma once
#include "process.h"

namespace mynvcc
{

/// Has the device compile the code of a container and prints its compiler's log. Raises Failure if the code does not
/// compile, or if there is no device.
void check_device_code(const std::string &top, const std::string &blob);

} // namespace mynvcc
