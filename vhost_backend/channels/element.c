/* Processing elements: attention, firmware, figures, snapshots. */
#include "internal.h"

#include <string.h>

enum {
    BLOCK_FUNCTIONS = 1 << VGC_CTL_PERF | 1 << VGC_CTL_LOAD | 1 << VGC_CTL_SNAPSHOT,
    SAMPLE_WORDS = 4,
};

/* Reads an element's row and converts its times to CLOCK_MONOTONIC; 0 stays 0. */
static void read_row(const struct vgc_control *control, uint32_t pe, struct vgc_ctl_pe *row)
{
    vgc_control_read(&control->area, vgc_control_pe_at(&control->area, pe), row, sizeof(*row));
    uint64_t *times[] = {&row->since_ns, &row->ended_ns, &row->last_record_ns, &row->busy_since_ns};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (*times[i] != 0)
            *times[i] += vgc_control_clock(&control->area);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

void vgc_control_kick(struct vgc_control *control)
{
    const struct vgc_engine *engine = control->area.engine;
    if (engine != NULL && engine->ops->control_kick != NULL)
        engine->ops->control_kick(control->area.engine);
}

void vgc_control_attend(struct vgc_control *control, uint32_t pe)
{
    struct vgc_control_element *element = &control->elements[pe];
    uint32_t attention = 0;
    bool attended = element->asked || (element->bound & BLOCK_FUNCTIONS) != 0;
    if (attended)
        attention |= VGC_CTL_ATTEND_BLOCKS;
    if (attended && element->attended_ns == 0)
        element->attended_ns = vgc_control_now_ns();
    else if (!attended)
        element->attended_ns = 0;
    if (element->changing)
        attention |= VGC_CTL_ATTEND_FIRMWARE;
    if (element->confined)
        attention |= VGC_CTL_ATTEND_CONFINED;
    vgc_control_store32(&control->area, vgc_control_pe_at(&control->area, pe) + offsetof(struct vgc_ctl_pe, attention),
                        attention);
}

static int check_pes(const struct vgc_control *control, const uint16_t *pes, uint32_t count, char *why)
{
    for (uint32_t i = 0; i < count; i++)
        if (pes[i] >= control->area.num_pes) {
            vgc_control_say(why, "processing element %u; allowed: 0..%u", pes[i], control->area.num_pes - 1);
            return -EINVAL;
        }
    return 0;
}

int vgc_control_confine(struct vgc_control *control, const uint16_t *pes, uint32_t count, char *why)
{
    int result = check_pes(control, pes, count, why);
    if (result != 0)
        return result;
    for (uint32_t pe = 0; pe < control->area.num_pes; pe++)
        control->elements[pe].confined = count != 0;
    for (uint32_t i = 0; i < count; i++)
        control->elements[pes[i]].confined = false;
    for (uint32_t pe = 0; pe < control->area.num_pes; pe++)
        vgc_control_attend(control, pe);
    vgc_control_kick(control);
    return 0;
}

/* ---- firmware --------------------------------------------------------------------------------------------------- */

static void follow(struct vgc_control *control, struct vgc_control_element *element, bool changing, bool watched)
{
    control->num_changing -= element->changing || element->watched;
    element->changing = changing;
    element->watched = watched;
    control->num_changing += changing || watched;
}

int vgc_control_activate(struct vgc_control *control, const uint16_t *pes, uint32_t count, uint32_t slot, char *why)
{
    int result = check_pes(control, pes, count, why);
    if (result != 0)
        return result;
    for (uint32_t i = 0; i < count; i++) {
        struct vgc_control_element *element = &control->elements[pes[i]];
        uint64_t row = vgc_control_pe_at(&control->area, pes[i]);
        follow(control, element, true, false);
        element->testing = false;
        element->slot = (uint8_t)slot;
        vgc_control_store32(&control->area, row + offsetof(struct vgc_ctl_pe, firmware_state), 0);
        vgc_control_store32(&control->area, row + offsetof(struct vgc_ctl_pe, firmware_wanted), slot + 1);
        vgc_control_attend(control, pes[i]);
    }
    vgc_control_kick(control);
    return 0;
}

/* True if the state of the element's firmware has changed since the last call. The element clears `firmware_wanted`
 * when it begins to change and sets `firmware_state` when it has finished; a later roll back sets that again. */
static bool has_news(struct vgc_control *control, uint32_t pe, struct vgc_ctl_pe *row)
{
    struct vgc_control_element *element = &control->elements[pe];
    if (!element->changing && !element->watched)
        return false;
    read_row(control, pe, row);
    if (element->watched) {
        if (row->firmware_state != VGC_CTL_FW_ROLLED_BACK)
            return false;
        follow(control, element, false, false);
        return true;
    }
    if (row->firmware_wanted != 0 || (row->firmware_state == 0 && element->testing))
        return false;
    if (row->firmware_state == 0) {
        row->firmware_state = VGC_CTL_FW_STAGED;
        row->firmware_tried = element->slot;
        row->firmware_code = 0;
        return element->testing = true;
    }
    /* a device that is apart does not survive a fault of an image, and is slow to read */
    follow(control, element, false, row->firmware_state == VGC_CTL_FW_ACTIVE && !vgc_control_is_apart(&control->area));
    vgc_control_attend(control, pe);
    return true;
}

uint32_t vgc_control_firmware(struct vgc_control *control, struct vgc_control_firmware *states, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t pe = 0; pe < control->area.num_pes && control->num_changing != 0 && count < max; pe++) {
        struct vgc_ctl_pe row;
        if (has_news(control, pe, &row))
            states[count++] = (struct vgc_control_firmware){.pe = (uint16_t)pe,
                                                            .slot = (uint8_t)row.firmware_tried,
                                                            .state = (uint8_t)row.firmware_state,
                                                            .version = row.firmware_version,
                                                            .code = row.firmware_code};
    }
    return count;
}

void vgc_control_slots(struct vgc_control *control, struct vgc_control_slot *slots)
{
    for (uint32_t pe = 0; pe < control->area.num_pes; pe++) {
        struct vgc_ctl_pe row;
        read_row(control, pe, &row);
        slots[pe] = (struct vgc_control_slot){.slot = (uint8_t)(row.firmware_slot & 1),
                                              .state = (uint8_t)row.firmware_state,
                                              .code = row.firmware_code < UINT16_MAX ? (uint16_t)row.firmware_code
                                                                                     : UINT16_MAX};
    }
}

/* ---- gauges ----------------------------------------------------------------------------------------------------- */

void vgc_control_gauges(struct vgc_control *control, uint32_t pe, uint64_t *names)
{
    struct vgc_ctl_pe row;
    read_row(control, pe, &row);
    for (uint32_t i = 0; i < VGC_CTL_GAUGES; i++)
        names[i] = row.gauges[i].name;
}

void vgc_control_bound_gauge(struct vgc_control *control, uint32_t pe, uint32_t gauge, double low, double high)
{
    uint64_t at = vgc_control_pe_at(&control->area, pe) + offsetof(struct vgc_ctl_pe, gauges) +
                  gauge * sizeof(struct vgc_ctl_gauge);
    vgc_control_write(&control->area, at + offsetof(struct vgc_ctl_gauge, low), &low, sizeof(low));
    vgc_control_write(&control->area, at + offsetof(struct vgc_ctl_gauge, high), &high, sizeof(high));
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

/* Busy time with blocks that began before the element attended to blocks. The row does not have these, so the engine is
 * asked if one runs, and its time since attended_ns is added up here. */
static uint64_t unnoted_ns(struct vgc_control *control, uint32_t pe, const struct vgc_ctl_pe *row, uint64_t now_ns)
{
    struct vgc_control_element *element = &control->elements[pe];
    uint64_t since_ns = element->attended_ns;
    bool noted = row->since_ns >= since_ns || row->ended_ns >= since_ns;
    struct vgc_ctl_pe seen = {0};
    if (since_ns != 0 && since_ns < now_ns && !noted && vgc_control_can_look(control) &&
        control->area.engine->ops->control_look(control->area.engine, pe, &seen)) {
        element->unnoted_ns += now_ns - since_ns;
        element->attended_ns = now_ns;
    }
    return element->unnoted_ns;
}

/* Busy time, the running block's included. */
static uint64_t busy_ns(struct vgc_control *control, uint32_t pe, const struct vgc_ctl_pe *row, uint64_t now_ns)
{
    bool running = row->kernel != 0 && row->since_ns > row->ended_ns && row->since_ns < now_ns;
    return row->busy_ns + (running ? now_ns - row->since_ns : 0) + unnoted_ns(control, pe, row, now_ns);
}

uint32_t vgc_control_sample(struct vgc_control *control, struct vgc_control_channel *channel, uint64_t now_ns,
                            uint8_t *to)
{
    struct vgc_ctl_pe row;
    read_row(control, channel->link.pe, &row);
    bool perf = channel->link.function == VGC_CTL_PERF;
    uint64_t busy = busy_ns(control, channel->link.pe, &row, now_ns);
    uint64_t perf_words[SAMPLE_WORDS] = {row.blocks, row.warps_done, busy, row.stall_ns};
    uint64_t load_words[SAMPLE_WORDS] = {busy, row.blocks, row.launches, row.since_ns};
    struct vgc_ctl_record record = {.time_ns = now_ns,
                                    .function_level = (uint8_t)(channel->link.function << 4 | VGC_CTL_CRITICAL),
                                    .type = perf ? VGC_CTL_PERF_SAMPLE : VGC_CTL_LOAD_SAMPLE,
                                    .length = sizeof(perf_words),
                                    .pe = channel->link.pe,
                                    .block = (uint32_t)row.block,
                                    .sequence = (uint32_t)channel->made};
    memcpy(record.payload, perf ? perf_words : load_words, sizeof(perf_words));
    memcpy(to, &record.time_ns, 24 + sizeof(perf_words));
    return 24 + sizeof(perf_words);
}

/* Appends (name, value) pairs; returns their number. */
static uint8_t put_counters(struct vgc_control *control, const struct vgc_ctl_pe *row, uint8_t *to)
{
    uint8_t count = 0;
    for (uint32_t i = 0; i < VGC_CTL_COUNTERS && row->counters[i].name != 0; i++, count++) {
        memcpy(to + count * 16, &row->counters[i], 16);
        vgc_control_note_text(control, row->counters[i].name);
    }
    return count;
}

static uint8_t put_gauges(struct vgc_control *control, const struct vgc_ctl_pe *row, uint8_t *to)
{
    uint8_t count = 0;
    for (uint32_t i = 0; i < VGC_CTL_GAUGES && row->gauges[i].name > 1; i++, count++) {
        memcpy(to + count * 16, &row->gauges[i], 16);
        vgc_control_note_text(control, row->gauges[i].name);
    }
    return count;
}

static uint32_t put_figures(struct vgc_control *control, uint32_t pe, uint64_t now_ns, uint8_t *to)
{
    struct vgc_ctl_pe row;
    read_row(control, pe, &row);
    struct vgc_control_figures figures = {.pe = (uint16_t)pe,
                                          .blocks = row.blocks,
                                          .warps = row.warps_done,
                                          .launches = row.launches,
                                          .busy_ns = busy_ns(control, pe, &row, now_ns),
                                          .stall_ns = row.stall_ns,
                                          .faults = row.faults};
    uint32_t used = sizeof(figures);
    figures.counters = put_counters(control, &row, to + used);
    used += figures.counters * 16u;
    figures.gauges = put_gauges(control, &row, to + used);
    used += figures.gauges * 16u;
    memcpy(to, &figures, sizeof(figures));
    return used;
}

uint32_t vgc_control_figures(struct vgc_control *control, uint64_t now_ns, uint8_t *to, uint32_t size)
{
    const uint32_t most = sizeof(struct vgc_control_figures) + 16 * (VGC_CTL_COUNTERS + VGC_CTL_GAUGES);
    uint32_t used = 0;
    control->texts.unknown_count = 0;
    control->figured_before = control->figured;
    for (; control->figured < control->area.num_pes && size - used >= most; control->figured++)
        if (control->elements[control->figured].due)
            used += put_figures(control, control->figured, now_ns, to + used);
    if (used == 0 && control->figured == control->area.num_pes)
        control->figured = control->figured_before = 0;
    return used;
}

void vgc_control_figured(struct vgc_control *control, bool sent)
{
    if (!sent) {
        control->figured = control->figured_before;
        return;
    }
    for (uint32_t pe = control->figured_before; pe < control->figured; pe++)
        control->elements[pe].due = false;
    if (control->figured == control->area.num_pes)
        control->figured = 0;
}

/* ---- snapshots -------------------------------------------------------------------------------------------------- */

bool vgc_control_can_look(const struct vgc_control *control)
{
    return control->area.engine != NULL && control->area.engine->ops->control_look != NULL;
}

void vgc_control_ask(struct vgc_control *control, bool on)
{
    for (uint32_t pe = 0; pe < control->area.num_pes; pe++) {
        control->elements[pe].asked = on;
        vgc_control_attend(control, pe);
    }
    vgc_control_kick(control);
}

/* State by the element's row. The element has answered if it noted a block since it was asked, or is idle. */
static void by_row(struct vgc_control *control, uint64_t asked_ns, struct vgc_control_state *state,
                   const struct vgc_ctl_pe *row)
{
    bool attended = (control->elements[state->pe].bound & BLOCK_FUNCTIONS) != 0;
    state->answered = row->kernel == 0 || attended || row->since_ns >= asked_ns || row->ended_ns >= asked_ns;
    state->warps = row->warps;
    state->kernel = row->kernel;
    state->launch = row->launch;
    state->block = row->block;
    state->since_ns = row->since_ns;
}

/* State by the engine; `since_ns` is taken from the row, which is more exact, if that has the same block. */
static void by_engine(const struct vgc_control *control, struct vgc_control_state *state, const struct vgc_ctl_pe *seen,
                      const struct vgc_ctl_pe *row)
{
    bool attended = (control->elements[state->pe].bound & BLOCK_FUNCTIONS) != 0;
    bool same = attended && row->kernel == seen->kernel && row->launch == seen->launch && row->block == seen->block;
    state->warps = seen->warps;
    state->kernel = seen->kernel;
    state->launch = seen->launch;
    state->block = seen->block;
    state->since_ns = same ? row->since_ns : seen->since_ns;
}

uint32_t vgc_control_look(struct vgc_control *control, uint64_t asked_ns, struct vgc_control_state *states)
{
    struct vgc_engine *engine = control->area.engine;
    uint32_t answered = 0;
    control->texts.unknown_count = 0;
    for (uint32_t pe = 0; pe < control->area.num_pes; pe++) {
        struct vgc_ctl_pe row, seen = {0};
        struct vgc_control_state state = {.pe = (uint16_t)pe};
        read_row(control, pe, &row);
        if (vgc_control_can_look(control)) {
            state.answered = 1;
            if (engine->ops->control_look(engine, pe, &seen)) /* else idle */
                by_engine(control, &state, &seen, &row);
        } else {
            by_row(control, asked_ns, &state, &row);
        }
        state.at_ns = vgc_control_now_ns();
        state.last_record_ns = row.last_record_ns;
        states[pe] = state;
        vgc_control_note_text(control, state.kernel);
        answered += state.answered;
    }
    return answered;
}
