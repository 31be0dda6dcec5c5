/* Host unit of separate_units.cu, which is no CUDA source. */
#include "separate.h"
#include <numeric>

int host_sum(const int *values, int count)
{
    return std::accumulate(values, values + count, 0);
}
