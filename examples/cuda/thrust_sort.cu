// Sorts on the device with Thrust (its headers: pip install nvidia-cuda-cccl, or a CUDA toolkit's).
//
//     mynvcc examples/cuda/thrust_sort.cu -o thrust_sort && ./thrust_sort
#include <cstdio>

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

int main()
{
    thrust::host_vector<int> numbers(100000);
    long long sum = 0;
    unsigned state = 1;
    for (int &number : numbers) {
        state = state * 1664525u + 1013904223u;
        number = int(state >> 16);
        sum += number;
    }
    thrust::device_vector<int> on_device = numbers;
    thrust::sort(on_device.begin(), on_device.end());
    const long long sum_there = thrust::reduce(on_device.begin(), on_device.end(), 0ll);
    numbers = on_device;
    for (size_t i = 1; i < numbers.size(); i++) {
        if (numbers[i - 1] > numbers[i]) {
            std::printf("element %zu is out of order\n", i);
            return 1;
        }
    }
    if (sum != sum_there) {
        std::printf("the sum is %lld, not %lld\n", sum_there, sum);
        return 1;
    }
    std::printf("%zu numbers are sorted\n", numbers.size());
    return 0;
}
