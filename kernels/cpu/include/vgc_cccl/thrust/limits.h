#pragma once
#if __has_include_next(<thrust/limits.h>)
#include_next <thrust/limits.h>
#else
#include <thrust/detail/config.h>

#include <limits>
THRUST_NAMESPACE_BEGIN
template <class T> struct numeric_limits : std::numeric_limits<T> {};
THRUST_NAMESPACE_END
#endif
