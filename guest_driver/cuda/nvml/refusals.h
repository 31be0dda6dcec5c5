/* Functions of NVML for what the host does not tell a VM. Their definitions are written by refusals.awk, without
 * nvml.h, which declares them with all of their parameters. */
#pragma once

/* NVML_ERROR_NOT_SUPPORTED, behind the checks that all functions of a device make. */
int nv_refuse_device(const void *device);
/* Likewise, for functions that are given no device first. */
int nv_refuse(void);
