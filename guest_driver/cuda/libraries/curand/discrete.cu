// Discrete distributions as curand_discrete() reads them: Marsaglia, Tsang and Wang's squared histogram ("Fast
// generation of discrete random variables", 2004, method II), in one block of device memory.
#include <algorithm>
#include <cmath>
#include <vector>

#include <curand_kernel.h>

#include "generator.h"

namespace vgc_rand
{
namespace
{
constexpr double REACH = 12; // standard deviations on each side; what lies beyond has less weight than a draw's 32 bits

struct Block {
    curandDiscreteDistribution_st distribution;
    curandDistributionM2Shift_st shifted;
    curandHistogramM2_st histogram;
};

// Squares of equal width, each with its own number up to a threshold and another number above.
void square(std::vector<double> weights, std::vector<double> &thresholds, std::vector<unsigned> &others)
{
    const size_t count = weights.size();
    const double width = 1.0 / (double)count;
    std::vector<unsigned> low, high;
    for (unsigned k = 0; k < count; k++) {
        thresholds[k] = (k + 1) * width;
        others[k] = k;
        (weights[k] < width ? low : high).push_back(k);
    }
    while (!low.empty() && !high.empty()) {
        const unsigned poor = low.back(), rich = high.back();
        low.pop_back();
        thresholds[poor] = weights[poor] + poor * width;
        others[poor] = rich;
        weights[rich] -= width - weights[poor];
        if (weights[rich] < width) {
            high.pop_back();
            low.push_back(rich);
        }
    }
}

template <class Weight>
curandStatus_t make(double mean, double deviation, double last, Weight log_weight, curandDiscreteDistribution_t *result)
{
    const double first = std::max(0.0, std::floor(mean - REACH * deviation - REACH));
    const double end = std::min(last, std::ceil(mean + REACH * deviation + REACH));
    std::vector<double> weights((size_t)(end - first) + 1);
    double sum = 0;
    for (size_t k = 0; k < weights.size(); k++)
        sum += weights[k] = std::exp(log_weight(first + (double)k));
    for (double &weight : weights)
        weight /= sum;
    const size_t count = weights.size() + 1, at_thresholds = sizeof(Block),
                 at_others = at_thresholds + count * sizeof(double), size = at_others + count * sizeof(unsigned);
    std::vector<double> thresholds(count);
    std::vector<unsigned> others(count);
    square(weights, thresholds, others);
    others[count - 1] = others[count - 2]; // the largest of 32-bit numbers is drawn as 1
    char *memory;
    if (cudaMalloc(&memory, size) != cudaSuccess) {
        cudaGetLastError();
        return CURAND_STATUS_ALLOCATION_FAILED;
    }
    Block *const device = (Block *)memory;
    Block block = {};
    block.distribution.M2 = &device->shifted;
    block.distribution.mean = mean;
    block.distribution.stddev = deviation;
    block.distribution.method = CURAND_M2;
    block.shifted.histogram = &device->histogram;
    block.shifted.shift = (unsigned)first;
    block.shifted.length = (unsigned)weights.size();
    block.histogram.V = (double *)(memory + at_thresholds);
    block.histogram.K = (unsigned *)(memory + at_others);
    std::vector<char> image(size);
    std::copy_n((const char *)&block, sizeof block, image.data());
    std::copy_n((const char *)thresholds.data(), count * sizeof(double), image.data() + at_thresholds);
    std::copy_n((const char *)others.data(), count * sizeof(unsigned), image.data() + at_others);
    if (cudaMemcpy(memory, image.data(), size, cudaMemcpyHostToDevice) != cudaSuccess) {
        cudaFree(memory);
        return CURAND_STATUS_PREEXISTING_FAILURE;
    }
    *result = &device->distribution;
    return CURAND_STATUS_SUCCESS;
}
} // namespace

curandStatus_t make_poisson(double lambda, curandDiscreteDistribution_t *result)
{
    const auto log_weight = [lambda](double k) { return k * std::log(lambda) - lambda - std::lgamma(k + 1); };
    return make(lambda, std::sqrt(lambda), 4294967295.0, log_weight, result);
}

curandStatus_t make_binomial(unsigned n, double p, curandDiscreteDistribution_t *result)
{
    const double all = std::lgamma(n + 1.0);
    const auto log_weight = [=](double k) {
        if (p <= 0 || p >= 1)
            return k == (p <= 0 ? 0.0 : (double)n) ? 0.0 : -INFINITY;
        return all - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) + (n - k) * std::log1p(-p);
    };
    return make(n * p, std::sqrt(n * p * (1 - p)), n, log_weight, result);
}

} // namespace vgc_rand
