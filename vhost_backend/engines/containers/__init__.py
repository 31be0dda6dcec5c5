"""Readers of what guests bring as a program: fatbins and programs of several units.

Parts of the engines' compile programs (`engines.interpreter`): they run in the sandbox of a compiler only.
"""
