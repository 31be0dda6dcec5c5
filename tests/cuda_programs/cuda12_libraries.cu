// Rule: Programs for CUDA 12 use names that its CUB and Thrust had and that later releases do not have, or have in
// headers which a program must include itself.
// flags: -std=c++17
// needs: cccl
#include "check.h"
#include <cub/cub.cuh>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/sort.h>

struct Squared : thrust::unary_function<int, long long> {
    __host__ __device__ long long operator()(int x) const
    {
        return 1LL * x * x;
    }
};
struct Odd : thrust::unary_function<int, bool> {
    __host__ __device__ bool operator()(int x) const
    {
        return x % 2 != 0;
    }
};

template <class Input, class Output, class Operator>
static void reduce(Input in, Output out, int count, Operator op, long long first)
{
    size_t bytes = 0;
    void *room = nullptr;
    CHECK(cub::DeviceReduce::Reduce(room, bytes, in, out, count, op, first));
    CHECK(cudaMalloc(&room, bytes));
    CHECK(cub::DeviceReduce::Reduce(room, bytes, in, out, count, op, first));
    CHECK(cudaFree(room));
}

int main()
{
    const int count = 1000;
    thrust::device_vector<long long> results(3);
    long long *const out = thrust::raw_pointer_cast(results.data());
    cub::CountingInputIterator<int> numbers(0);
    cub::TransformInputIterator<long long, Squared, cub::CountingInputIterator<int>> squares(numbers, Squared());
    reduce(squares, out, count, cub::Sum(), 0);
    reduce(numbers, out + 1, count, cub::Max(), 0);
    reduce(cub::ConstantInputIterator<int>(7), out + 2, count, cub::Min(), 100);
    EXPECT_EQUAL(results[0], 332833500LL);
    EXPECT_EQUAL(results[1], 999LL);
    EXPECT_EQUAL(results[2], 7LL);

    thrust::device_vector<int> keys(count), runs(count), found(1);
    for (int i = 0; i < count; i++)
        keys[i] = i / 10;
    size_t bytes = 0;
    void *room = nullptr;
    for (int call = 0; call < 2; call++) {
        CHECK(cub::DeviceRunLengthEncode::Encode(room, bytes, keys.begin(), cub::DiscardOutputIterator<>(),
                                                 runs.begin(), found.begin(), count));
        if (call == 0)
            CHECK(cudaMalloc(&room, bytes));
    }
    CHECK(cudaFree(room));
    EXPECT_EQUAL(found[0], 100);
    EXPECT_EQUAL(runs[99], 10);

    EXPECT_EQUAL((int)thrust::count_if(keys.begin(), keys.end(), thrust::not1(Odd())), 500);
    EXPECT_EQUAL((int)thrust::distance(keys.begin(), keys.end()), count);
    thrust::pair<int, int> ends(keys[0], keys[count - 1]);
    thrust::tuple<int, int> both = thrust::make_tuple(ends.first, ends.second);
    std::cout << "from " << thrust::get<0>(both) << " to " << thrust::get<1>(both) << std::endl;
    thrust::transform(keys.begin(), keys.end(), runs.begin(), thrust::identity<int>());
    EXPECT_EQUAL(runs[555], 55);

    // 1 2 0    rows of a sparse matrix
    // 0 0 3
    thrust::device_vector<double> values(3), x(3, 2.0), y(2);
    thrust::device_vector<int> offsets(3), columns(3);
    for (int i = 0; i < 3; i++) {
        values[i] = i + 1;
        offsets[i] = i == 0 ? 0 : i + 1;
        columns[i] = i;
    }
    room = nullptr;
    for (int call = 0; call < 2; call++) {
        CHECK(cub::DeviceSpmv::CsrMV(room, bytes, values.data().get(), offsets.data().get(), columns.data().get(),
                                     x.data().get(), y.data().get(), 2, 3, 3));
        if (call == 0)
            CHECK(cudaMalloc(&room, bytes));
    }
    CHECK(cudaFree(room));
    EXPECT_EQUAL((int)y[0], 6);
    EXPECT_EQUAL((int)y[1], 6);
    return finish();
}
