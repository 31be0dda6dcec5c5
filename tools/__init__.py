"""Tools that build, fetch and boot, for the Makefile, the tests and the benchmarks; the product uses none of them."""
