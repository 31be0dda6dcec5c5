// Plans: calls cut into steps and blocks, with the memory that they share.
#ifndef VGC_CPU_PLAN_H
#define VGC_CPU_PLAN_H

#include "vgc_cpu_builtins.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace vgc
{
/* First of all in a workspace. */
struct Head {
    std::atomic<const char *> failed;
    uint32_t num_steps; /* of a small call, which one block runs one after the other */
    vgc_cpu_step steps[VGC_CPU_STEPS];
};

/* Reports that the call failed; the first text counts. */
inline void fail(Head *head, const char *why)
{
    const char *none = nullptr;
    head->failed.compare_exchange_strong(none, why, std::memory_order_relaxed);
}

/* Items, a number of which are a block. */
struct Split {
    uint64_t items, per_block;

    uint64_t blocks() const
    {
        return items / per_block + (items % per_block != 0);
    }
    uint64_t begin(uint64_t block) const
    {
        return block * per_block;
    }
    uint64_t end(uint64_t block) const
    {
        return std::min(items, (block + 1) * per_block);
    }
};

/* Scratch memory for each thread: blocks lease a piece while they run. */
struct Scratch {
    std::atomic<uint32_t> *taken;
    char *memory;
    uint64_t bytes; /* of a piece */
    uint32_t pieces;
};

/* One piece of scratch memory, until the end of the block. */
class Lease
{
  public:
    explicit Lease(const Scratch &scratch) : scratch_(scratch), piece_(0)
    {
        while (scratch.taken[piece_].exchange(1, std::memory_order_acquire) != 0)
            piece_ = (piece_ + 1) % scratch.pieces;
    }
    ~Lease()
    {
        scratch_.taken[piece_].store(0, std::memory_order_release);
    }
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;

    char *memory() const
    {
        return scratch_.memory + piece_ * scratch_.bytes;
    }

  private:
    const Scratch &scratch_;
    uint32_t piece_;
};

/* Steps and memory of a call, which a planner fills in. Without a workspace, it measures how large one has to be:
 * pointers into it are not valid. */
class Plan
{
  public:
    Plan(void *workspace, uint32_t num_pes, vgc_cpu_step *steps);

    /* Says how long the whole call takes on one thread: short ones become one block. Comes first. */
    void expect(double ns);

    /* Threads that may work on this call. */
    uint32_t pes() const
    {
        return pes_;
    }

    /* Cuts items of a step, which take `ns` each, into blocks; `multiple`: items that stay together. */
    Split split(uint64_t items, double ns, uint64_t multiple = 1) const;

    /* Memory of the call for `count` elements. */
    template <class T> T *take(uint64_t count)
    {
        return reinterpret_cast<T *>(grow(count * sizeof(T)));
    }

    /* Keeps a copy of the state that blocks see. */
    template <class State> const State *keep(const State &state)
    {
        static_assert(std::is_trivially_destructible_v<State>);
        char *at = grow(sizeof(State));
        if (is_real_)
            new (at) State(state);
        return reinterpret_cast<const State *>(at);
    }

    /* A piece of scratch memory for each thread; fewer, if only `blocks` blocks take one at a time. */
    Scratch scratch(uint64_t bytes, uint64_t blocks = UINT64_MAX);

    /* Adds a step: `Run(state, block)` for each block. */
    template <auto Run, class State> void add(uint64_t blocks, const State *state)
    {
        if (blocks == 0)
            return;
        auto run = [](const vgc_cpu_step *step, uint64_t block) {
            Run(*static_cast<const State *>(step->state), block);
        };
        steps_[num_steps_++] = {blocks, run, state};
    }

    Head *head() const
    {
        return head_;
    }
    bool is_real() const
    {
        return is_real_;
    }

    uint64_t bytes() const
    {
        return bytes_;
    }
    /* Whether one thread does the call, at once. */
    bool is_one_block() const
    {
        return is_small_ || num_steps_ == 0 || (num_steps_ == 1 && steps_[0].blocks == 1);
    }

    /* Ends planning: the number of steps. */
    uint32_t finish();

  private:
    char *grow(uint64_t bytes);

    char *base_;
    Head *head_;
    vgc_cpu_step *steps_;
    uint64_t bytes_ = 0;
    double block_ns_;
    uint32_t pes_;
    uint32_t num_steps_ = 0;
    bool is_real_;
    bool is_small_ = false;
};
} // namespace vgc

#endif
