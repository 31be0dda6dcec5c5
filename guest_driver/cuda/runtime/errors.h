/* Errors of this thread, of libvgc, and in words. */
#ifndef VGC_CUDART_ERRORS_H
#define VGC_CUDART_ERRORS_H

#include "base.h"
/* ---- errors.c ---------------------------------------------------------------------------------------------------- */

/* Notes the error as this thread's last, and returns it. Every function of the API ends with it. */
cudaError_t rt_return(cudaError_t error);
/* Makes another error this thread's last; returns the one before. */
cudaError_t rt_swap_last(cudaError_t error);
/* CUDA's error for a result of libvgc. Keeps libvgc's text for `vgc last-error`. */
cudaError_t rt_error(int vgc_result);
/* Notes why a call failed, in words, for `vgc last-error`, and returns `error`. */
cudaError_t rt_explain(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the error for `vgc last-error` (last_error.c). `explanation` may be empty. */
void rt_keep_error(cudaError_t error, const char *explanation);
/* Says once, on standard error, what a program asked for that is not there, and returns cudaErrorNotSupported. */
cudaError_t rt_unsupported(const char *what);

#endif
