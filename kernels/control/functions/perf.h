/* Function module of performance: blocks and their times, events, counters, gauges with thresholds.
 *
 * Counters are in the element's row of the control area, where the host reads them. Records are made from level WARNING
 * on (events, gauges that cross a threshold) and from INFO on (one per block begin and end).
 */
#ifndef VGC_CONTROL_FUNCTIONS_PERF_H
#define VGC_CONTROL_FUNCTIONS_PERF_H

#include "../execution.h"

/* Makes a begin or end record of the running block. Sampling goes by the block's index, so that it keeps both records
 * of a block or neither. */
VGC_CTL_FN void vgc_ctl_perf_block(const struct vgc_ctl_unit *unit, uint32_t type, uint64_t last_word, uint64_t now)
{
    struct vgc_ctl_execution execution;
    if (vgc_ctl_bind_level(vgc_ctl_bound(unit, VGC_CTL_PERF)) < VGC_CTL_INFO ||
        !vgc_ctl_hold(unit, VGC_CTL_PERF, &execution))
        return;
    if (vgc_ctl_is_sampled(&execution, unit->block)) {
        uint64_t words[3] = {unit->kernel, unit->launch, last_word};
        struct vgc_ctl_message message = {VGC_CTL_PERF,           VGC_CTL_INFO, type, sizeof(words),
                                          (const uint8_t *)words, now,          false};
        vgc_ctl_record(unit, &execution, &message);
    }
    vgc_ctl_release(unit);
}

VGC_CTL_FN void vgc_ctl_perf_begin(const struct vgc_ctl_unit *unit, uint64_t now)
{
    vgc_ctl_perf_block(unit, VGC_CTL_PERF_BLOCK_BEGIN, unit->threads, now);
}

VGC_CTL_FN void vgc_ctl_perf_end(const struct vgc_ctl_unit *unit, uint64_t now, uint64_t duration_ns)
{
    vgc_ctl_perf_block(unit, VGC_CTL_PERF_BLOCK_END, duration_ns, now);
}

VGC_CTL_FN void vgc_ctl_perf_event(const struct vgc_ctl_unit *unit, uint64_t name, int64_t value)
{
    uint64_t words[2] = {name, (uint64_t)value};
    struct vgc_ctl_message message = {
        VGC_CTL_PERF, VGC_CTL_WARNING, VGC_CTL_PERF_EVENT, sizeof(words), (const uint8_t *)words, 0, false};
    vgc_ctl_emit(unit, &message);
}

/* ---- counters ------------------------------------------------------------------------------------------------ */

/* Adds to the element's counter of that name, which the first call makes; does nothing if other names have taken all
 * counters. */
VGC_CTL_FN void vgc_ctl_perf_count(const struct vgc_ctl_unit *unit, uint64_t name, int64_t delta)
{
    if (vgc_ctl_bound(unit, VGC_CTL_PERF) == 0 || name == 0)
        return;
    for (uint32_t i = 0; i < VGC_CTL_COUNTERS; i++) {
        struct vgc_ctl_counter *counter = &unit->pe->counters[i];
        if (vgc_ctl_load64(&counter->name) == 0)
            (void)vgc_ctl_cas64(&counter->name, 0, name);
        if (vgc_ctl_load64(&counter->name) == name) {
            vgc_ctl_add64((uint64_t *)&counter->value, (uint64_t)delta);
            return;
        }
    }
}

/* ---- gauges -------------------------------------------------------------------------------------------------- */

union vgc_ctl_double {
    double value;
    uint64_t bits;
};

VGC_CTL_FN double vgc_ctl_load_double(const double *from)
{
    union vgc_ctl_double loaded;
    loaded.bits = vgc_ctl_load64((const uint64_t *)from);
    return loaded.value;
}

VGC_CTL_FN void vgc_ctl_store_double(double *to, uint64_t bits)
{
    vgc_ctl_store64((uint64_t *)to, bits);
}

enum {
    /* temporary value of `name` while a warp initialises the gauge; no text has address 1 */
    VGC_CTL_GAUGE_IN_MAKING = 1,
    /* bound of the wait for that warp: it makes three stores, but guest code can write the mark, too */
    VGC_CTL_GAUGE_ROUNDS = 64,
};

/* The gauge's name; waits while another warp is making the gauge. */
VGC_CTL_FN uint64_t vgc_ctl_perf_gauge_name(const struct vgc_ctl_unit *unit, const struct vgc_ctl_gauge *gauge)
{
    uint64_t name = vgc_ctl_acquire64(&gauge->name);
    for (uint32_t round = 0; name == VGC_CTL_GAUGE_IN_MAKING && round < VGC_CTL_GAUGE_ROUNDS; round++) {
        vgc_ctl_relax(unit, round);
        name = vgc_ctl_acquire64(&gauge->name);
    }
    return name;
}

/* The element's gauge of that name, made without thresholds if it is new; NULL if all are taken. */
VGC_CTL_FN struct vgc_ctl_gauge *vgc_ctl_perf_find_gauge(const struct vgc_ctl_unit *unit, uint64_t name)
{
    for (uint32_t i = 0; i < VGC_CTL_GAUGES; i++) {
        struct vgc_ctl_gauge *gauge = &unit->pe->gauges[i];
        if (vgc_ctl_load64(&gauge->name) == 0 && vgc_ctl_cas64(&gauge->name, 0, VGC_CTL_GAUGE_IN_MAKING)) {
            vgc_ctl_store_double(&gauge->value, 0x7FF8000000000000ull); /* NaN: within all thresholds */
            vgc_ctl_store_double(&gauge->low, 0xFFF0000000000000ull);   /* -infinity */
            vgc_ctl_store_double(&gauge->high, 0x7FF0000000000000ull);
            vgc_ctl_release64(&gauge->name, name);
        }
        if (vgc_ctl_perf_gauge_name(unit, gauge) == name)
            return gauge;
    }
    return 0;
}

/* Sets a gauge. Makes a record when the value leaves the range between the thresholds, and when it comes back. */
VGC_CTL_FN void vgc_ctl_perf_gauge(const struct vgc_ctl_unit *unit, uint64_t name, double value)
{
    union vgc_ctl_double now, before, crossed;
    if (vgc_ctl_bound(unit, VGC_CTL_PERF) == 0 || name <= VGC_CTL_GAUGE_IN_MAKING)
        return;
    struct vgc_ctl_gauge *gauge = vgc_ctl_perf_find_gauge(unit, name);
    if (gauge == 0)
        return;
    double low = vgc_ctl_load_double(&gauge->low), high = vgc_ctl_load_double(&gauge->high);
    now.value = value;
    before.bits = vgc_ctl_swap64((uint64_t *)&gauge->value, now.bits);
    bool was_below = before.value<low, was_above = before.value> high;
    if ((value < low) == was_below && (value > high) == was_above)
        return;
    crossed.value = value < low || was_below ? low : high;
    if (value > high)
        crossed.value = high;
    uint64_t words[3] = {name, now.bits, crossed.bits};
    struct vgc_ctl_message message = {
        VGC_CTL_PERF, VGC_CTL_WARNING, VGC_CTL_PERF_GAUGE, sizeof(words), (const uint8_t *)words, 0, false};
    vgc_ctl_emit(unit, &message);
}

#endif
