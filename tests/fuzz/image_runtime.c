/* The runtime that images import, for the fuzzer of their loader: nothing of it is ever called. Names alone, as images
 * have them. */
#include "input.h"

__thread void *vgc_cpu_current __attribute__((tls_model("initial-exec")));

#define IMPORT(name)                                                                                                   \
    void name(void);                                                                                                   \
    void name(void)                                                                                                    \
    {                                                                                                                  \
        PROMISE(!"no code of an image runs");                                                                          \
    }

IMPORT(__vgc_printf)
IMPORT(__vgc_vprintf)
IMPORT(__vgc_assert_fail)
IMPORT(__vgc_trap)
IMPORT(__vgc_globaltimer)
IMPORT(__vgc_dynamic_shared_bytes)
IMPORT(__vgc_shared_bytes)
IMPORT(__vgc_heap_allocate)
IMPORT(__vgc_heap_release)
IMPORT(__vgc_heap_allocate_checked)
IMPORT(__vgc_heap_release_checked)
IMPORT(__vgc_launch)
IMPORT(__vgc_launch_error)
IMPORT(__vgc_launch_wait)
IMPORT(__vgc_num_pes)
IMPORT(__vgc_check)
IMPORT(__vgc_mbarrier_arrive)
IMPORT(__vgc_texture_sample)
IMPORT(__vgc_surface_outside)
IMPORT(__vgc_ctl_level)
IMPORT(__vgc_ctl_emit)
IMPORT(__vgc_ctl_count)
IMPORT(__vgc_ctl_gauge)
IMPORT(__vgc_ctl_read)
IMPORT(__vgc_ctl_poll)
