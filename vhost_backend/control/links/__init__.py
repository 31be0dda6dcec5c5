"""The seams of the control system: towards the daemon's VMs, and over worker links to their channels."""
