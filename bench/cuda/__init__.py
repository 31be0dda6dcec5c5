"""What the CUDA rows share: the GPU of this machine, VMs on it, and the native side beside them."""
