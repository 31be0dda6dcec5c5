#pragma once
#if __has_include_next(<thrust/type_traits/remove_cvref.h>)
#include_next <thrust/type_traits/remove_cvref.h>
#else
#include <cuda/std/type_traits>
#include <thrust/detail/config.h>
THRUST_NAMESPACE_BEGIN
using ::cuda::std::remove_cvref;
using ::cuda::std::remove_cvref_t;
THRUST_NAMESPACE_END
#endif
