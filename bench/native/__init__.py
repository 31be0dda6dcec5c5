"""Hot loops of the benchmarks, in C, so that figures do not contain the cost of Python."""
