/* Work by function: launches, their time and how it spreads. The table is bounded, as a guest may have any number of
 * functions: those that find no place count together. A look gives the places of the idlest to others. */
#include "internal.h"

enum { MADE_FREE = VGC_NUM_TALLIES / 4 };

static bool is_free(const struct vgc_function_tally *tally)
{
    return tally->name[0] == '\0';
}

static bool is_of(const struct vgc_function_tally *tally, const char *name)
{
    return strncmp(tally->name, name, sizeof(tally->name) - 1) == 0;
}

/* Finds the function's place by its name, so that it keeps it when its program is loaded again, or gives it one. */
static void place_function(struct vgc_dp *dp, struct vgc_function *function)
{
    uint32_t place = VGC_TALLY_OTHERS;
    function->tally_epoch = dp->tally_epoch;
    for (uint32_t i = VGC_TALLY_FIRST; i < VGC_NUM_TALLIES; i++) {
        const struct vgc_function_tally *tally = &dp->tallies[i];
        if (!is_free(tally) && is_of(tally, function->short_name)) {
            function->tally = i;
            return;
        }
        if (place == VGC_TALLY_OTHERS && is_free(tally))
            place = i;
    }
    function->tally = place;
    if (function->short_name[0] == '\0')
        function->tally = VGC_TALLY_OTHERS;
    else if (place == VGC_TALLY_OTHERS)
        dp->lacks_tallies = true;
    else
        strncpy(dp->tallies[place].name, function->short_name, sizeof(dp->tallies[place].name) - 1);
}

void vgc_tally_launch(struct vgc_dp *dp, struct vgc_req *req, struct vgc_function *function)
{
    if (VGC_UNLIKELY(function->tally_epoch != dp->tally_epoch))
        place_function(dp, function);
    vgc_tally_begin(dp, req, function->tally);
    req->work = function->work;
}

static void count(struct vgc_function_work *work, const struct vgc_op *op, uint64_t start_ns)
{
    work->launches++;
    if (start_ns == 0 || op->end_ns < start_ns)
        return;
    work->busy_ns += op->end_ns - start_ns;
    work->times[vgc_latency_class(op->end_ns - start_ns)]++;
}

void vgc_tally_count(struct vgc_dp *dp, const struct vgc_req *req, const struct vgc_op *op, uint64_t start_ns)
{
    struct vgc_function_tally *tally =
        &dp->tallies[req->tally_epoch == dp->tally_epoch ? req->tally : VGC_TALLY_OTHERS];
    count(&tally->work, op, start_ns);
    if (req->work != NULL)
        count(req->work, op, start_ns);
}

/* Place whose function has computed least since the last look, among those that are taken. */
static uint32_t idlest(const struct vgc_dp *dp)
{
    uint32_t found = VGC_TALLY_OTHERS;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = VGC_TALLY_FIRST; i < VGC_NUM_TALLIES; i++) {
        uint64_t busy = dp->tallies[i].work.busy_ns - dp->busy_at_look[i];
        if (!is_free(&dp->tallies[i]) && busy < least) {
            least = busy;
            found = i;
        }
    }
    return found;
}

static void make_room(struct vgc_dp *dp)
{
    for (int i = 0; i < MADE_FREE; i++) {
        uint32_t place = idlest(dp);
        dp->tallies[place] = (struct vgc_function_tally){0};
        dp->busy_at_look[place] = 0;
    }
    dp->lacks_tallies = false;
    dp->tally_epoch++;
}

uint32_t vgc_dp_functions(struct vgc_dp *dp, struct vgc_function_tally *tallies)
{
    uint32_t found = 0;
    vgc_dp_lock(dp);
    for (uint32_t i = 0; i < VGC_NUM_TALLIES; i++)
        if (dp->tallies[i].work.launches != 0)
            tallies[found++] = dp->tallies[i];
    if (dp->lacks_tallies)
        make_room(dp);
    for (uint32_t i = 0; i < VGC_NUM_TALLIES; i++)
        dp->busy_at_look[i] = dp->tallies[i].work.busy_ns;
    vgc_dp_unlock(dp);
    return found;
}

void vgc_tallies_init(struct vgc_dp *dp)
{
    strcpy(dp->tallies[VGC_TALLY_OTHERS].name, "(others)");
    strcpy(dp->tallies[VGC_TALLY_GRAPHS].name, "(graphs)");
    dp->tally_epoch = 1;
}
