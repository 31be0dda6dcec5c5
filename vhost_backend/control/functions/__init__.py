"""Functions of the control system: what each does on the host with what its elements report."""
