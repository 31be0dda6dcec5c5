/* Health check of a firmware image on the element that it is to run on: makes records of a block through one channel of
 * a control area in `scratch`, and reads them back. */
#ifndef VGC_CONTROL_SELF_TEST_H
#define VGC_CONTROL_SELF_TEST_H

#include "control.h"

enum {
    VGC_CTL_TEST_SLOTS = 2,
    VGC_CTL_TEST_GENERATION = 7,
};

/* A control area of one element and one channel; aligned like the real one, zeroed by the caller. */
struct vgc_ctl_scratch {
    struct vgc_ctl_pe pe;
    struct vgc_ctl_channel channels[2];
    struct vgc_ctl_record slots[VGC_CTL_TEST_SLOTS];
};

/* The check that failed: `code` of a firmware record. */
enum vgc_ctl_test {
    VGC_CTL_TEST_OK = 0,
    VGC_CTL_TEST_COUNTS = 1,  /* a block that ran was not counted */
    VGC_CTL_TEST_RECORDS = 2, /* its records are missing or wrong */
    VGC_CTL_TEST_LOST = 3,    /* a record without room was not counted as lost */
    VGC_CTL_TEST_READERS = 4, /* a hook did not leave */
};

VGC_CTL_FN bool vgc_ctl_test_record(const struct vgc_ctl_record *record, uint64_t position, uint32_t type)
{
    return record->commit == position + 1 && record->sequence == position && record->type == type &&
           record->function_level == (VGC_CTL_PERF << 4 | VGC_CTL_INFO) && record->length == 24;
}

VGC_CTL_FN uint64_t vgc_ctl_self_test(const struct vgc_ctl_unit *unit, struct vgc_ctl_scratch *scratch)
{
    struct vgc_ctl_unit tested = *unit;
    struct vgc_ctl_channel *channel = &scratch->channels[1];
    struct vgc_ctl_place place = {(uint8_t *)scratch, sizeof(*scratch), scratch->channels, 2, 1, 0, 0};
    channel->generation = VGC_CTL_TEST_GENERATION;
    channel->slots = VGC_CTL_TEST_SLOTS;
    channel->out = (uint64_t)(uintptr_t)scratch->slots;
    scratch->pe.bind[VGC_CTL_PERF] = vgc_ctl_bind(VGC_CTL_TEST_GENERATION, 1, VGC_CTL_INFO, 0);
    tested.place = &place;
    tested.pe = &scratch->pe;
    tested.launch = 1;
    tested.threads = 64;
    vgc_ctl_block_begin(&tested);
    vgc_ctl_block_end(&tested);
    if (scratch->pe.blocks != 1 || scratch->pe.warps_done != 2 || scratch->pe.launches != 1)
        return VGC_CTL_TEST_COUNTS;
    if (!vgc_ctl_test_record(&scratch->slots[0], 0, VGC_CTL_PERF_BLOCK_BEGIN) ||
        !vgc_ctl_test_record(&scratch->slots[1], 1, VGC_CTL_PERF_BLOCK_END))
        return VGC_CTL_TEST_RECORDS;
    vgc_ctl_block_begin(&tested);
    if (channel->lost != 1 || channel->records != 3 || channel->head != 2)
        return VGC_CTL_TEST_LOST;
    return scratch->pe.readers == 0 ? VGC_CTL_TEST_OK : VGC_CTL_TEST_READERS;
}

#endif
