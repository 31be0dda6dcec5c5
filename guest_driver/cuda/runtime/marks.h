/* Marks and ranges of NVTX, on their way to the control system's time line. */
#ifndef VGC_CUDART_MARKS_H
#define VGC_CUDART_MARKS_H

#include "base.h"

uint64_t rt_clock_ns(void);
/* Keeps the mark until it is sent with others. */
void rt_note_mark(const struct vgc_mark_info *mark);
/* Sends what has been kept for a while; costs nothing if there is nothing. */
void rt_marks_settle(void);
/* Sends all; the device is about to be closed. */
void rt_marks_end(struct vgc_device *device);

#endif
