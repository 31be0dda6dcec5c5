// cuRAND's host functions.
#include <cstdio>
#include <new>

#include "generator.h"

#define API extern "C" __attribute__((visibility("default")))

using namespace vgc_rand;

struct curandGenerator_st {
    curandRngType_t type;
    const Family *family; // null: quasi-random
    bool on_host, is_fresh;
    curandOrdering_t order;
    cudaStream_t stream;
    unsigned long long seed, offset;
    unsigned dimensions, next; // next: stream whose turn it is
    unsigned long long point;  // of quasi-random sequences
    void *states;              // or directions and scrambles
    size_t states_bytes;
    curandDiscreteDistribution_t binomial; // the last one that was asked for, of these parameters
    unsigned binomial_n;
    double binomial_p;

    bool is_64_bit() const
    {
        return type == CURAND_RNG_QUASI_SOBOL64 || type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL64;
    }
    bool is_scrambled() const
    {
        return type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 || type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL64;
    }
    unsigned streams() const
    {
        return order == CURAND_ORDERING_PSEUDO_LEGACY ? family->legacy_streams : family->streams;
    }
};

namespace
{
bool is_missing(const char *what)
{
    fprintf(stderr, "virtio-gpu-compute: cuRAND: %s is not implemented\n", what);
    return true;
}

curandStatus_t reserve(curandGenerator_st &generator, size_t bytes)
{
    if (generator.states && generator.states_bytes == bytes)
        return CURAND_STATUS_SUCCESS;
    cudaFree(generator.states);
    generator.states = nullptr;
    generator.states_bytes = bytes;
    if (cudaMalloc(&generator.states, bytes) == cudaSuccess)
        return CURAND_STATUS_SUCCESS;
    cudaGetLastError();
    return CURAND_STATUS_ALLOCATION_FAILED;
}

// Brings the states, or the directions, to the device.
curandStatus_t start(curandGenerator_st &generator)
{
    if (const Family *const family = generator.family) {
        const unsigned streams = generator.streams();
        if (const curandStatus_t status = reserve(generator, streams * family->state_bytes))
            return status;
        if (family->start(generator.states, streams, generator.seed, generator.offset, generator.stream) != cudaSuccess)
            return CURAND_STATUS_LAUNCH_FAILURE;
        const unsigned group = family->group(BITS);
        generator.next = (unsigned)(generator.offset / group % streams);
    } else {
        const bool wide = generator.is_64_bit(), scrambled = generator.is_scrambled();
        const size_t word = wide ? 8 : 4, vectors = generator.dimensions * word * 8 * word,
                     shifts = generator.dimensions * word;
        if (const curandStatus_t status = reserve(generator, vectors + shifts))
            return status;
        const void *const directions = wide ? (const void *)directions64(scrambled) : directions32(scrambled);
        const void *const scrambles = wide ? (const void *)scrambles64() : scrambles32();
        if (cudaMemcpy(generator.states, directions, vectors, cudaMemcpyHostToDevice) != cudaSuccess ||
            cudaMemcpy((char *)generator.states + vectors, scrambles, shifts, cudaMemcpyHostToDevice) != cudaSuccess)
            return CURAND_STATUS_INITIALIZATION_FAILED;
        generator.point = generator.offset;
    }
    generator.is_fresh = false;
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t draw_on_device(curandGenerator_st &generator, const Draw &draw)
{
    cudaError_t error;
    if (const Family *const family = generator.family) {
        const unsigned streams = generator.streams(), group = family->group(draw.shape);
        Draw turn = draw;
        turn.first = generator.next;
        error = family->draw(generator.states, streams, turn, generator.stream);
        generator.next = (unsigned)((generator.next + (draw.count + group - 1) / group) % streams);
    } else {
        const size_t vectors = generator.dimensions * (generator.is_64_bit() ? 512 : 128);
        const QuasiDraw quasi = {draw, generator.states,
                                 generator.is_scrambled() ? (char *)generator.states + vectors : nullptr,
                                 generator.dimensions, generator.point};
        error = (generator.is_64_bit() ? draw_sobol64 : draw_sobol32)(quasi, generator.stream);
        generator.point += draw.count / generator.dimensions;
    }
    return error == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_LAUNCH_FAILURE;
}

curandStatus_t draw_for_host(curandGenerator_st &generator, Draw draw, size_t bytes)
{
    void *const output = draw.output;
    if (cudaMalloc(&draw.output, bytes) != cudaSuccess) {
        cudaGetLastError();
        return CURAND_STATUS_ALLOCATION_FAILED;
    }
    curandStatus_t status = draw_on_device(generator, draw);
    if (status == CURAND_STATUS_SUCCESS &&
        (cudaStreamSynchronize(generator.stream) != cudaSuccess ||
         cudaMemcpy(output, draw.output, bytes, cudaMemcpyDeviceToHost) != cudaSuccess))
        status = CURAND_STATUS_LAUNCH_FAILURE;
    cudaFree(draw.output);
    return status;
}

curandStatus_t generate(curandGenerator_t generator, Shape shape, void *output, size_t count, size_t bytes,
                        double mean = 0, double deviation = 0, curandDiscreteDistribution_t distribution = nullptr)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    const bool bits_differ = generator->is_64_bit() ? shape == BITS : shape == LONG_BITS;
    if (bits_differ)
        return CURAND_STATUS_TYPE_ERROR;
    const bool in_pairs = shape >= NORMAL && shape <= LOG_NORMAL_DOUBLE;
    if (generator->family ? in_pairs && count % 2 : count % generator->dimensions)
        return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    if (deviation < 0 || (shape == POISSON && !(mean > 0)))
        return CURAND_STATUS_OUT_OF_RANGE;
    if (generator->is_fresh)
        if (const curandStatus_t status = start(*generator))
            return status;
    if (count == 0)
        return CURAND_STATUS_SUCCESS;
    const Draw draw = {shape, output, count, mean, deviation, 0, distribution};
    return generator->on_host ? draw_for_host(*generator, draw, count * bytes) : draw_on_device(*generator, draw);
}

curandStatus_t create(curandGenerator_t *result, curandRngType_t type, bool on_host)
{
    if (!result)
        return CURAND_STATUS_TYPE_ERROR;
    const Family *family = nullptr;
    switch (type) {
    case CURAND_RNG_PSEUDO_DEFAULT:
    case CURAND_RNG_PSEUDO_XORWOW:
        family = xorwow();
        break;
    case CURAND_RNG_PSEUDO_MRG32K3A:
        family = mrg();
        break;
    case CURAND_RNG_PSEUDO_PHILOX4_32_10:
        family = philox();
        break;
    case CURAND_RNG_QUASI_DEFAULT:
        type = CURAND_RNG_QUASI_SOBOL32;
        break;
    case CURAND_RNG_QUASI_SOBOL32:
    case CURAND_RNG_QUASI_SCRAMBLED_SOBOL32:
    case CURAND_RNG_QUASI_SOBOL64:
    case CURAND_RNG_QUASI_SCRAMBLED_SOBOL64:
        break;
    case CURAND_RNG_PSEUDO_MT19937:
        family = mt19937();
        break;
    case CURAND_RNG_PSEUDO_MTGP32:
        family = mtgp32();
        break;
    default:
        return CURAND_STATUS_TYPE_ERROR;
    }
    *result = new (std::nothrow) curandGenerator_st{};
    if (!*result)
        return CURAND_STATUS_ALLOCATION_FAILED;
    (*result)->type = type;
    (*result)->family = family;
    (*result)->on_host = on_host;
    (*result)->is_fresh = true;
    (*result)->order = family ? CURAND_ORDERING_PSEUDO_DEFAULT : CURAND_ORDERING_QUASI_DEFAULT;
    (*result)->dimensions = 1;
    return CURAND_STATUS_SUCCESS;
}
} // namespace

API curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type)
{
    return create(generator, type, false);
}
API curandStatus_t curandCreateGeneratorHost(curandGenerator_t *generator, curandRngType_t type)
{
    return create(generator, type, true);
}
API curandStatus_t curandDestroyGenerator(curandGenerator_t generator)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    cudaFree(generator->states);
    cudaFree(generator->binomial);
    delete generator;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetVersion(int *version)
{
    if (!version)
        return CURAND_STATUS_OUT_OF_RANGE;
    *version = CURAND_VERSION;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetProperty(libraryPropertyType type, int *value)
{
    if (!value || type > PATCH_LEVEL)
        return CURAND_STATUS_OUT_OF_RANGE;
    *value = type == MAJOR_VERSION ? CURAND_VER_MAJOR : type == MINOR_VERSION ? CURAND_VER_MINOR : CURAND_VER_PATCH;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (stream != generator->stream && generator->states) // the states' last use must be over
        cudaStreamSynchronize(generator->stream);
    generator->stream = stream;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (!generator->family)
        return CURAND_STATUS_TYPE_ERROR;
    generator->seed = seed;
    generator->is_fresh = true;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (generator->family == philox() && offset % 4 && is_missing("an offset of Philox that is not a multiple of 4"))
        return CURAND_STATUS_OUT_OF_RANGE;
    if (generator->family == mt19937() && offset != 0 && is_missing("an offset of MT19937, as in NVIDIA's library"))
        return CURAND_STATUS_TYPE_ERROR;
    if (generator->family == mtgp32() && offset != 0 && is_missing("an offset of MTGP32, as in NVIDIA's library"))
        return CURAND_STATUS_TYPE_ERROR;
    generator->offset = offset;
    generator->is_fresh = true;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t order)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (order == CURAND_ORDERING_PSEUDO_SEEDED && is_missing("CURAND_ORDERING_PSEUDO_SEEDED"))
        return CURAND_STATUS_OUT_OF_RANGE;
    const bool is_pseudo = order >= CURAND_ORDERING_PSEUDO_BEST && order <= CURAND_ORDERING_PSEUDO_DYNAMIC;
    if (generator->family ? !is_pseudo : order != CURAND_ORDERING_QUASI_DEFAULT)
        return CURAND_STATUS_OUT_OF_RANGE;
    generator->order = order;
    generator->is_fresh = true;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned dimensions)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (generator->family)
        return CURAND_STATUS_TYPE_ERROR;
    if (dimensions > MOST_DIMENSIONS && dimensions <= 20000)
        is_missing("a Sobol sequence of more than 1111 dimensions");
    if (dimensions < 1 || dimensions > MOST_DIMENSIONS)
        return CURAND_STATUS_OUT_OF_RANGE;
    generator->dimensions = dimensions;
    generator->is_fresh = true;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGenerateSeeds(curandGenerator_t generator)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    return generator->is_fresh ? start(*generator) : CURAND_STATUS_SUCCESS;
}

API curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *output, size_t count)
{
    return generate(generator, BITS, output, count, sizeof *output);
}
API curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long *output, size_t count)
{
    return generate(generator, LONG_BITS, output, count, sizeof *output);
}
API curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *output, size_t count)
{
    return generate(generator, UNIFORM, output, count, sizeof *output);
}
API curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *output, size_t count)
{
    return generate(generator, UNIFORM_DOUBLE, output, count, sizeof *output);
}
API curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *output, size_t count, float mean,
                                        float deviation)
{
    return generate(generator, NORMAL, output, count, sizeof *output, mean, deviation);
}
API curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double *output, size_t count, double mean,
                                              double deviation)
{
    return generate(generator, NORMAL_DOUBLE, output, count, sizeof *output, mean, deviation);
}
API curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float *output, size_t count, float mean,
                                           float deviation)
{
    return generate(generator, LOG_NORMAL, output, count, sizeof *output, mean, deviation);
}
API curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double *output, size_t count, double mean,
                                                 double deviation)
{
    return generate(generator, LOG_NORMAL_DOUBLE, output, count, sizeof *output, mean, deviation);
}
API curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned *output, size_t count, double lambda)
{
    return generate(generator, POISSON, output, count, sizeof *output, lambda);
}
API curandStatus_t curandGenerateBinomial(curandGenerator_t generator, unsigned *output, size_t count, unsigned n,
                                          double p)
{
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (!(p >= 0 && p <= 1))
        return CURAND_STATUS_OUT_OF_RANGE;
    if (!generator->binomial || generator->binomial_n != n || generator->binomial_p != p) {
        cudaStreamSynchronize(generator->stream); // draws may still read the one before
        cudaFree(generator->binomial);
        generator->binomial = nullptr;
        if (const curandStatus_t status = make_binomial(n, p, &generator->binomial))
            return status;
        generator->binomial_n = n;
        generator->binomial_p = p;
    }
    return generate(generator, DISCRETE, output, count, sizeof *output, 0, 0, generator->binomial);
}
API curandStatus_t curandCreatePoissonDistribution(double lambda, curandDiscreteDistribution_t *distribution)
{
    if (!distribution || !(lambda > 0 && lambda <= 400000))
        return CURAND_STATUS_OUT_OF_RANGE;
    return make_poisson(lambda, distribution);
}
API curandStatus_t curandDestroyDistribution(curandDiscreteDistribution_t distribution)
{
    if (!distribution)
        return CURAND_STATUS_NOT_INITIALIZED;
    return cudaFree(distribution) == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_PREEXISTING_FAILURE;
}

API curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t *vectors[], curandDirectionVectorSet_t set)
{
    if (!vectors ||
        (set != CURAND_DIRECTION_VECTORS_32_JOEKUO6 && set != CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6))
        return CURAND_STATUS_OUT_OF_RANGE;
    *vectors = (curandDirectionVectors32_t *)directions32(set == CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t *vectors[], curandDirectionVectorSet_t set)
{
    if (!vectors ||
        (set != CURAND_DIRECTION_VECTORS_64_JOEKUO6 && set != CURAND_SCRAMBLED_DIRECTION_VECTORS_64_JOEKUO6))
        return CURAND_STATUS_OUT_OF_RANGE;
    *vectors = (curandDirectionVectors64_t *)directions64(set == CURAND_SCRAMBLED_DIRECTION_VECTORS_64_JOEKUO6);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetScrambleConstants32(unsigned **constants)
{
    if (!constants)
        return CURAND_STATUS_OUT_OF_RANGE;
    *constants = (unsigned *)scrambles32();
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetScrambleConstants64(unsigned long long **constants)
{
    if (!constants)
        return CURAND_STATUS_OUT_OF_RANGE;
    *constants = (unsigned long long *)scrambles64();
    return CURAND_STATUS_SUCCESS;
}
