"""Soak: everything that happens on a host, mixed, for a long time, while memory, descriptors and accounts are watched."""
