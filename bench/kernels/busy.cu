/* Arithmetic and next to nothing else: every thread takes `rounds` steps towards b / (1 - a); the first of each block
 * writes where it got. The rest would if they got below 0: that they do not is more than a compiler can know. */
extern "C" __global__ void busy(unsigned rounds, float a, float b, float *__restrict__ out)
{
    float x = 0.0f;
    for (unsigned round = 0; round < rounds; round++)
        x = x * a + b;
    if (threadIdx.x == 0 || x < 0.0f)
        out[blockIdx.x] = x;
}
