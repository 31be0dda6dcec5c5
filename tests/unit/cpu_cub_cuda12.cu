// Names that CUB and Thrust had in CUDA 12, in kernels.
#include <cub/cub.cuh>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/optional.h>
#include <thrust/transform_reduce.h>

extern "C" __global__ void lanes(unsigned *out)
{
    const unsigned t = threadIdx.x + blockDim.x * threadIdx.y, size = blockDim.x * blockDim.y;
    unsigned inserted;
    cub::BFI(inserted, 0xffffffffu, t, 4, 8);
    const unsigned words[] = {cub::LaneId(),
                              cub::WarpId(),
                              cub::LaneMaskLt(),
                              cub::LaneMaskLe(),
                              cub::LaneMaskGt(),
                              cub::LaneMaskGe(),
                              inserted,
                              cub::SHL_ADD(t, 3, 1000),
                              cub::SHR_ADD(t, 1, 1000),
                              cub::IADD3(t, 20, 300),
                              static_cast<unsigned>(cub::PRMT(t, 0x44332211, 0x4070)),
                              cub::SHFL_IDX_SYNC(t, 5, ~0u),
                              static_cast<unsigned>(cub::WARP_BALLOT(t % 3 == 0, ~0u))};
    for (int i = 0; i < 13; i++)
        out[i * size + t] = words[i];
}

struct Doubled {
    __host__ __device__ double operator()(int x) const
    {
        return 2.0 * x;
    }
};

extern "C" __global__ void operators(const int *in, double *out)
{
    using Reduce = cub::BlockReduce<int, 64>;
    using Scan = cub::BlockScan<int, 64>;
    __shared__ union {
        Reduce::TempStorage reduce;
        Scan::TempStorage scan;
    } room;
    const int x = in[threadIdx.x], most = Reduce(room.reduce).Reduce(x, cub::Max());
    __syncthreads();
    const int least = Reduce(room.reduce).Reduce(x, cub::Min());
    __syncthreads();
    int sum;
    Scan(room.scan).InclusiveScan(x, sum, cub::Sum());
    if (threadIdx.x == 0) {
        out[0] = most;
        out[1] = least;
    }
    if (threadIdx.x == 63)
        out[2] = sum;
    if (threadIdx.x > 0)
        return;
    out[3] = cub::Equality()(x, in[0]) + 2 * cub::Inequality()(x, in[0]);
    out[4] = cub::MakeBinaryFlip(cub::Difference())(10, 3);
    out[5] = cub::Division()(10.0, 4.0);
    out[6] = cub::FpLimits<float>::Max();
    out[7] = CUB_MAX(3, 4) + CUB_ROUND_UP_NEAREST(13, 8) + cub::DivideAndRoundUp(13, 4) + cub::Int2Type<7>::VALUE;
}

extern "C" __global__ void iterators(const int *in, double *out)
{
    cub::TransformInputIterator<double, Doubled, const int *> doubled(in, Doubled());
    const auto third = doubled + 3;
    cub::CountingInputIterator<int> count(40);
    cub::ConstantInputIterator<float> constant(2.5f);
    cub::DiscardOutputIterator<> nowhere;
    nowhere[5] = 1.0;
    *nowhere++ = 2;
    ++count;
    out[0] = doubled[2];
    out[1] = *third;
    out[2] = third - doubled;
    out[3] = count[4];
    out[4] = constant[100];
    out[5] = (doubled != third) + 2 * (third == doubled) + 4 * (doubled + 3 == third);
    out[6] = *(count += 9);
}

struct Even : thrust::unary_function<int, bool> {
    __host__ __device__ bool operator()(int x) const
    {
        return x % 2 == 0;
    }
};
struct Before : thrust::binary_function<int, int, bool> {
    __host__ __device__ bool operator()(int a, int b) const
    {
        return a < b;
    }
};

extern "C" __global__ void functions(const int *in, int *out, int count)
{
    const thrust::tuple<int, int> both = thrust::make_tuple(in[0], in[1]);
    thrust::optional<int> none = thrust::nullopt, some = thrust::get<1>(both);
    Before::first_argument_type first = in[0];
    out[0] = static_cast<int>(thrust::distance(in, in + count));
    out[1] = thrust::count_if(thrust::seq, in, in + count, thrust::not1(Even()));
    out[2] = thrust::identity<int>()(first);
    out[3] = thrust::not2(Before())(1, 1);
    out[4] = none.value_or(-1) + *some;
    out[5] = thrust::transform_reduce(thrust::seq, in, in + count, thrust::identity<>(), 0, thrust::plus<int>());
}
