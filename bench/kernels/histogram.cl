#define GROUP 256

/* Counts how often each byte occurs, in a table per work-group in local memory, added to the totals at the end. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void histogram(ulong n, __global const uchar *data, __global uint *bins)
{
    __local uint counts[GROUP];
    uint item = get_local_id(0);
    counts[item] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&counts[data[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&bins[item], counts[item]);
}
