"""Firmware images: format, signature, source."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.control.firmware import build, signing
from vhost_backend.errors import ConfigError
from virtio_proto.control import firmware
from virtio_proto.control.firmware import ImageError, Manifest

KEY = Ed25519PrivateKey.generate()
KEYS = {signing.key_id(KEY.public_key()): KEY.public_key()}
SOURCE = "int main() {}\n"


def manifest(**changes: object) -> Manifest:
    made = {"version": "1.2.3", "abi": 1, "name": "test", "built_ns": 7, "key": next(iter(KEYS))}
    return Manifest(**(made | changes))  # type: ignore[arg-type]  # wrong ones on purpose


def image() -> bytes:
    return signing.sign(manifest(), SOURCE, KEY)


def test_signed_image_comes_back_whole() -> None:
    found = signing.verify(image(), KEYS)
    assert (found.manifest, found.source) == (manifest(), SOURCE)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    raw = bytearray(image())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ImageError):
        signing.verify(bytes(raw), KEYS)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_image_or_an_image_error(raw: bytes) -> None:
    for data in (raw, firmware.MAGIC + raw):
        with pytest.raises(ImageError):
            firmware.parse(data)


def test_key_that_the_host_does_not_trust_is_named() -> None:
    other = Ed25519PrivateKey.generate()
    theirs = signing.sign(manifest(key=signing.key_id(other.public_key())), SOURCE, other)
    with pytest.raises(ImageError, match=rf"key {signing.key_id(other.public_key())}.*allowed: {next(iter(KEYS))}"):
        signing.verify(theirs, KEYS)
    with pytest.raises(ImageError, match=r"none: set control\.firmware_keys"):
        signing.verify(theirs, {})


def test_image_that_claims_a_trusted_key_but_is_signed_with_another_is_refused() -> None:
    signed = firmware.to_be_signed(manifest(), SOURCE)
    with pytest.raises(ImageError, match="signature is wrong"):
        signing.verify(signed + Ed25519PrivateKey.generate().sign(signed), KEYS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "1.2"}, r"allowed: major\.minor\.patch"),
        ({"version": "1.2.65536"}, "below 65536"),
        ({"version": "01.2.3"}, r"allowed: major\.minor\.patch"),
        ({"abi": "1"}, "abi is '1'; allowed: int"),
        ({"abi": True}, "abi is True; allowed: int"),
        ({"key": "x"}, "allowed: 16 hexadecimal digits"),
        ({"name": ""}, "allowed: 1 to 64 printable"),
        ({"name": "a\nb"}, "allowed: 1 to 64 printable"),
    ],
)
def test_wrong_manifest_is_refused_with_the_allowed_values(changes: dict[str, object], said: str) -> None:
    raw = firmware.to_be_signed(manifest(**changes), SOURCE) + bytes(firmware.SIGNATURE_BYTES)
    with pytest.raises(ImageError, match=said):
        firmware.parse(raw)


def test_image_that_is_too_long_is_refused_before_it_is_signed() -> None:
    with pytest.raises(ImageError, match=f"allowed: {firmware.MAX_BYTES}"):
        signing.sign(manifest(), "x" * firmware.MAX_BYTES, KEY)


@given(st.tuples(*[st.integers(0, 65535)] * 3))
def test_version_number_orders_as_versions_do(parts: tuple[int, int, int]) -> None:
    text = ".".join(map(str, parts))
    assert firmware.version_text(firmware.version_number(text)) == text
    assert (firmware.version_number(text) < firmware.version_number("7.8.9")) == (parts < (7, 8, 9))


def test_keys_are_made_once_and_the_secret_one_is_private(tmp_path: Path) -> None:
    secret, public = signing.make_keys(tmp_path / "new" / "keys")
    assert secret.stat().st_mode & 0o777 == 0o600
    key = signing.secret_key(secret)
    assert list(signing.public_keys([public])) == [signing.key_id(key.public_key())]
    with pytest.raises(ConfigError, match="allowed: a folder without firmware keys"):
        signing.make_keys(secret.parent)


def test_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no key")
    for read in (signing.secret_key, lambda path: signing.public_keys([path])):
        with pytest.raises(ConfigError, match=r"wrong\.pem: not a"):
            read(wrong)
        with pytest.raises(ConfigError, match="No such file"):
            read(tmp_path / "nothing")


def test_source_has_every_header_once(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\nint a;\n')
    (tmp_path / "b.h").write_text("#include <stdint.h>\nint b;\n")
    (tmp_path / "firmware.cu").write_text('#include "a.h"\n  # include "b.h" // again\nint c;\n')
    assert build.amalgamate(tmp_path).split() == ["#include", "<stdint.h>", "int", "b;", "int", "a;", "int", "c;"]


@pytest.mark.parametrize("wanted", ["../secret.h", "nothing.h", "/etc/passwd"])
def test_source_takes_nothing_from_elsewhere(tmp_path: Path, wanted: str) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    (tmp_path / "secret.h").write_text("int secret;")
    (folder / "firmware.cu").write_text(f'#include "{wanted}"\n')
    with pytest.raises(ImageError, match="allowed: files of"):
        build.amalgamate(folder)
