// Object files of relocatable device code (-rdc=true).
#pragma once
#include "process.h"

#include <set>

namespace mynvcc
{

/// Makes an object of clang's -fgpu-rdc fit for linking without a device linker: the function that would register its
/// unit becomes __vgc_register_relocatable (vgc_host_api.h), and its wrapper's name, which clang makes of the path as
/// written, that of `source` and `macros`, so that files of the same name can be linked.
void make_linkable(const std::string &object, const std::string &source, const std::string &macros);

/// Names of the wrappers of all units in the bytes of such objects, or of an archive of them.
std::set<std::string> units_in(const std::string &bytes);

} // namespace mynvcc
