// clang-format off: statements about types, a line per topic
// What NVRTC compiles only if kernels/cuda/include has it right (tests/unit/test_cuda_compile_kernels.py).
#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
using namespace std;
enum class E : short { a };
struct S { int x; }; struct D : S { virtual void f(); };
static_assert(is_same_v<decay_t<const int &>, int> && is_same_v<decay_t<int[3]>, int *> && is_same_v<decay_t<int(int)>, int (*)(int)>);
static_assert(is_integral_v<const unsigned long> && !is_integral_v<float> && is_floating_point_v<double> && is_signed_v<float> && is_unsigned_v<unsigned char> && !is_signed_v<S>);
static_assert(is_same_v<make_unsigned_t<int>, unsigned> && is_same_v<make_signed_t<unsigned long long>, long long> && is_same_v<make_signed_t<char>, signed char>);
static_assert(is_enum_v<E> && is_same_v<underlying_type_t<E>, short> && is_class_v<S> && is_base_of_v<S, D> && is_convertible_v<D *, S *> && !is_convertible_v<S *, D *>);
static_assert(is_trivially_copyable_v<S> && !is_trivially_copyable_v<D> && is_constructible_v<S> && is_pointer_v<int *const> && !is_pointer_v<int>);
static_assert(is_same_v<common_type_t<char, float, int>, float> && is_same_v<conditional_t<true, int, char>, int> && conjunction_v<true_type, is_same<int, int>> && !disjunction_v<false_type>);
static_assert(is_same_v<add_lvalue_reference_t<void>, void> && is_same_v<add_lvalue_reference_t<int>, int &> && is_function<int(int)>::value && !is_function<int>::value && rank<int[2][3]>::value == 2);
static_assert(is_same_v<make_index_sequence<3>, index_sequence<0, 1, 2>> && is_same_v<index_sequence_for<>, index_sequence<>>);
static_assert(numeric_limits<int>::max() == 2147483647 && numeric_limits<int>::min() == -2147483647 - 1 && numeric_limits<unsigned>::max() == 4294967295u && numeric_limits<signed char>::min() == -128);
static_assert(numeric_limits<long>::max() == 9223372036854775807L && numeric_limits<long>::min() < 0 && numeric_limits<unsigned long long>::max() == ~0ULL && numeric_limits<unsigned char>::min() == 0 && numeric_limits<short>::max() == 32767);
static_assert(numeric_limits<float>::max() > 3e38f && numeric_limits<float>::lowest() < -3e38f && numeric_limits<double>::infinity() > 1e308 && numeric_limits<float>::quiet_NaN() != numeric_limits<float>::quiet_NaN());
static_assert(numeric_limits<int>::digits == 31 && numeric_limits<int>::digits10 == 9 && numeric_limits<unsigned long>::digits10 == 19 && numeric_limits<long>::digits10 == 18 && numeric_limits<bool>::max() && numeric_limits<const float>::digits == 24);
template <class T> __device__ enable_if_t<is_integral_v<T>, T> half(T x) { return x / 2; }
template <class T> __device__ enable_if_t<is_floating_point_v<T>, T> half(T x) { return x * T(0.5); }
__global__ void k(float *x, int *y) { float m = numeric_limits<float>::lowest(); for (int i = 0; i < 8; i++) m = std::max(m, x[i]); x[0] = half(m); y[0] = half(std::min(y[0], 3)); std::swap(x[0], x[1]); auto p = std::make_pair(1, 2.5f); x[2] = p.first + p.second; std::pair q{1, 2}; y[2] = std::exchange(y[1], q.second); y[3] = std::clamp(y[3], 0, 7); S s = std::move(S{3}); y[4] = s.x; }
