#define GROUP 256

/* Every work-group sums a share of x with a stride of the whole grid, then its items' sums in a tree; the first
 * item writes the group's sum. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reduce(ulong n, __global const float *x, __global float *sums)
{
    __local float parts[GROUP];
    uint item = get_local_id(0);
    float sum = 0.0f;
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0))
        sum += x[i];
    parts[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        if (item < half_size)
            parts[item] += parts[item + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0)
        sums[get_group_id(0)] = parts[0];
}
