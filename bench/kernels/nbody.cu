/* Computes the acceleration of body i under the pull of all n; body = {x, y, z, mass}. */
extern "C" __global__ void nbody(unsigned long long n, const float4 *__restrict__ body, float4 *__restrict__ out)
{
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = body[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (unsigned long long j = 0; j < n; j++) {
        float4 other = body[j];
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        float inv = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
        float pull = other.w * inv * inv * inv;
        ax += dx * pull;
        ay += dy * pull;
        az += dz * pull;
    }
    out[i] = make_float4(ax, ay, az, 0.0f);
}
