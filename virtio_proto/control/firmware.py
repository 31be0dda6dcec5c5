"""Firmware images: signed files of the control code that runs on processing elements.

An image holds source, not machine code: one CUDA C++ file that every host compiles for its GPUs, software GPU
included. One image serves a whole cluster, and the signature covers text that people can read::

    8 bytes    magic, ``VGCFW001``
    4 bytes    length of the manifest, little-endian
    manifest   JSON: version, abi, name, built_ns, key
    source     UTF-8, up to the signature
    64 bytes   Ed25519 signature of all preceding bytes

Parsing checks the form only; `vhost_backend.control.firmware` checks the signature.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import asdict, dataclass, fields
from typing import Final

MAGIC: Final = b"VGCFW001"
SIGNATURE_BYTES: Final = 64
MAX_BYTES: Final = 1 << 20
MAX_MANIFEST_BYTES: Final = 4096
_LENGTH: Final = struct.Struct("<I")
_VERSION: Final = re.compile(r"(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})")
_KEY: Final = re.compile(r"[0-9a-f]{16}")


class ImageError(ValueError):
    """The bytes are not a firmware image; the text says what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of an image, stored in it."""

    version: str
    """major.minor.patch"""
    abi: int
    """``VGC_CTL_ABI`` of the hooks that the image is made for."""
    name: str
    built_ns: int
    """Build time, CLOCK_REALTIME."""
    key: str
    """First 8 bytes of the SHA-256 of the public key, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Image:
    """Parsed image. `signature` covers the bytes `signed`."""

    manifest: Manifest
    source: str
    signed: bytes
    signature: bytes


def version_number(version: str) -> int:
    """Converts a version to the number that elements report: major << 32 | minor << 16 | patch.

    :raise ImageError: it is not major.minor.patch with parts below 65536.
    """
    match = _VERSION.fullmatch(version)
    parts = [int(part) for part in match.groups()] if match else [1 << 16]
    if max(parts) >= 1 << 16:
        raise ImageError(f"version {version!r:.40}; allowed: major.minor.patch, each below 65536")
    major, minor, patch = parts
    return major << 32 | minor << 16 | patch


def version_text(number: int) -> str:
    """Inverse of `version_number`."""
    return f"{number >> 32}.{number >> 16 & 0xFFFF}.{number & 0xFFFF}"


def to_be_signed(manifest: Manifest, source: str) -> bytes:
    """Builds an image without its signature."""
    described = json.dumps(asdict(manifest), sort_keys=True).encode()
    return MAGIC + _LENGTH.pack(len(described)) + described + source.encode()


def parse(data: bytes) -> Image:
    """Parses an image.

    :raise ImageError: `data` is not an image.
    """
    if len(data) > MAX_BYTES:
        raise ImageError(f"an image of {len(data)} bytes; allowed: {MAX_BYTES}")
    head = len(MAGIC) + _LENGTH.size
    if not data.startswith(MAGIC) or len(data) < head + SIGNATURE_BYTES:
        raise ImageError("not a firmware image: it does not begin with VGCFW001, or is cut short")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    if length > min(MAX_MANIFEST_BYTES, len(data) - head - SIGNATURE_BYTES):
        raise ImageError(f"a manifest of {length} bytes; allowed: {MAX_MANIFEST_BYTES}, inside the image")
    signed, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
    try:
        source = signed[head + length :].decode()
    except UnicodeDecodeError:
        raise ImageError("source that is not UTF-8") from None
    return Image(_manifest(signed[head : head + length]), source, signed, signature)


def _manifest(raw: bytes) -> Manifest:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise ImageError("a manifest that is not JSON") from None
    expected = {"version": str, "abi": int, "name": str, "built_ns": int, "key": str}
    if not isinstance(found, dict) or found.keys() != expected.keys():
        raise ImageError(
            f"a manifest without exactly these keys: {', '.join(field.name for field in fields(Manifest))}"
        )
    for key, kind in expected.items():
        if type(found[key]) is not kind:
            raise ImageError(f"manifest: {key} is {found[key]!r:.40}; allowed: {kind.__name__}")
    version_number(found["version"])
    if not _KEY.fullmatch(found["key"]):
        raise ImageError(f"manifest: key is {found['key']!r:.40}; allowed: 16 hexadecimal digits")
    if not 0 < len(found["name"]) <= 64 or not found["name"].isprintable():
        raise ImageError(f"manifest: name is {found['name']!r:.40}; allowed: 1 to 64 printable characters")
    return Manifest(**found)
