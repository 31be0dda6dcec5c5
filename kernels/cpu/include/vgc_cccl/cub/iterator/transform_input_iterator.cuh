#pragma once
#if __has_include_next(<cub/iterator/transform_input_iterator.cuh>)
#include_next <cub/iterator/transform_input_iterator.cuh>
#else
#include "vgc_facade.h"
CUB_NAMESPACE_BEGIN
template <class Value, class Operator, class Input, class Offset = ptrdiff_t>
class TransformInputIterator
    : public __vgc_input_facade<TransformInputIterator<Value, Operator, Input, Offset>, Value, Offset> {
  public:
    using self_type = TransformInputIterator;
    __VGC_CCCL_BOTH__ TransformInputIterator(Input input, Operator op) : op(op), input(input) {}

  private:
    friend __vgc_facade_access;
    __VGC_CCCL_BOTH__ Value dereference() const { return op(*input); }
    __VGC_CCCL_BOTH__ bool equal(const TransformInputIterator &other) const { return input == other.input; }
    __VGC_CCCL_BOTH__ void increment() { ++input; }
    __VGC_CCCL_BOTH__ void decrement() { --input; }
    __VGC_CCCL_BOTH__ void advance(Offset n) { input += n; }
    __VGC_CCCL_BOTH__ Offset distance_to(const TransformInputIterator &other) const {
        return static_cast<Offset>(other.input - input);
    }
    Operator op;
    Input input;
};
CUB_NAMESPACE_END
#endif
