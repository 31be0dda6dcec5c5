"""Programs of frameworks in Python, which tests run in a guest with `vgc exec`."""
