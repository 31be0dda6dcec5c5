"""Configuration of the daemon: one module for each section of the file."""
