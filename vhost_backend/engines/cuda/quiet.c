/* Waiting until nothing runs.
 *
 * Loading a module may make the driver wait for the whole context. A thread that has entered the engine must not wait
 * that way: nobody would look at deadlines meanwhile, and a kernel that hangs would never be ended. So nothing new is
 * submitted, and the wait is for what runs, with the engine left again and again. */
#include "cuda_engine.h"

#include <time.h>

static bool is_quiet(const struct cuda_engine *engine)
{
    for (const struct cuda_lane *lane = engine->active; lane != NULL; lane = lane->next)
        if (lane->stream != NULL && (lane->open_ops != 0 || lane->stream->seen != lane->stream->issued))
            return false;
    return true;
}

void cuda_quiet_enter(struct cuda_engine *engine)
{
    vgc_engine_enter(&engine->base);
    engine->draining = true;
    cuda_poll(&engine->base);
    while (!is_quiet(engine)) {
        struct timespec nap = {.tv_nsec = (long)cuda_nap_ns(&engine->base, cuda_now_ns())};
        vgc_engine_leave(&engine->base);
        nanosleep(&nap, NULL);
        vgc_engine_enter(&engine->base);
        cuda_poll(&engine->base);
    }
}

void cuda_quiet_leave(struct cuda_engine *engine)
{
    engine->draining = false;
    vgc_engine_leave(&engine->base);
}
