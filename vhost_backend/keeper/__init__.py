"""Keeper of the daemon: a small process that holds what must not end when ``vgcd`` does, and the daemon's side of it."""
