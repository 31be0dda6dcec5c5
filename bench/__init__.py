"""Benchmarks: ``python -m bench`` measures every row beside its baseline in one run (docs/benchmarks.md)."""
