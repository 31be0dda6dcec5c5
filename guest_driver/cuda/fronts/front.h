/* Tables that stubs.awk writes, with an entry for each name, and front.c fills. */
#pragma once
#include <stddef.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* Names of the functions, and where calls of them jump to: to a first step that calls vgc_resolve(), until that has
 * found all. */
extern const char *const vgc_names[] HIDDEN;
extern void *vgc_slots[] HIDDEN;
extern const size_t vgc_num_names HIDDEN;

/* The function itself. Called by the first steps, with the arguments of the call kept. */
void *vgc_resolve(size_t index) HIDDEN;
