#pragma once
#if __has_include_next(<thrust/optional.h>)
#include_next <thrust/optional.h>
#else
#include <cuda/std/optional>
#include <cuda/std/utility>
#include <thrust/detail/config.h>
THRUST_NAMESPACE_BEGIN
using ::cuda::std::in_place;
using ::cuda::std::in_place_t;
using ::cuda::std::make_optional;
using ::cuda::std::nullopt;
using ::cuda::std::nullopt_t;
using ::cuda::std::optional;
THRUST_NAMESPACE_END
#endif
