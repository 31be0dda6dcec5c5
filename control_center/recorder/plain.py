"""What hosts and people said, as JSON can say it: for exports, which one odd value must not end."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import Any


def plain(value: Any) -> Any:
    """`value` of nothing but what JSON has: bytes become base64, numbers that it lacks null, keys and the rest texts."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return str(value)
