"""Key ``engine`` of a VM's configuration: the engine that computes for the VM, with its options.

Its value is a name (``auto``, ``cpu``, ``null``, ``cuda``), a name with a CUDA device (``cuda:1``,
``cuda:GPU-<uuid>``, ``cuda:MIG-<uuid>``), or a mapping ``{kind: ..., options: {...}}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast

from virtio_proto.yaml_values import (
    GIB,
    KIB,
    SIZE_UNITS,
    Located,
    Parser,
    Problems,
    Scalar,
    choice,
    flag,
    path_of,
    scaled,
    table_of,
)

EngineName: TypeAlias = Literal["auto", "cpu", "null", "cuda"]
ENGINES: Final = ("auto", "cpu", "null", "cuda")
CANNOT_MIGRATE: Final[tuple[EngineName, ...]] = ("cuda",)
"""Engines whose VMs cannot be migrated, as their workers cannot save and load their state yet."""
MAX_DEVICES: Final = 64
MIG_PREFIX: Final = "MIG-"

_DEVICE: Final = (
    f"a device number of 0 to {MAX_DEVICES - 1}, or a UUID such as `nvidia-smi -L` lists: GPU-... or MIG-..."
)
_HEX: Final = "[0-9a-f]"
_NUMBER: Final = re.compile("[0-9]{1,9}")
_UUID: Final = re.compile(
    rf"GPU-{_HEX}[0-9a-f-]{{0,35}}|MIG-{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}", re.IGNORECASE
)
"""UUID of a GPU, which may be cut short as elsewhere in CUDA, or of a MIG instance."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Engine that computes for a VM; each engine defines its `options`."""

    kind: EngineName = "auto"
    options: Mapping[str, Scalar] = field(default_factory=dict)


def why_stays(kind: EngineName) -> str:
    """Reason why VMs on an engine can never be migrated; "" if they can."""
    if kind not in CANNOT_MIGRATE:
        return ""
    others = " and ".join(name for name in ENGINES if name not in (*CANNOT_MIGRATE, "auto"))
    return f"VMs on the engine {kind} cannot be migrated yet; allowed: VMs on the engines {others}"


def parse_engine(problems: Problems, path: str, at: Located) -> EngineConfig:
    """Parser of the key ``engine``."""
    if not isinstance(at.value, dict):
        return _named(problems, path, at)
    table = table_of(problems, path, at, {"kind": choice(*ENGINES), "options": _unparsed})
    kind = cast("EngineName", table.get("kind", "auto"))
    options = table.get("options")
    return EngineConfig(kind, {} if options is None else _options(problems, f"{path}.options", options, kind))


def _named(problems: Problems, path: str, at: Located) -> EngineConfig:
    kind, colon, device = str(at.value).partition(":")
    if at.value in ENGINES:
        return EngineConfig(cast("EngineName", at.value))
    if kind == "cuda" and colon:
        found = int(device) if _NUMBER.fullmatch(device) else device
        if not _can_be_device(found):
            problems.add(at, path, f"cuda: and {_DEVICE}")
        return EngineConfig("cuda", {"device": _as_nvidia_writes(found)})
    problems.add(
        at,
        path,
        f"{' or '.join(map(_written, ENGINES))}, or cuda with a device: cuda:1, cuda:GPU-<uuid>, cuda:MIG-<uuid>",
    )
    return EngineConfig()


def _written(name: str) -> str:
    """Engine's name as a configuration has it: YAML takes the bare word null for nothing."""
    return '"null" in quotes' if name == "null" else name


def _options(problems: Problems, path: str, at: Located, kind: EngineName) -> dict[str, Scalar]:
    if isinstance(at.value, dict) and at.value and not ENGINE_OPTIONS[kind]:
        for option, item in at.value.items():
            text = f"{path}.{option} is not a key; allowed: nothing, the engine {kind} has no options"
            problems.note(item.line, text)
        return {}
    if not isinstance(at.value, dict) and not ENGINE_OPTIONS[kind]:
        problems.add(at, path, f"nothing, the engine {kind} has no options")
        return {}
    return table_of(problems, path, at, ENGINE_OPTIONS[kind])


def _device(problems: Problems, path: str, at: Located) -> int | str | None:
    value = at.value
    if _can_be_device(value):
        return _as_nvidia_writes(value)
    problems.add(at, path, _DEVICE)
    return None


def _as_nvidia_writes(device: int | str) -> int | str:
    """Writes a UUID's prefix in capitals, which the driver requires."""
    return device[:4].upper() + device[4:] if isinstance(device, str) else device


def _can_be_device(value: object) -> TypeGuard[int | str]:
    if isinstance(value, str):
        return _UUID.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_DEVICES


def _driver(problems: Problems, path: str, at: Located) -> str | None:
    found = path_of(problems, path, at)
    return None if found is None else str(found)


def _unparsed(_problems: Problems, _path: str, at: Located) -> Located:
    """Leaves the options for `_options`, because they depend on the kind."""
    return at


def _libraries(problems: Problems, path: str, at: Located) -> str | None:
    """Folder of CUB, Thrust and libcu++."""
    if at.value in ("auto", False, "off"):  # off is false to YAML
        return "auto" if at.value == "auto" else "off"
    if isinstance(at.value, str) and at.value.startswith("/"):
        return at.value
    problems.add(at, path, "auto, off, or the folder that has cub, cuda, nv and thrust")
    return None


_CUDA_OPTIONS: Final[Mapping[str, Parser[Any]]] = {
    "device": _device,
    "driver": _driver,
    "compiler": choice("auto", "nvrtc", "nvcc"),
    "completion": choice("auto", "memory", "event"),
    "memory": choice("pool", "mapped"),
    "hooks": choice("auto", "on", "off"),
    "libraries": choice("auto", "on", "off"),
    "binaries": flag,
    "heap": scaled(SIZE_UNITS, 64 * KIB, 64 * GIB, "a size such as 8M, from 64K to 64G"),
}
_CPU_OPTIONS: Final[Mapping[str, Parser[Any]]] = {
    "cccl": _libraries,
    "guard_pages": flag,
    "lockstep": flag,
    "perf_maps": flag,
}
ENGINE_OPTIONS: Final[Mapping[EngineName, Mapping[str, Parser[Any]]]] = {
    "auto": {**_CUDA_OPTIONS, "cccl": _libraries},
    "cpu": _CPU_OPTIONS,
    "null": {},
    "cuda": _CUDA_OPTIONS,
}
"""Options of each engine. Those of ``auto`` apply to the engine that it chooses."""
