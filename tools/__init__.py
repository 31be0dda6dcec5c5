"""What builds, fetches and boots: used by the Makefile, the tests and the benchmarks, never by the product."""
