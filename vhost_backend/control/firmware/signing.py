"""Keys and signatures of firmware images: Ed25519, in PEM files as OpenSSL writes them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from vhost_backend.errors import ConfigError
from virtio_proto.control import firmware
from virtio_proto.control.firmware import Image, ImageError, Manifest

Keys: TypeAlias = Mapping[str, Ed25519PublicKey]
"""Public keys by their `key_id`."""


def key_id(key: Ed25519PublicKey) -> str:
    """Identifier of a key in images: the first 8 bytes of its SHA-256, in hexadecimal."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Writes a new key pair: ``firmware.key`` (secret, mode 0600) and ``firmware.pub`` (for `firmware_keys`).

    Makes the folder (mode 0700) if it is missing.

    :raise ConfigError: the folder cannot be written, or has such files already.
    """
    secret, public = folder / "firmware.key", folder / "firmware.pub"
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(secret, pem, 0o600)
        _write_new(
            public,
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            0o644,
        )
    except OSError as error:
        raise ConfigError([f"{error.filename}: {error.strerror}; allowed: a folder without firmware keys"]) from None
    return secret, public


def _write_new(path: Path, content: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


def secret_key(path: Path) -> Ed25519PrivateKey:
    """Reads the secret key in a PEM file.

    :raise ConfigError: the file cannot be read, or holds another kind of key.
    """
    try:
        key = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError([f"{path}: not a secret Ed25519 key; allowed: a PEM file without password"])
    return key


def public_keys(paths: Iterable[Path]) -> Keys:
    """Reads the public keys in PEM files.

    :raise ConfigError: a file cannot be read, or holds another kind of key.
    """
    keys = [_public_key(path) for path in paths]
    return {key_id(key): key for key in keys}


def _public_key(path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(_read(path))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError([f"{path}: not a public Ed25519 key; allowed: a PEM file, such as firmware.pub"])
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}; allowed: a readable PEM file"]) from None


def sign(manifest: Manifest, source: str, key: Ed25519PrivateKey) -> bytes:
    """Signs an image and returns it as bytes; the manifest must name this key.

    :raise ImageError: the result would not be a valid image: it is too long, say.
    """
    signed = firmware.to_be_signed(manifest, source)
    data = signed + key.sign(signed)
    verify(data, {key_id(key.public_key()): key.public_key()})
    return data


def verify(data: bytes, keys: Keys) -> Image:
    """Parses the image in `data` and checks that one of `keys` signed it.

    :raise ImageError: `data` is not an image, or no trusted key signed it.
    """
    image = firmware.parse(data)
    key = keys.get(image.manifest.key)
    if key is None:
        known = ", ".join(keys) or "none: set control.firmware_keys"
        raise ImageError(f"signed with key {image.manifest.key}, which this host does not trust; allowed: {known}")
    try:
        key.verify(image.signature, image.signed)
    except InvalidSignature:
        raise ImageError(f"the signature is wrong: key {image.manifest.key} did not sign this image") from None
    return image
