// Plans: calls cut into steps and blocks.
#include "plan.h"

namespace vgc
{
namespace
{
/* Calls that take less are one block. */
constexpr double SMALL_NS = 40e3;
/* Others have to come between blocks soon, and taking a block must not cost more than a fraction of it. */
constexpr double LONGEST_NS = 800e3;
constexpr double SHORTEST_NS = 40e3;
/* Blocks for each thread, so that threads that lag behind do not hold up the others. */
constexpr double BLOCKS_PER_PE = 4;

/* All steps of a small call. */
void run_all(const vgc_cpu_step *step, uint64_t)
{
    auto *head = static_cast<const Head *>(step->state);
    for (uint32_t i = 0; i < head->num_steps; i++)
        for (uint64_t block = 0; block < head->steps[i].blocks; block++)
            head->steps[i].run(&head->steps[i], block);
}
} // namespace

Plan::Plan(void *workspace, uint32_t num_pes, vgc_cpu_step *steps)
    : base_(static_cast<char *>(workspace)), steps_(steps), block_ns_(LONGEST_NS), pes_(std::max(num_pes, 1u)),
      is_real_(workspace != nullptr)
{
    head_ = take<Head>(1);
    if (is_real_)
        head_->failed.store(nullptr, std::memory_order_relaxed);
}

void Plan::expect(double ns)
{
    is_small_ = ns < SMALL_NS;
    if (is_small_)
        pes_ = 1;
    else
        block_ns_ = std::clamp(ns / (pes_ * BLOCKS_PER_PE), SHORTEST_NS, LONGEST_NS);
}

Split Plan::split(uint64_t items, double ns, uint64_t multiple) const
{
    if (is_small_)
        return {items, std::max<uint64_t>(items, 1)};
    auto pieces = static_cast<uint64_t>(std::clamp(block_ns_ / (ns * static_cast<double>(multiple)), 1.0, 1e15));
    return {items, pieces * multiple};
}

Scratch Plan::scratch(uint64_t bytes, uint64_t blocks)
{
    auto pieces = static_cast<uint32_t>(std::clamp<uint64_t>(blocks, 1, pes_));
    uint64_t rounded = (bytes + VGC_CPU_WORKSPACE - 1) / VGC_CPU_WORKSPACE * VGC_CPU_WORKSPACE;
    Scratch scratch = {take<std::atomic<uint32_t>>(pieces), grow(rounded * pieces), rounded, pieces};
    if (is_real_)
        for (uint32_t i = 0; i < pieces; i++)
            scratch.taken[i].store(0, std::memory_order_relaxed);
    return scratch;
}

char *Plan::grow(uint64_t bytes)
{
    char *at = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(base_) + bytes_);
    bytes_ += (bytes + VGC_CPU_WORKSPACE - 1) / VGC_CPU_WORKSPACE * VGC_CPU_WORKSPACE;
    return at;
}

uint32_t Plan::finish()
{
    if (!is_real_ || !is_small_ || num_steps_ == 0 || (num_steps_ == 1 && steps_[0].blocks == 1))
        return num_steps_;
    std::copy(steps_, steps_ + num_steps_, head_->steps);
    head_->num_steps = num_steps_;
    steps_[0] = {1, run_all, head_};
    return 1;
}
} // namespace vgc
