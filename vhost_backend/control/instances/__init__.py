"""Instances, which users open, and the channels on processing elements that serve them."""
