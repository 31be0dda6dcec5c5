/* Arithmetic with almost no memory access: every thread takes `rounds` steps towards b / (1 - a); the first thread of
 * each block writes its result. The others would if it were below 0, which a compiler cannot rule out. */
extern "C" __global__ void busy(unsigned rounds, float a, float b, float *__restrict__ out)
{
    float x = 0.0f;
    for (unsigned round = 0; round < rounds; round++)
        x = x * a + b;
    if (threadIdx.x == 0 || x < 0.0f)
        out[blockIdx.x] = x;
}
