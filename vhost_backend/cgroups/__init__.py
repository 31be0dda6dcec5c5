"""Control groups: accounts and bounds that the kernel keeps for processes, whatever code runs in them."""
