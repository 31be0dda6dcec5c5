#pragma once
#if __has_include_next(<cub/iterator/constant_input_iterator.cuh>)
#include_next <cub/iterator/constant_input_iterator.cuh>
#else
#include "vgc_facade.h"
CUB_NAMESPACE_BEGIN
template <class Value, class Offset = ptrdiff_t>
class ConstantInputIterator : public __vgc_input_facade<ConstantInputIterator<Value, Offset>, Value, Offset> {
  public:
    using self_type = ConstantInputIterator;
    __VGC_CCCL_BOTH__ ConstantInputIterator(Value value, Offset offset = 0) : value(value), place(offset) {}

  private:
    friend __vgc_facade_access;
    __VGC_CCCL_BOTH__ Value dereference() const { return value; }
    __VGC_CCCL_BOTH__ bool equal(const ConstantInputIterator &other) const { return place == other.place && value == other.value; }
    __VGC_CCCL_BOTH__ void increment() { place++; }
    __VGC_CCCL_BOTH__ void decrement() { place--; }
    __VGC_CCCL_BOTH__ void advance(Offset n) { place += n; }
    __VGC_CCCL_BOTH__ Offset distance_to(const ConstantInputIterator &other) const { return other.place - place; }
    Value value;
    Offset place;
};
CUB_NAMESPACE_END
#endif
