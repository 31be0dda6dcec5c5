#pragma once
#if __has_include_next(<cub/iterator/counting_input_iterator.cuh>)
#include_next <cub/iterator/counting_input_iterator.cuh>
#else
#include "vgc_facade.h"
CUB_NAMESPACE_BEGIN
template <class Value, class Offset = ptrdiff_t>
class CountingInputIterator : public __vgc_input_facade<CountingInputIterator<Value, Offset>, Value, Offset> {
  public:
    using self_type = CountingInputIterator;
    __VGC_CCCL_BOTH__ CountingInputIterator(const Value &value) : value(value) {}

  private:
    friend __vgc_facade_access;
    __VGC_CCCL_BOTH__ Value dereference() const { return value; }
    __VGC_CCCL_BOTH__ bool equal(const CountingInputIterator &other) const { return value == other.value; }
    __VGC_CCCL_BOTH__ void increment() { value++; }
    __VGC_CCCL_BOTH__ void decrement() { value--; }
    __VGC_CCCL_BOTH__ void advance(Offset n) { value += static_cast<Value>(n); }
    __VGC_CCCL_BOTH__ Offset distance_to(const CountingInputIterator &other) const {
        return static_cast<Offset>(other.value - value);
    }
    Value value;
};
CUB_NAMESPACE_END
#endif
