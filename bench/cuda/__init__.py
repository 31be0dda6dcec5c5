"""Helpers of the CUDA rows: the GPU of this machine, VMs on it, and the native baseline."""
