"""The hot loops of the benchmarks, in C, so that Python's own cost is in no figure."""
