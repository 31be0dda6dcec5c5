"""``make gpu``: all checks that need an NVIDIA GPU, in one command and in bounded time. Start in ``__main__.py``."""
