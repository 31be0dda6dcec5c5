/* All of CUB's headers begin with this one. Until release 2, most brought along what follows it. */
#pragma once
#include "../vgc_release.h"
#include_next <cub/config.cuh>
#include <cub/version.cuh>
#if CUB_MAJOR_VERSION >= 3
#include <iostream>
#endif
