"""Attacks of guests, and of workers that guest code owns, on the host and on other guests: each gets nothing."""
