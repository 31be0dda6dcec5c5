// libcu++: atomics and barriers of all scopes, semaphores, latches, copies, pipelines.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/semaphore>
#include <cuda/std/atomic>
// behind libcu++, which declares classes of theirs
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

#define EXPORT extern "C" __global__ void

// A shared object whose constructor has arguments.
template <class T> union Room {
    T object;
    __device__ Room()
    {
    }
    __device__ ~Room()
    {
    }
};

template <class Number, cuda::thread_scope scope> __device__ void count(Number *cells)
{
    cuda::atomic_ref<Number, scope> sum(cells[0]), least(cells[1]), most(cells[2]), any(cells[3]), all(cells[4]),
        odd(cells[5]);
    const Number mine = threadIdx.x + 1;
    sum.fetch_add(mine, cuda::memory_order_relaxed);
    least.fetch_min(mine);
    most.fetch_max(mine, cuda::memory_order_acq_rel);
    any.fetch_or(mine, cuda::memory_order_release);
    all.fetch_and(~mine, cuda::memory_order_acquire);
    odd ^= mine;
    cuda::atomic_ref<Number, scope> product(cells[6]);
    Number old = product.load(cuda::memory_order_relaxed);
    while (!product.compare_exchange_weak(old, old * 3, cuda::memory_order_acq_rel, cuda::memory_order_relaxed)) {
    }
    cuda::atomic_ref<Number, scope> last(cells[7]);
    last.store(last.exchange(7) ? 7 : 8, cuda::memory_order_release);
}
EXPORT count_block(unsigned *cells)
{
    count<unsigned, cuda::thread_scope_block>(cells);
}
EXPORT count_device(unsigned *cells)
{
    count<unsigned, cuda::thread_scope_device>(cells);
}
EXPORT count_system(unsigned long long *cells)
{
    count<unsigned long long, cuda::thread_scope_system>(cells);
}
EXPORT count_thread(unsigned *cells)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        count<unsigned, cuda::thread_scope_thread>(cells);
}

struct Place {
    float value;
    int index;
};
EXPORT objects(const float *in, Place *best, double *sum, int *flags)
{ // the largest value and its place
    __shared__ cuda::atomic<int, cuda::thread_scope_block> here;
    if (threadIdx.x == 0)
        new (&here) cuda::atomic<int, cuda::thread_scope_block>(0);
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<Place, cuda::thread_scope_device> place(*best);
    Place old = place.load(), mine{in[i], i};
    while (old.value < mine.value && !place.compare_exchange_strong(old, mine)) {
    }
    cuda::std::atomic_ref<double>(*sum).fetch_add(in[i]);
    here.fetch_add(1);
    here++;
    __syncthreads();
    if (threadIdx.x == 0)
        flags[blockIdx.x] = here.load();
}

// Each round, all threads write, wait, and read what the others have written.
template <class Barrier> __device__ void rounds(Barrier &barrier, int *cells, int *out)
{
    const int t = threadIdx.x, size = blockDim.x;
    for (int round = 0; round < 4; round++) {
        cells[t] = t * (round + 1);
        barrier.arrive_and_wait();
        out[round * size + t] = cells[(t + 7 * round + 1) % size];
        auto token = barrier.arrive();
        barrier.wait(cuda::std::move(token));
    }
}
EXPORT barrier_block(int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int cells[96];
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    rounds(barrier, cells, out);
}
EXPORT barrier_device(int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_device> barrier;
    __shared__ int cells[96];
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    rounds(barrier, cells, out);
}
struct Counter {
    int *cell;
    __device__ void operator()() noexcept
    {
        ++*cell;
    }
};
EXPORT barrier_with_completion(int *out, int *completions)
{
    __shared__ Room<cuda::barrier<cuda::thread_scope_block, Counter>> room;
    __shared__ int cells[96];
    auto *barrier = &room.object;
    if (threadIdx.x == 0)
        new (barrier) cuda::barrier<cuda::thread_scope_block, Counter>(blockDim.x, Counter{completions});
    __syncthreads();
    rounds(*barrier, cells, out);
}
EXPORT dropped(int *out)
{ // in each round, one warp more has left
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int sum;
    if (threadIdx.x == 0) {
        init(&barrier, blockDim.x);
        sum = 0;
    }
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        if (threadIdx.x / 32 == round) {
            barrier.arrive_and_drop();
            return;
        }
        atomicAdd(&sum, 1);
        barrier.arrive_and_wait();
        if (threadIdx.x == blockDim.x - 1)
            out[round] = sum;
        barrier.arrive_and_wait();
    }
}

// The first half of the block writes, the second reads: two barriers say when there is room and when there is
// something.
EXPORT produce(const int *in, int *out, int steps)
{
    typedef cuda::barrier<cuda::thread_scope_block> Barrier;
    __shared__ Barrier full[2], empty[2];
    __shared__ int ring[2][64];
    const int half = blockDim.x / 2, t = threadIdx.x % half;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) {
            init(&full[i], blockDim.x);
            init(&empty[i], blockDim.x);
        }
    __syncthreads();
    if ((int)threadIdx.x < half) {
        for (int step = 0; step < steps; step++) {
            empty[step % 2].arrive_and_wait();
            ring[step % 2][t] = in[step * half + t] * 2;
            (void)full[step % 2].arrive();
        }
    } else {
        (void)empty[0].arrive();
        (void)empty[1].arrive();
        for (int step = 0; step < steps; step++) {
            full[step % 2].arrive_and_wait();
            out[step * half + t] = ring[step % 2][half - 1 - t];
            (void)empty[step % 2].arrive();
        }
    }
}

EXPORT copies(const int *in, int *out)
{ // memcpy_async by each thread, by the block, and by a warp
    namespace cg = cooperative_groups;
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ __align__(16) int cells[3 * 128];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&barrier, block.size());
    block.sync();
    cuda::memcpy_async(&cells[threadIdx.x], &in[threadIdx.x], sizeof(int), barrier);
    cuda::memcpy_async(block, &cells[128], in + 128, cuda::aligned_size_t<16>(128 * sizeof(int)), barrier);
    auto warp = cg::tiled_partition<32>(block);
    cuda::memcpy_async(warp, &cells[256 + 32 * warp.meta_group_rank()], in + 256 + 32 * warp.meta_group_rank(),
                       32 * sizeof(int), barrier);
    barrier.arrive_and_wait();
    for (int i = 0; i < 3; i++)
        out[i * 128 + threadIdx.x] = cells[i * 128 + 127 - threadIdx.x];
}

EXPORT pipeline_block(const int *in, int *out, int steps)
{ // two stages, all threads produce and consume
    namespace cg = cooperative_groups;
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int cells[2][64];
    auto pipeline = cuda::make_pipeline(block, &state);
    for (int fetched = 0, step = 0; step < steps; step++) {
        for (; fetched < steps && fetched < step + 2; fetched++) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, cells[fetched % 2], in + fetched * 64, 64 * sizeof(int), pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        out[step * 64 + threadIdx.x] = cells[step % 2][63 - threadIdx.x];
        block.sync();
        pipeline.consumer_release();
    }
}
EXPORT pipeline_roles(const int *in, int *out, int steps)
{ // one warp produces, the other consumes
    namespace cg = cooperative_groups;
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int cells[2][32];
    const bool produces = threadIdx.x < 32;
    auto pipeline =
        cuda::make_pipeline(block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    for (int step = 0; step < steps; step++) {
        if (produces) {
            pipeline.producer_acquire();
            cuda::memcpy_async(&cells[step % 2][threadIdx.x], &in[step * 32 + threadIdx.x], sizeof(int), pipeline);
            pipeline.producer_commit();
        } else {
            pipeline.consumer_wait();
            out[step * 32 + threadIdx.x - 32] = cells[step % 2][63 - threadIdx.x] + step;
            pipeline.consumer_release();
        }
    }
}
EXPORT pipeline_thread(const int *in, int *out)
{
    __shared__ int cells[2][64];
    auto pipeline = cuda::make_pipeline();
    for (int i = 0; i < 2; i++) {
        pipeline.producer_acquire();
        cuda::memcpy_async(&cells[i][threadIdx.x], &in[i * 64 + threadIdx.x], sizeof(int), pipeline);
        pipeline.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<0>(pipeline);
    for (int i = 0; i < 2; i++)
        out[i * 64 + threadIdx.x] = cells[i][threadIdx.x] * 10;
    pipeline.consumer_release();
}

EXPORT semaphores(int *counter, int *most)
{ // at most three threads are inside
    __shared__ Room<cuda::counting_semaphore<cuda::thread_scope_block, 3>> inside_room;
    __shared__ Room<cuda::binary_semaphore<cuda::thread_scope_block>> mutex_room;
    __shared__ cuda::atomic<int, cuda::thread_scope_block> now;
    auto &inside = inside_room.object;
    auto &mutex = mutex_room.object;
    if (threadIdx.x == 0) {
        new (&inside) cuda::counting_semaphore<cuda::thread_scope_block, 3>(3);
        new (&mutex) cuda::binary_semaphore<cuda::thread_scope_block>(1);
        new (&now) cuda::atomic<int, cuda::thread_scope_block>(0);
    }
    __syncthreads();
    inside.acquire();
    const int found = now.fetch_add(1) + 1;
    __nanosleep(100);
    mutex.acquire();
    ++*counter;
    if (found > *most)
        *most = found;
    mutex.release();
    now.fetch_sub(1);
    inside.release();
}
EXPORT latches(int *out)
{
    __shared__ Room<cuda::latch<cuda::thread_scope_block>> room;
    __shared__ int cells[64];
    auto &latch = room.object;
    if (threadIdx.x == 0)
        new (&latch) cuda::latch<cuda::thread_scope_block>(blockDim.x);
    __syncthreads();
    cells[threadIdx.x] = threadIdx.x * threadIdx.x;
    latch.arrive_and_wait();
    out[threadIdx.x] = cells[63 - threadIdx.x];
}
EXPORT waits(int *out)
{ // one thread after the other, from the last to the first
    __shared__ cuda::atomic<int, cuda::thread_scope_block> turn;
    __shared__ int order;
    if (threadIdx.x == 0) {
        new (&turn) cuda::atomic<int, cuda::thread_scope_block>(blockDim.x - 1);
        order = 0;
    }
    __syncthreads();
    for (int now = turn.load(); now != (int)threadIdx.x; now = turn.load())
        turn.wait(now);
    out[threadIdx.x] = order++;
    turn.store(threadIdx.x - 1);
    turn.notify_all();
}

EXPORT ptx(unsigned *out)
{
    __shared__ uint64_t barrier;
    __shared__ unsigned cells[64];
    const unsigned t = threadIdx.x;
    if (t == 0)
        cuda::ptx::mbarrier_init(&barrier, blockDim.x);
    __syncthreads();
    cells[t] = t + cuda::ptx::get_sreg_ctaid_x();
    const uint64_t state = cuda::ptx::mbarrier_arrive(&barrier);
    while (!cuda::ptx::mbarrier_test_wait(&barrier, state)) {
    }
    out[t] = cells[63 - t];
    cuda::ptx::fence(cuda::ptx::sem_acq_rel, cuda::ptx::scope_gpu);
    out[64 + t] = cuda::ptx::get_sreg_laneid();
    out[128 + t] = cuda::ptx::get_sreg_lanemask_lt();
    const uint64_t second = cuda::ptx::mbarrier_arrive(&barrier);
    while (!cuda::ptx::mbarrier_test_wait_parity(&barrier, 1)) {
    }
    out[192 + t] = cuda::ptx::mbarrier_test_wait(&barrier, second);
}
