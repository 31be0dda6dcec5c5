#pragma once

/* Name of the CUDA runtime that the first object of this process with one was linked with, in the order in which they
 * were loaded: the program comes first. NULL: none was. */
const char *vgc_needed_runtime(void) __attribute__((visibility("hidden")));
