"""Host side of the control system: from a command of the control centre to a channel on a processing element."""
