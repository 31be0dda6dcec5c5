"""The REST API, /api/v1: one module per resource, each with its `Route` objects."""

from __future__ import annotations

from control_center.rest import channels, faults, figures, firmware, hosts, moving, own, recordings
from control_center.rest.route import Route

ROUTES: tuple[Route, ...] = (
    *hosts.ROUTES,
    *channels.ROUTES,
    *figures.ROUTES,
    *faults.ROUTES,
    *moving.ROUTES,
    *firmware.ROUTES,
    *recordings.ROUTES,
    *own.ROUTES,
)
