/* Base of the iterators that release 3 of CCCL has in Thrust alone, under other names. */
#pragma once
#include <cub/config.cuh>
#include <thrust/iterator/iterator_facade.h>

#include "../../vgc_release.h"
CUB_NAMESPACE_BEGIN
template <class Self, class Value, class Offset>
using __vgc_input_facade =
    THRUST_NS_QUALIFIER::iterator_facade<Self, Value, THRUST_NS_QUALIFIER::any_system_tag,
                                         THRUST_NS_QUALIFIER::random_access_traversal_tag, Value, Offset>;
using __vgc_facade_access = THRUST_NS_QUALIFIER::iterator_core_access;
CUB_NAMESPACE_END
