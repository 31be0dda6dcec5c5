/* Tables that stubs.awk writes, with an entry for each name, and front.c or interposer.c fills. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* Names of the functions, and where calls of them jump to: to a first step that calls vgc_resolve(), until that has
 * found all. */
extern const char *const vgc_names[] HIDDEN;
extern void *vgc_slots[] HIDDEN;
extern const size_t vgc_num_names HIDDEN;
/* Steps before the functions that have vgc_trace_enter() called. */
extern void *const vgc_traced[] HIDDEN;

/* The function itself, or the step before it. Called by the first steps, with the arguments of the call kept. */
void *vgc_resolve(size_t index) HIDDEN;

/* ---- trace.c ----------------------------------------------------------------------------------------------------- */

/* libvgc's vgc_trace_call(), in whichever library has it. */
typedef void vgc_trace_function(const char *name, uint64_t start_ns);

/* Is this process traced? */
bool vgc_is_traced(void) HIDDEN;
/* From now on, calls of the functions in `targets` are told to `tell`: an entry for each name. False: no memory. */
bool vgc_trace_with(vgc_trace_function *tell, void *const *targets) HIDDEN;
/* The step before a function, or the function itself if it has none or nothing is traced. */
void *vgc_traced_form(void *function) HIDDEN;
/* For the steps: begins a call, whose return address it keeps and replaces, and returns the function. */
void *vgc_trace_enter(size_t index, void **returns_to, void *left) HIDDEN;
/* Ends it, and returns the address that was kept. */
void *vgc_trace_leave(void *const *returned_from) HIDDEN;
