"""Host side of virtio-gpu-compute: daemon, workers, data plane and engines."""
