#pragma once
#include_next <thrust/functional.h>
#include <thrust/version.h>

#include "../vgc_release.h"
#if THRUST_MAJOR_VERSION >= 3
THRUST_NAMESPACE_BEGIN
template <class Argument, class Result> struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <class Argument1, class Argument2, class Result> struct binary_function {
    using first_argument_type = Argument1;
    using second_argument_type = Argument2;
    using result_type = Result;
};

template <class T = void> struct identity {
    using argument_type = T;
    using result_type = T;
    __VGC_CCCL_BOTH__ constexpr const T &operator()(const T &value) const { return value; }
};
template <> struct identity<void> {
    using is_transparent = void;
    template <class T> __VGC_CCCL_BOTH__ constexpr T &&operator()(T &&value) const { return static_cast<T &&>(value); }
};

template <class Predicate> struct unary_negate {
    using argument_type = typename Predicate::argument_type;
    using result_type = bool;
    Predicate pred;
    __VGC_CCCL_BOTH__ explicit unary_negate(Predicate predicate) : pred(predicate) {}
    __VGC_CCCL_BOTH__ bool operator()(const argument_type &value) { return !pred(value); }
};
template <class Predicate> struct binary_negate {
    using first_argument_type = typename Predicate::first_argument_type;
    using second_argument_type = typename Predicate::second_argument_type;
    using result_type = bool;
    Predicate pred;
    __VGC_CCCL_BOTH__ explicit binary_negate(Predicate predicate) : pred(predicate) {}
    __VGC_CCCL_BOTH__ bool operator()(const first_argument_type &a, const second_argument_type &b) { return !pred(a, b); }
};
template <class Predicate> __VGC_CCCL_BOTH__ unary_negate<Predicate> not1(const Predicate &predicate) {
    return unary_negate<Predicate>(predicate);
}
template <class Predicate> __VGC_CCCL_BOTH__ binary_negate<Predicate> not2(const Predicate &predicate) {
    return binary_negate<Predicate>(predicate);
}
THRUST_NAMESPACE_END
#endif
