"""Driver of the control system: control memory, channels and links, in C (``*.c``), with a Python interface."""
