// Scans, compressions and sorting of indices.
#include "elements.h"
#include "structure.h"

using namespace vgc_sparse;

namespace
{
constexpr int SCANNERS = 1024, RUN = 16;

// The sum of one number of each thread before this thread's; all threads of the block take part.
__device__ long long sum_before(long long mine, long long *sums)
{
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        const long long other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
        __syncthreads();
    }
    return sums[threadIdx.x] - mine;
}
// One block, whose threads have a part of the numbers each.
__global__ void __launch_bounds__(SCANNERS) scan_counts(Indices counts, long long count)
{
    __shared__ long long sums[SCANNERS];
    const long long part = (count + SCANNERS - 1) / SCANNERS, first = threadIdx.x * part;
    const long long end = first + part < count ? first + part : count;
    long long mine = 0;
    for (long long i = first; i < end; i++)
        mine += index_at(counts.data, counts.wide, i + 1);
    long long at = sum_before(mine, sums);
    if (threadIdx.x == 0)
        put(counts, 0, 0);
    for (long long i = first; i < end; i++) {
        at += index_at(counts.data, counts.wide, i + 1);
        put(counts, i + 1, at);
    }
}
__global__ void __launch_bounds__(SCANNERS) sum_counts(const int *counts, long long count, int *sum)
{
    __shared__ long long sums[SCANNERS];
    long long mine = 0;
    for (long long i = threadIdx.x; i < count; i += SCANNERS)
        mine += counts[i];
    mine += sum_before(mine, sums);
    if (threadIdx.x == SCANNERS - 1)
        *sum = (int)mine;
}
__global__ void expand_rows(Indices offsets, Indices outer, long long count)
{
    const long long row = thread_number();
    if (row < count)
        for (long long at = get(offsets, row); at < get(offsets, row + 1); at++)
            put(outer, at, row);
}
__global__ void compress_rows(Indices outer, long long nnz, Indices offsets, long long count)
{
    const long long row = thread_number();
    if (row > count)
        return;
    long long low = 0, high = nnz;
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (get(outer, middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    put(offsets, row, low);
}
__global__ void number_all(int *numbers, long long count)
{
    if (thread_number() < count)
        numbers[thread_number()] = (int)thread_number();
}
__global__ void permute_elements(void *to, const void *from, const int *order, long long count, int size)
{
    const long long at = thread_number();
    if (at < count)
        copy_element(to, at, from, order[at], size);
}
__global__ void join_keys(Indices major, Indices minor, long long count, Key *keys, int *order)
{
    const long long at = thread_number();
    if (at >= count)
        return;
    keys[at] = (Key)get(major, at) << 32 | (unsigned)get(minor, at);
    order[at] = (int)at;
}
__global__ void join_rows(Indices offsets, long long outer, Indices minor, bool swapped, Key *keys, int *order)
{
    const long long row = thread_number();
    if (row >= outer)
        return;
    for (long long at = get(offsets, row); at < get(offsets, row + 1); at++) {
        const Key column = (Key)(unsigned)get(minor, at);
        keys[at] = swapped ? column << 32 | (unsigned)row : (Key)row << 32 | column;
        order[at] = (int)at;
    }
}
__global__ void split_keys(const Key *keys, Indices major, Indices minor, long long count)
{
    const long long at = thread_number();
    if (at >= count)
        return;
    if (major.data)
        put(major, at, (long long)(keys[at] >> 32));
    if (minor.data)
        put(minor, at, (long long)(unsigned)keys[at]);
}
__global__ void sort_runs(Key *keys, int *order, long long count)
{
    const long long first = thread_number() * RUN, end = first + RUN < count ? first + RUN : count;
    for (long long i = first + 1; i < end; i++) {
        const Key key = keys[i];
        const int from = order[i];
        long long at = i;
        for (; at > first && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            order[at] = order[at - 1];
        }
        keys[at] = key;
        order[at] = from;
    }
}
// Each thread finds where its key belongs among both runs: behind equal keys of the run before its own.
__global__ void merge_runs(const Key *keys, const int *order, Key *to, int *to_order, long long count, long long run)
{
    const long long at = thread_number();
    if (at >= count)
        return;
    const Key key = keys[at];
    const long long pair = at / (2 * run) * (2 * run), second = pair + run;
    const bool is_first = at < second;
    // Most entries of rows that are sorted already stay where they are.
    if (is_first ? second >= count || key <= keys[second] : key >= keys[second - 1]) {
        to[at] = key;
        to_order[at] = order[at];
        return;
    }
    long long low = is_first ? second : pair, high = is_first ? second + run : second;
    low = low < count ? low : count;
    high = high < count ? high : count;
    const long long other = low;
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (keys[middle] < key || (!is_first && keys[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    const long long place = pair + (at - (is_first ? pair : second)) + (low - other);
    to[place] = key;
    to_order[place] = order[at];
}
} // namespace

cudaError_t vgc_sparse::scan(Indices counts, long long count, cudaStream_t stream)
{
    scan_counts<<<1, SCANNERS, 0, stream>>>(counts, count);
    return cudaGetLastError();
}
cudaError_t vgc_sparse::total(const int *counts, long long count, int *sum, cudaStream_t stream)
{
    sum_counts<<<1, SCANNERS, 0, stream>>>(counts, count, sum);
    return cudaGetLastError();
}
cudaError_t vgc_sparse::expand(Indices offsets, Indices outer, long long count, cudaStream_t stream)
{
    SPARSE_LAUNCH(expand_rows, count, stream, offsets, outer, count);
}
cudaError_t vgc_sparse::compress(Indices outer, long long nnz, Indices offsets, long long count, cudaStream_t stream)
{
    SPARSE_LAUNCH(compress_rows, count + 1, stream, outer, nnz, offsets, count);
}
cudaError_t vgc_sparse::identity(int *numbers, long long count, cudaStream_t stream)
{
    SPARSE_LAUNCH(number_all, count, stream, numbers, count);
}
cudaError_t vgc_sparse::permute(void *to, const void *from, const int *order, long long count, int size,
                                cudaStream_t stream)
{
    SPARSE_LAUNCH(permute_elements, count, stream, to, from, order, count, size);
}

size_t Sorting::bytes(long long count)
{
    return (size_t)(count + 1) / 2 * 2 * 24 + 16;
}
Sorting::Sorting(void *buffer, long long count)
{
    const long long even = (count + 1) / 2 * 2;
    keys[0] = (Key *)(((size_t)buffer + 7) / 8 * 8);
    keys[1] = keys[0] + even;
    order[0] = (int *)(keys[1] + even);
    order[1] = order[0] + even;
}
cudaError_t Sorting::sort(long long count, cudaStream_t stream)
{
    if (count < 2)
        return cudaSuccess;
    sort_runs<<<blocks_for((count + RUN - 1) / RUN), 128, 0, stream>>>(keys[0], order[0], count);
    for (long long run = RUN; run < count; run *= 2) {
        merge_runs<<<blocks_for(count), 128, 0, stream>>>(keys[0], order[0], keys[1], order[1], count, run);
        Key *const old_keys = keys[0];
        int *const old_order = order[0];
        keys[0] = keys[1];
        order[0] = order[1];
        keys[1] = old_keys;
        order[1] = old_order;
    }
    return cudaGetLastError();
}
cudaError_t Sorting::of_pairs(Indices major, Indices minor, long long count, cudaStream_t stream)
{
    if (count)
        join_keys<<<blocks_for(count), 128, 0, stream>>>(major, minor, count, keys[0], order[0]);
    return sort(count, stream);
}
cudaError_t Sorting::of_rows(Indices offsets, long long outer, Indices minor, long long count, bool swapped,
                             cudaStream_t stream)
{
    if (count)
        join_rows<<<blocks_for(outer), 128, 0, stream>>>(offsets, outer, minor, swapped, keys[0], order[0]);
    return sort(count, stream);
}
cudaError_t Sorting::put(const Indices *major, const Indices *minor, long long count, cudaStream_t stream) const
{
    const Indices none = {nullptr, 0, 0};
    SPARSE_LAUNCH(split_keys, count, stream, keys[0], major ? *major : none, minor ? *minor : none, count);
}
