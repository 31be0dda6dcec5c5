"""Protocol between the daemon and its workers: messages, their codec, and the daemon's end of the link."""
