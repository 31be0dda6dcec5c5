#pragma once
#if __has_include_next(<thrust/type_traits/void_t.h>)
#include_next <thrust/type_traits/void_t.h>
#else
#include <thrust/detail/config.h>
THRUST_NAMESPACE_BEGIN
template <class...> struct voider {
    using type = void;
};
template <class... Types> using void_t = typename voider<Types...>::type;
THRUST_NAMESPACE_END
#endif
