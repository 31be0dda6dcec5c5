/* Blocks whose lengths the row chooses: block `long_one` takes `long_rounds` steps, all others `rounds`. */
extern "C" __global__ void uneven(unsigned rounds, unsigned long_one, unsigned long_rounds, float *out)
{
    unsigned count = blockIdx.x == long_one ? long_rounds : rounds;
    float x = 0.0f;
    for (unsigned round = 0; round < count; round++)
        x = x * 0.75f + 1.0f;
    out[blockIdx.x] = x;
}
