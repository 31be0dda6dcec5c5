"""Firmware of processing elements: who may make it, what it is made of, and how it gets to them."""
