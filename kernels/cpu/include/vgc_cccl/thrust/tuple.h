#pragma once
#include_next <thrust/tuple.h>
#include <thrust/version.h>
#if THRUST_MAJOR_VERSION >= 3
THRUST_NAMESPACE_BEGIN
struct null_type {};
THRUST_NAMESPACE_END
#endif
