"""Compilation of guest source: a fair queue of sandboxed compilers in front of a content-addressed cache."""
