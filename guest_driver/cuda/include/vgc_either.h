/* For programs some of whose functions run on either side. With other compilers, __vgc_either__ means nothing. */
#pragma once

#ifndef __vgc_either__
#define __vgc_either__
#endif

/* Functions of the program that the CPU can run, by name: __host__ __device__ functions, and kernels' CPU versions, of files
 * with __vgc_either__ or compiled with mynvcc --either. Of libcudart. */
#ifdef __cplusplus
extern "C" {
#endif
/* A function by the linker's name or, if no other has it, by its name in the source; to be called as what it is. NULL if
 * the program has no such function. */
void *vgc_local_function(const char *name);
/* Calls `visit` for each; the address of a kernel is NULL. */
void vgc_local_functions(void (*visit)(const char *name, const char *source_name, void *address, void *data), void *data);
#ifdef __cplusplus
}
#endif
