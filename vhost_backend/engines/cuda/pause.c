/* Pausing: no operations are submitted until nothing runs on the GPU.
 *
 * Loading a module may make the driver wait for the whole context. A thread that has entered the engine must not wait
 * like that: deadlines would not be checked meanwhile, and a kernel that hangs would never be ended. */
#include "cuda_engine.h"

static bool is_quiet(const struct cuda_engine *engine)
{
    for (const struct cuda_lane *lane = engine->active; lane != NULL; lane = lane->next)
        if (lane->stream != NULL && (lane->open_ops != 0 || lane->stream->seen != lane->stream->issued))
            return false;
    return true;
}

bool vgc_cuda_engine_pause(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    vgc_engine_enter(base);
    engine->draining = true;
    cuda_poll(base);
    bool quiet = is_quiet(engine) && cuda_timer_is_quiet(engine) && cuda_zero_is_done(engine);
    vgc_engine_leave(base);
    return quiet;
}

void vgc_cuda_engine_resume(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    vgc_engine_enter(base);
    engine->draining = false;
    vgc_engine_leave(base);
}
