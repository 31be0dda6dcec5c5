// A program of several sources, as a guest sends it: struct vgc_units of the wire format.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace vgc
{

/// Source of a program of several.
struct Unit {
    Options options; // the program's and the unit's own; `input` is the unit's name
    std::string text;
};

/// Takes the input apart. Nothing in it is trusted.
std::vector<Unit> read_units(const Options &options);

} // namespace vgc
