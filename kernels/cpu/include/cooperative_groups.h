/* Cooperative groups: a thread, tiles of a warp, the threads that are active together, a block, a cluster, the grid. */
#pragma once
#include "cuda_runtime.h"

#define __VGC_METHOD__ __device__ __forceinline__

/* Shuffles of any type that can be copied byte by byte, in words of 4 bytes. */
template <class T, class Shuffle> __VGC_FN__ T __vgc_shuffle_words(const T &value, Shuffle shuffle) {
    enum { WORDS = (sizeof(T) + 3) / 4 };
    unsigned words[WORDS] = {};
    T result;
    __builtin_memcpy(words, &value, sizeof(T));
    for (int i = 0; i < WORDS; i++)
        words[i] = shuffle(words[i]);
    __builtin_memcpy((void *)&result, words, sizeof(T));
    return result;
}

namespace cooperative_groups {
namespace __v1 { // where libcu++ declares some of these classes, too

enum class thread_scope { thread_scope_thread, thread_scope_block, thread_scope_cluster, thread_scope_device, thread_scope_system };

/* ---- groups within a warp ---- */

/* Lanes of a warp, named by a mask. A lane's rank is its position among them. */
class __lanes {
  public:
    __VGC_METHOD__ explicit __lanes(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}
    __VGC_METHOD__ void sync() const { __syncwarp(mask_); }
    __VGC_METHOD__ unsigned size() const { return num_threads(); }
    __VGC_METHOD__ unsigned num_threads() const { return (unsigned)__builtin_popcount(mask_); }
    __VGC_METHOD__ unsigned thread_rank() const { return (unsigned)__builtin_popcount(mask_ & __vgc_lanemask_lt()); }
    __VGC_METHOD__ unsigned meta_group_rank() const { return meta_rank_; }
    __VGC_METHOD__ unsigned meta_group_size() const { return meta_size_; }
    __VGC_METHOD__ static bool is_valid() { return true; }
    template <class T> __VGC_METHOD__ T shfl(T value, int rank) const {
        const unsigned lane = __lane((unsigned)rank % num_threads());
        return __vgc_shuffle_words(value, [&](unsigned word) { return __shfl_sync(mask_, word, (int)lane); });
    }
    template <class T> __VGC_METHOD__ T shfl_up(T value, unsigned delta) const { return __from(thread_rank() - delta, value); }
    template <class T> __VGC_METHOD__ T shfl_down(T value, unsigned delta) const { return __from(thread_rank() + delta, value); }
    __VGC_METHOD__ int any(int predicate) const { return __any_sync(mask_, predicate); }
    __VGC_METHOD__ int all(int predicate) const { return __all_sync(mask_, predicate); }
    __VGC_METHOD__ unsigned ballot(int predicate) const { return __ranks(__ballot_sync(mask_, predicate)); }
    template <class T> __VGC_METHOD__ unsigned match_any(T value) const { return __ranks(__match_any_sync(mask_, value)); }
    template <class T> __VGC_METHOD__ unsigned match_all(T value, int &predicate) const {
        return __ranks(__match_all_sync(mask_, value, &predicate));
    }
    __VGC_METHOD__ unsigned __mask() const { return mask_; }
    /* The rank-th lane of the group. */
    __VGC_METHOD__ unsigned __lane(unsigned rank) const {
        unsigned left = mask_;
        if (mask_ == 0xffffffffu)
            return rank;
        for (unsigned i = 0; i < rank; i++)
            left &= left - 1;
        return (unsigned)__builtin_ctz(left);
    }

  private:
    template <class T> __VGC_METHOD__ T __from(unsigned rank, T value) const {
        const unsigned lane = rank < num_threads() ? __lane(rank) : __vgc_laneid();
        return __vgc_shuffle_words(value, [&](unsigned word) { return __shfl_sync(mask_, word, (int)lane); });
    }
    /* Lanes as bits of their ranks. */
    __VGC_METHOD__ unsigned __ranks(unsigned lanes) const {
        unsigned ranks = 0, rank = 0;
        if (mask_ == 0xffffffffu)
            return lanes;
        for (unsigned left = mask_; left != 0; left &= left - 1)
            ranks |= (lanes >> __builtin_ctz(left) & 1) << rank++;
        return ranks;
    }
    unsigned mask_, meta_rank_, meta_size_;
};

/* The threads of a warp that arrived here together, or a part of them. */
class coalesced_group : public __lanes {
  public:
    using __lanes::__lanes;
    static constexpr thread_scope __scope = thread_scope::thread_scope_block;
};
__VGC_FN__ coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

/* ---- the block ---- */

class thread_block {
  public:
    struct arrival_token {};
    static constexpr thread_scope __scope = thread_scope::thread_scope_block;
    __VGC_METHOD__ static void sync() { __syncthreads(); }
    __VGC_METHOD__ static arrival_token barrier_arrive() { return {}; }
    __VGC_METHOD__ static void barrier_wait(arrival_token &&) { __syncthreads(); }
    __VGC_METHOD__ static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    __VGC_METHOD__ static unsigned num_threads() { return size(); }
    __VGC_METHOD__ static unsigned thread_rank() { return __vgc_linear_tid(); }
    __VGC_METHOD__ static dim3 group_index() { return blockIdx; }
    __VGC_METHOD__ static dim3 thread_index() { return threadIdx; }
    __VGC_METHOD__ static dim3 group_dim() { return blockDim; }
    __VGC_METHOD__ static dim3 dim_threads() { return blockDim; }
    __VGC_METHOD__ static bool is_valid() { return true; }
};
__VGC_FN__ thread_block this_thread_block() { return thread_block(); }

/* ---- the grid ---- */

/* Waiting takes no cooperative launch here: a kernel that waits for its grid is always run with all blocks at once. */
class grid_group {
  public:
    struct arrival_token {};
    static constexpr thread_scope __scope = thread_scope::thread_scope_device;
    __VGC_METHOD__ static void sync() { __vgc_grid_barrier(); }
    __VGC_METHOD__ static arrival_token barrier_arrive() { return {}; }
    __VGC_METHOD__ static void barrier_wait(arrival_token &&) { __vgc_grid_barrier(); }
    __VGC_METHOD__ static bool is_valid() { return true; }
    __VGC_METHOD__ static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    __VGC_METHOD__ static unsigned long long block_rank() {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    __VGC_METHOD__ static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    __VGC_METHOD__ static unsigned long long size() { return num_threads(); }
    __VGC_METHOD__ static unsigned long long thread_rank() { return block_rank() * thread_block::size() + __vgc_linear_tid(); }
    __VGC_METHOD__ static dim3 dim_blocks() { return gridDim; }
    __VGC_METHOD__ static dim3 group_dim() { return gridDim; }
    __VGC_METHOD__ static dim3 block_index() { return blockIdx; }
    __VGC_METHOD__ static dim3 dim_clusters() {
        return dim3(__vgc_nclusterid_x(), __vgc_nclusterid_y(), __vgc_nclusterid_z());
    }
    __VGC_METHOD__ static dim3 cluster_index() {
        return dim3(__vgc_clusterid_x(), __vgc_clusterid_y(), __vgc_clusterid_z());
    }
    __VGC_METHOD__ static unsigned long long num_clusters() { return num_blocks() / __vgc_cluster_nctarank(); }
    __VGC_METHOD__ static unsigned long long cluster_rank() {
        return __vgc_clusterid_x() +
               (unsigned long long)__vgc_nclusterid_x() *
                   (__vgc_clusterid_y() + (unsigned long long)__vgc_nclusterid_y() * __vgc_clusterid_z());
    }
};
__VGC_FN__ grid_group this_grid() { return grid_group(); }

/* The grids of a launch on several devices, which is always one here. */
class multi_grid_group : public grid_group {
  public:
    __VGC_METHOD__ static unsigned num_grids() { return 1; }
    __VGC_METHOD__ static unsigned grid_rank() { return 0; }
};
__VGC_FN__ multi_grid_group this_multi_grid() { return multi_grid_group(); }

/* The cluster: one block without __cluster_dims__. */
class cluster_group {
  public:
    struct arrival_token {};
    static constexpr thread_scope __scope = thread_scope::thread_scope_cluster;
    __VGC_METHOD__ static void sync() { __vgc_cluster_barrier(); }
    __VGC_METHOD__ static arrival_token barrier_arrive() { return {}; }
    __VGC_METHOD__ static void barrier_wait() { __vgc_cluster_barrier(); }
    __VGC_METHOD__ static void barrier_wait(arrival_token &&) { __vgc_cluster_barrier(); }
    template <class T> __VGC_METHOD__ static unsigned query_shared_rank(const T *address) {
        unsigned long long slot = __vgc_slot_bytes();
        return (unsigned)(((unsigned long long)address - (unsigned long long)__vgc_shared() + block_rank() * slot) / slot);
    }
    /* An integer on the way: the compiler must not take the result for an address in the block's own variable. */
    template <class T> __VGC_METHOD__ static T *map_shared_rank(T *address, int rank) {
        long long blocks = (long long)rank - block_rank();
        return (T *)((unsigned long long)address + blocks * (long long)__vgc_slot_bytes());
    }
    __VGC_METHOD__ static dim3 block_index() {
        return dim3(__vgc_cluster_ctaid_x(), __vgc_cluster_ctaid_y(), __vgc_cluster_ctaid_z());
    }
    __VGC_METHOD__ static unsigned block_rank() { return __vgc_cluster_ctarank(); }
    __VGC_METHOD__ static dim3 thread_index() {
        dim3 block = block_index();
        return dim3(block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y,
                    block.z * blockDim.z + threadIdx.z);
    }
    __VGC_METHOD__ static unsigned thread_rank() {
        return block_rank() * thread_block::size() + thread_block::thread_rank();
    }
    __VGC_METHOD__ static dim3 dim_blocks() {
        return dim3(__vgc_cluster_nctaid_x(), __vgc_cluster_nctaid_y(), __vgc_cluster_nctaid_z());
    }
    __VGC_METHOD__ static unsigned num_blocks() { return __vgc_cluster_nctarank(); }
    __VGC_METHOD__ static dim3 dim_threads() {
        dim3 blocks = dim_blocks();
        return dim3(blocks.x * blockDim.x, blocks.y * blockDim.y, blocks.z * blockDim.z);
    }
    __VGC_METHOD__ static unsigned num_threads() { return num_blocks() * thread_block::size(); }
    __VGC_METHOD__ static unsigned size() { return num_threads(); }
};
__VGC_FN__ cluster_group this_cluster() { return cluster_group(); }

/* ---- tiles of a warp, of a size known to the compiler ---- */

template <unsigned Size> class __tile {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "tiles are of 1, 2, 4, 8, 16 or 32 threads");

  public:
    static constexpr thread_scope __scope = thread_scope::thread_scope_block;
    __VGC_METHOD__ static void sync() { __syncwarp(__mask()); }
    __VGC_METHOD__ static constexpr unsigned size() { return Size; }
    __VGC_METHOD__ static constexpr unsigned num_threads() { return Size; }
    __VGC_METHOD__ static unsigned thread_rank() { return __vgc_laneid() % Size; }
    __VGC_METHOD__ static bool is_valid() { return true; }
    template <class T> __VGC_METHOD__ static T shfl(T value, int lane) {
        return __vgc_shuffle_words(value, [&](unsigned word) { return __shfl_sync(__mask(), word, lane, Size); });
    }
    template <class T> __VGC_METHOD__ static T shfl_up(T value, unsigned delta) {
        return __vgc_shuffle_words(value, [&](unsigned word) { return __shfl_up_sync(__mask(), word, delta, Size); });
    }
    template <class T> __VGC_METHOD__ static T shfl_down(T value, unsigned delta) {
        return __vgc_shuffle_words(value, [&](unsigned word) { return __shfl_down_sync(__mask(), word, delta, Size); });
    }
    template <class T> __VGC_METHOD__ static T shfl_xor(T value, unsigned lanes) {
        return __vgc_shuffle_words(value, [&](unsigned word) { return __shfl_xor_sync(__mask(), word, (int)lanes, Size); });
    }
    __VGC_METHOD__ static int any(int predicate) { return __any_sync(__mask(), predicate); }
    __VGC_METHOD__ static int all(int predicate) { return __all_sync(__mask(), predicate); }
    __VGC_METHOD__ static unsigned ballot(int predicate) { return __ballot_sync(__mask(), predicate) >> __first(); }
    template <class T> __VGC_METHOD__ static unsigned match_any(T value) { return __match_any_sync(__mask(), value) >> __first(); }
    template <class T> __VGC_METHOD__ static unsigned match_all(T value, int &predicate) {
        return __match_all_sync(__mask(), value, &predicate) >> __first();
    }
    __VGC_METHOD__ static unsigned __mask() { return Size == 32 ? 0xffffffffu : ((1u << (Size & 31)) - 1) << __first(); }
    __VGC_METHOD__ static unsigned __lane(unsigned rank) { return __first() + rank; }

  private:
    __VGC_METHOD__ static unsigned __first() { return __vgc_laneid() & ~(Size - 1); }
};

/* ---- tiles of several warps ---- */

/* Memory that the warps of tiles share: for each tile of 64 to 1024 threads a barrier, for each warp a word that it hands out. */
struct __tile_memory {
    enum { TILES = 31, WARPS = 32 };
    struct {
        unsigned arrived, round;
    } barriers[TILES];
    unsigned long long words[WARPS];
};
/* In shared memory of every block of a kernel that has such tiles. */
__VGC_FN__ __tile_memory &__vgc_tile_memory() {
    __shared__ __tile_memory memory;
    return memory;
}
/* Called by all threads of the block: none is within an operation of an earlier tile. */
__VGC_FN__ void __vgc_start_tiles() {
    __tile_memory &memory = __vgc_tile_memory();
    __syncthreads();
    if (__vgc_linear_tid() == 0)
        for (auto &barrier : memory.barriers)
            barrier.arrived = barrier.round = 0;
    __syncthreads();
}
/* Memory that programs reserve for such tiles on GPUs before those of compute capability 8.0; it is not used. */
template <unsigned MaxBlockSize = 1024> struct alignas(16) block_tile_memory {
    unsigned char __reserved[MaxBlockSize / 32 * 8];
};
template <unsigned MaxBlockSize> __VGC_FN__ thread_block this_thread_block(block_tile_memory<MaxBlockSize> &) { return thread_block(); }

/* Warps wait for each other by looking, which lets other threads of the block go on. */
template <unsigned Size> class __large_tile {
    static_assert(Size <= 1024 && (Size & (Size - 1)) == 0, "tiles are of 1, 2, 4, 8, 16, 32, 64, 128, 256, 512 or 1024 threads");
    enum { WARPS = Size / 32 };

  public:
    static constexpr thread_scope __scope = thread_scope::thread_scope_block;
    struct arrival_token {};
    __VGC_METHOD__ static void sync() {
        auto &barrier = __vgc_tile_memory().barriers[1024 / Size - 1 + __vgc_linear_tid() / Size];
        __syncwarp();
        if (__vgc_laneid() == 0) {
            const unsigned round = __atomic_load_n(&barrier.round, __ATOMIC_ACQUIRE);
            if (__atomic_add_fetch(&barrier.arrived, 1, __ATOMIC_ACQ_REL) == __warps()) {
                __atomic_store_n(&barrier.arrived, 0, __ATOMIC_RELAXED);
                __atomic_store_n(&barrier.round, round + 1, __ATOMIC_RELEASE);
            }
            while (__atomic_load_n(&barrier.round, __ATOMIC_ACQUIRE) == round)
                __vgc_yield();
        }
        __syncwarp();
    }
    __VGC_METHOD__ static arrival_token barrier_arrive() { return {}; }
    __VGC_METHOD__ static void barrier_wait(arrival_token &&) { sync(); }
    __VGC_METHOD__ static constexpr unsigned size() { return Size; }
    __VGC_METHOD__ static constexpr unsigned num_threads() { return Size; }
    __VGC_METHOD__ static unsigned thread_rank() { return __vgc_linear_tid() % Size; }
    __VGC_METHOD__ static bool is_valid() { return true; }
    template <class T> __VGC_METHOD__ static T shfl(T value, int rank) {
        T values[WARPS];
        __collect(__vgc_shuffle_words(value, [&](unsigned word) { return __shfl_sync(0xffffffffu, word, rank % 32); }), values);
        return values[(unsigned)rank % Size / 32];
    }
    __VGC_METHOD__ static int any(int predicate) {
        int votes[WARPS], result = 0;
        __collect(__any_sync(0xffffffffu, predicate), votes);
        for (unsigned warp = 0; warp < __warps(); warp++)
            result |= votes[warp];
        return result;
    }
    __VGC_METHOD__ static int all(int predicate) { return !any(!predicate); }
    /* Gives every thread the values of all the tile's warps, each of which has one; those of warps that are not there are not set. */
    template <class T> __VGC_METHOD__ static void __collect(const T &value, T *values) {
        enum { WORDS = (sizeof(T) + 7) / 8 };
        unsigned long long words[WORDS] = {}, *shared = __vgc_tile_memory().words + __vgc_linear_tid() / Size * WARPS;
        __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            if (__vgc_laneid() == 0)
                shared[__rank_of_warp()] = words[i];
            sync();
            for (unsigned warp = 0; warp < __warps(); warp++)
                __builtin_memcpy((char *)(values + warp) + 8 * i, shared + warp, i < WORDS - 1 ? 8 : sizeof(T) - 8 * (WORDS - 1));
            sync();
        }
    }
    __VGC_METHOD__ static unsigned __rank_of_warp() { return __vgc_linear_tid() % Size / 32; }
    /* Warps of the tile: less than all in the last one of a block that is no multiple of tiles. */
    __VGC_METHOD__ static unsigned __warps() {
        const unsigned left = (thread_block::size() - __vgc_linear_tid() / Size * Size + 31) / 32;
        return left < WARPS ? left : WARPS;
    }
};

/* ---- tiles and what they are parts of ---- */

template <unsigned Size, bool large = (Size > 32)> struct __tile_of_size { using type = __tile<Size>; };
template <unsigned Size> struct __tile_of_size<Size, true> { using type = __large_tile<Size>; };

template <unsigned Size, class Parent = void> class thread_block_tile;
template <unsigned Size, unsigned Larger, class Parent>
class thread_block_tile<Size, thread_block_tile<Larger, Parent>> : public __tile_of_size<Size>::type {
    static_assert(Size <= Larger, "a tile is not larger than the tile it is a part of");

  public:
    __VGC_METHOD__ static unsigned meta_group_rank() { return __vgc_linear_tid() % Larger / Size; }
    __VGC_METHOD__ static constexpr unsigned meta_group_size() { return Larger / Size; }
    __VGC_METHOD__ operator thread_block_tile<Size, void>() const { return thread_block_tile<Size, void>(); }
};
template <unsigned Size> class thread_block_tile<Size, thread_block> : public __tile_of_size<Size>::type {
  public:
    __VGC_METHOD__ static unsigned meta_group_rank() { return __vgc_linear_tid() / Size; }
    __VGC_METHOD__ static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
    __VGC_METHOD__ operator thread_block_tile<Size, void>() const { return thread_block_tile<Size, void>(); }
};
/* A tile whose parent is not in its type, which counts as the block. */
template <unsigned Size> class thread_block_tile<Size, void> : public thread_block_tile<Size, thread_block> {};

template <unsigned Size> __VGC_FN__ thread_block_tile<Size, thread_block> tiled_partition(const thread_block &) {
    if constexpr (Size > 32)
        __vgc_start_tiles();
    return {};
}
template <unsigned Size, unsigned Larger, class Parent>
__VGC_FN__ thread_block_tile<Size, thread_block_tile<Larger, Parent>> tiled_partition(const thread_block_tile<Larger, Parent> &) {
    return {};
}

/* ---- groups whose kind is not in their type ---- */

class thread_group {
  public:
    __VGC_METHOD__ thread_group(const thread_block &) : lanes_(0) {}
    __VGC_METHOD__ thread_group(const coalesced_group &group) : lanes_(group) {}
    template <unsigned Size, class Parent>
    __VGC_METHOD__ thread_group(const thread_block_tile<Size, Parent> &tile)
        : lanes_(tile.__mask(), tile.meta_group_rank(), tile.meta_group_size()) {}
    __VGC_METHOD__ explicit thread_group(const __lanes &lanes) : lanes_(lanes) {}
    __VGC_METHOD__ void sync() const {
        if (__is_block())
            __syncthreads();
        else
            lanes_.sync();
    }
    __VGC_METHOD__ unsigned size() const { return __is_block() ? thread_block::size() : lanes_.size(); }
    __VGC_METHOD__ unsigned num_threads() const { return size(); }
    __VGC_METHOD__ unsigned thread_rank() const { return __is_block() ? thread_block::thread_rank() : lanes_.thread_rank(); }
    __VGC_METHOD__ bool is_valid() const { return true; }
    __VGC_METHOD__ bool __is_block() const { return lanes_.__mask() == 0; }
    __VGC_METHOD__ const __lanes &__in_warp() const { return lanes_; }

  private:
    __lanes lanes_;
};
__VGC_FN__ thread_group this_thread() { return thread_group(__lanes(__vgc_lanemask_eq())); }

/* The part of a group of lanes with the ranks that `size` threads from a multiple of it on have. */
__VGC_FN__ __lanes __vgc_tile_of(const __lanes &group, unsigned size) {
    const unsigned first = group.thread_rank() / size * size, all = group.num_threads();
    unsigned mask = 0;
    for (unsigned rank = first; rank < first + size && rank < all; rank++)
        mask |= 1u << group.__lane(rank);
    return __lanes(mask, first / size, (all + size - 1) / size);
}
__VGC_FN__ thread_group tiled_partition(const thread_group &parent, unsigned size) {
    if (!parent.__is_block())
        return thread_group(__vgc_tile_of(parent.__in_warp(), size));
    const unsigned first = __vgc_laneid() & ~(size - 1);
    const unsigned mask = size >= 32 ? 0xffffffffu : ((1u << (size & 31)) - 1) << first;
    return thread_group(__lanes(mask, __vgc_linear_tid() / size, (thread_block::size() + size - 1) / size));
}
__VGC_FN__ thread_group tiled_partition(const thread_block &parent, unsigned size) { return tiled_partition(thread_group(parent), size); }
__VGC_FN__ coalesced_group tiled_partition(const coalesced_group &parent, unsigned size) {
    const __lanes tile = __vgc_tile_of(parent, size);
    return coalesced_group(tile.__mask(), tile.meta_group_rank(), tile.meta_group_size());
}

/* ---- partitions by value ---- */

template <class Group, class Label> __VGC_FN__ coalesced_group labeled_partition(const Group &group, Label label) {
    const unsigned all = group.__mask(), mine = __match_any_sync(all, label);
    unsigned rank = 0, groups = 0;
    for (unsigned left = all; left != 0;) {
        const int leader = __builtin_ctz(left);
        const unsigned theirs = __shfl_sync(all, mine, leader);
        rank = theirs == mine ? groups : rank;
        groups++;
        left &= ~theirs;
    }
    return coalesced_group(mine, rank, groups);
}
template <class Group> __VGC_FN__ coalesced_group binary_partition(const Group &group, bool predicate) {
    const unsigned all = group.__mask(), yes = __ballot_sync(all, predicate);
    return coalesced_group(predicate ? yes : all & ~yes, predicate, 2);
}

/* ---- functions of all groups ---- */

template <class Group> __VGC_FN__ void sync(const Group &group) { group.sync(); }
template <class Group> __VGC_FN__ unsigned thread_rank(const Group &group) { return group.thread_rank(); }
template <class Group> __VGC_FN__ unsigned group_size(const Group &group) { return group.size(); }

template <class Group, class Function, class... Arguments>
__VGC_FN__ void invoke_one(const Group &group, Function &&function, Arguments &&...arguments) {
    if (group.thread_rank() == 0)
        function(static_cast<Arguments &&>(arguments)...);
}
template <class Group, class Function, class... Arguments>
__VGC_FN__ auto invoke_one_broadcast(const Group &group, Function &&function, Arguments &&...arguments)
    -> decltype(function(static_cast<Arguments &&>(arguments)...)) {
    decltype(function(static_cast<Arguments &&>(arguments)...)) result{};
    if (group.thread_rank() == 0)
        result = function(static_cast<Arguments &&>(arguments)...);
    return group.shfl(result, 0);
}

} // namespace __v1
using namespace __v1;
} // namespace cooperative_groups
