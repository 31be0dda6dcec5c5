// Loops inside the loop over threads: turned inside out, so that what is vectorised is the loop over threads.
#pragma once

#include "thread_loop.h"

namespace vgc
{

/// Rewrites the region if it has inner loops and all in them can be vectorised. True if it did.
bool turn_inside_out(ThreadLoop &loop);

} // namespace vgc
