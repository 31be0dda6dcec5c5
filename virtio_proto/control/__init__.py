"""What daemons and control centres say to each other: frames, selectors, records and the API's messages."""
