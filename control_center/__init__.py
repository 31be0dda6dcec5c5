"""The control centre: one place that watches and steers the GPUs of many hosts, records and replays it."""
