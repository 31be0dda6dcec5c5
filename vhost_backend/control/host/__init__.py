"""The host in the control API: its GPUs and VMs, their errors, and the control system's own cost."""
