"""Contract between driver and device: wire format (construct) and split virtqueues (C11)."""
