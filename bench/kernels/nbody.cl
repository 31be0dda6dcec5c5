/* Computes the acceleration of body i under the pull of all n; body = {x, y, z, mass}. */
__kernel void nbody(ulong n, __global const float4 *body, __global float4 *out)
{
    ulong i = get_global_id(0);
    float4 me = body[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (ulong j = 0; j < n; j++) {
        float4 other = body[j];
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        float inv = 1.0f / sqrt(dx * dx + dy * dy + dz * dz + 1e-3f);
        float pull = other.w * inv * inv * inv;
        ax += dx * pull;
        ay += dy * pull;
        az += dz * pull;
    }
    out[i] = (float4)(ax, ay, az, 0.0f);
}
