"""Protocol between daemons and control centres: frames, selectors, records and the API's messages."""
