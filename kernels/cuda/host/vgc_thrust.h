/* Headers that others of Thrust include no more since CUDA 13, for sources that rely on it. */
#pragma once

#if __has_include(<thrust/version.h>)
#include <thrust/version.h>
#if THRUST_MAJOR_VERSION >= 3
#include <thrust/advance.h>
#include <thrust/distance.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/pair.h>
#include <thrust/swap.h>
#include <thrust/tuple.h>
#endif
#endif
