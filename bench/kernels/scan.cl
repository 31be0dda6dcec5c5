#define GROUP 256

/* Inclusive prefix sums within groups, by doubling distances in local memory; each group's total into `totals`. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan_blocks(__global const uint *restrict in, __global uint *restrict out, __global uint *restrict totals)
{
    __local uint sums[2][GROUP];
    uint thread = get_local_id(0);
    uint i = get_group_id(0) * GROUP + thread;
    uint from = 0;
    sums[0][thread] = in[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint distance = 1; distance < GROUP; distance *= 2) {
        uint sum = sums[from][thread];
        if (thread >= distance)
            sum += sums[from][thread - distance];
        sums[1 - from][thread] = sum;
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = sums[from][thread];
    if (thread == GROUP - 1)
        totals[get_group_id(0)] = sums[from][thread];
}

/* Adds to each group the sum of all groups before it. */
__kernel void scan_add(__global uint *restrict out, __global const uint *restrict totals)
{
    if (get_group_id(0) > 0)
        out[get_group_id(0) * GROUP + get_local_id(0)] += totals[get_group_id(0) - 1];
}
