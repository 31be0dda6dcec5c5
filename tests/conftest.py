"""Settings of all tests."""

from __future__ import annotations

import contextlib
import os
import signal

with contextlib.suppress(ModuleNotFoundError):  # a machine with a GPU has no hypothesis, and its tests need none
    from hypothesis import HealthCheck, settings

    settings.register_profile("no-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("no-clock")  # a busy machine is no failure: no example has a deadline

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; programs that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup; likewise
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

for variable in ("VGC_CHOICE_FILE", "VGC_EITHER_FILE"):  # times that this user's programs have measured decide nothing
    os.environ[variable] = ""
