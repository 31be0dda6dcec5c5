"""Firmware of processing elements: building and signing images, and rolling them out."""
