/* All of Thrust's headers begin with this one. Until release 2, they brought along what follows it, which includes none of
 * the others. */
#pragma once
#include "../../vgc_release.h"
#include_next <thrust/detail/config.h>
#include <thrust/version.h>
#if THRUST_MAJOR_VERSION >= 3
#include <iostream>
#include <thrust/advance.h>
#include <thrust/distance.h>
#include <thrust/iterator/reverse_iterator.h>
#include <thrust/pair.h>
#include <thrust/tuple.h>
#endif
