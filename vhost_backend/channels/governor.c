/* Governor: estimates the cost of an element's records from those that were measured. Where that is over the budget,
 * functions that can spare records sample more coarsely. */
#include "internal.h"

#include <string.h>

enum {
    MAX_RAISED = 16,
    LOWER_BELOW = 4, /* samples more finely below a quarter of the budget, since a step doubles the cost */
    SPARING = 1 << VGC_CTL_PERF | 1 << VGC_CTL_LOG | 1 << VGC_CTL_LOAD, /* stdio and faults are never left out */
};

/* Cost of the channel's records since the last call. */
static uint64_t cost_since(struct vgc_control_channel *channel, const struct vgc_control_counts *counts)
{
    uint64_t records = counts->records - channel->governed_records;
    uint64_t cost = counts->cost_ns - channel->governed_cost_ns;
    uint64_t measured = counts->cost_records - channel->governed_cost_records;
    if (measured == 0 ||
        measured > records) { /* no measurement, or nonsense: uses the average since the channel was opened */
        cost = counts->cost_ns;
        measured = counts->cost_records;
    }
    channel->governed_records = counts->records;
    channel->governed_cost_ns = counts->cost_ns;
    channel->governed_cost_records = counts->cost_records;
    if (measured == 0 || records > UINT32_MAX)
        return 0;
    double all = (double)cost / (double)measured * (double)records;
    return all < 1e15 ? (uint64_t)all : 0;
}

static void add_up_costs(struct vgc_control *control)
{
    memset(control->costs, 0, control->area.num_pes * sizeof(*control->costs));
    for (uint32_t i = 0; i < control->num_open; i++) {
        struct vgc_control_channel *channel = &control->channels[control->open[i]];
        struct vgc_control_counts counts;
        vgc_control_counts(&control->area, control->open[i], &counts);
        control->costs[channel->link.pe] += cost_since(channel, &counts);
    }
}

/* Raises or lowers the channel's sampling by one step; false if it stays. */
static bool steer(struct vgc_control_channel *channel, uint64_t cost_ns, uint64_t budget_ns)
{
    if (channel->phase != VGC_CONTROL_BOUND || (SPARING >> channel->link.function & 1) == 0)
        return false;
    if (cost_ns > budget_ns && channel->raised < MAX_RAISED) {
        channel->raised++;
        return true;
    }
    if (cost_ns < budget_ns / LOWER_BELOW && channel->raised > 0) {
        channel->raised--;
        return true;
    }
    return false;
}

uint32_t vgc_control_govern(struct vgc_control *control, uint64_t now_ns, uint32_t budget_ppm,
                            struct vgc_control_change *changes, uint32_t max)
{
    uint64_t elapsed = now_ns - control->governed_ns;
    bool first = control->governed_ns == 0;
    uint32_t count = 0;
    control->governed_ns = now_ns;
    add_up_costs(control);
    for (uint32_t i = 0; !first && i < control->num_open && count < max; i++) {
        struct vgc_control_channel *channel = &control->channels[control->open[i]];
        uint64_t budget_ns = (uint64_t)((double)elapsed * budget_ppm / 1e6);
        if (!steer(channel, control->costs[channel->link.pe], budget_ns))
            continue;
        vgc_control_bind(control, control->open[i]);
        changes[count++] = (struct vgc_control_change){.channel = control->open[i],
                                                       .sample = (uint16_t)vgc_control_sampling(channel),
                                                       .generation = channel->generation};
    }
    return count;
}
