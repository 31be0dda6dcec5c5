/* CPU versions of kernels. */
#ifndef VGC_CUDART_LOCAL_H
#define VGC_CUDART_LOCAL_H

#include "base.h"

struct rt_either;
struct rt_function;
struct rt_unit;
struct vgc_local_table;
/* Kernels that may have one: while it is 0, launches are issued without further questions. */
extern _Atomic uint32_t rt_num_either;
bool rt_has_local(const struct rt_unit *unit);
/* Notes that the function's unit has CPU versions. */
void rt_local_register(struct rt_function *function);
/* Launches the kernel's CPU version if that is chosen; then true, with the result in *error. */
bool rt_local_launch(const void *host, dim3 grid, dim3 block, size_t shared, void *const *arguments,
                     cudaStream_t stream, uint32_t flags, cudaError_t *error);

#endif
