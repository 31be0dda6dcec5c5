// Rule: nvstd::function holds any callable of its signature, in kernels and on the host, and owns a copy of it.
#include "check.h"

#include <nvfunctional>

struct Large {
    int values[40];
    __host__ __device__ int operator()(int index) const
    {
        return values[index];
    }
};

struct Counted {
    int *alive;
    __host__ __device__ explicit Counted(int *counter) : alive(counter)
    {
        ++*alive;
    }
    __host__ __device__ Counted(const Counted &other) : alive(other.alive)
    {
        ++*alive;
    }
    __host__ __device__ ~Counted()
    {
        --*alive;
    }
    __host__ __device__ int operator()(int more) const
    {
        return *alive + more;
    }
};

__host__ __device__ int twice(int value)
{
    return 2 * value;
}

template <class F> __host__ __device__ int applied(nvstd::function<int(int)> first, F then)
{
    return then(first(5));
}

__host__ __device__ void use(int *out)
{
    nvstd::function<int(int)> none, also_none(nullptr), f = twice;
    out[0] = !none && none == nullptr && also_none == nullptr && f != nullptr;
    out[1] = f(21);
    int base = 100;
    f = [base](int value) { return base + value; };
    out[2] = f(1);
    Large large{};
    for (int i = 0; i < 40; i++)
        large.values[i] = i * i;
    nvstd::function<int(int)> g = large, copy = g;
    large.values[9] = 0;
    out[3] = g(9) + copy(9);
    g.swap(f);
    out[4] = f(7) * 1000 + g(7);
    out[5] = applied(f, [&](int value) { return value + base; });
    int alive = 0;
    {
        nvstd::function<int(int)> counted{Counted(&alive)}, another = counted,
                                                            moved = static_cast<decltype(another) &&>(another);
        out[6] = alive * 10 + !another;
        out[7] = moved(40);
        moved = nullptr;
        out[8] = alive;
        counted = moved;
        out[9] = alive;
    }
    out[10] = alive;
    nvstd::function<void(int &)> add = [](int &value) { value += 3; };
    out[11] = 4;
    add(out[11]);
    int (*null)(int) = nullptr;
    nvstd::function<long(short)> wider = twice, from_null = null;
    out[12] = (int)wider(8) + (from_null ? 1000 : 0);
}

__global__ void kernel(int *out)
{
    use(out + 16 * threadIdx.x);
}

int main()
{
    const int expected[16] = {1, 42, 101, 162, 49107, 125, 21, 42, 1, 0, 0, 7, 16};
    int *out, on_device[16 * 33] = {}, on_host[16] = {};
    CHECK(cudaMalloc(&out, sizeof on_device));
    CHECK(cudaMemset(out, 0, sizeof on_device));
    kernel<<<1, 33>>>(out);
    CHECK(cudaMemcpy(on_device, out, sizeof on_device, cudaMemcpyDeviceToHost));
    use(on_host);
    for (int i = 0; i < 16; i++) {
        EXPECT_EQUAL(on_host[i], expected[i]);
        for (int thread = 0; thread < 33; thread++)
            EXPECT_EQUAL(on_device[16 * thread + i], expected[i]);
    }
    return finish();
}
