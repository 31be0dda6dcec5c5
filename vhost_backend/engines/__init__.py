"""Engines: they compute behind the device."""
