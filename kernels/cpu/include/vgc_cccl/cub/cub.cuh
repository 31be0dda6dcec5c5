#pragma once
#include_next <cub/cub.cuh>
#include <cub/version.cuh>
#if CUB_MAJOR_VERSION >= 3
#include <cub/device/device_spmv.cuh>
#include <cub/iterator/constant_input_iterator.cuh>
#include <cub/iterator/counting_input_iterator.cuh>
#include <cub/iterator/discard_output_iterator.cuh>
#include <cub/iterator/transform_input_iterator.cuh>
#endif
