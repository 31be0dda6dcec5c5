"""Fakes shared by tests, fuzzers and benchmarks: guest driver, frontend, worker, daemon, CUDA driver."""
