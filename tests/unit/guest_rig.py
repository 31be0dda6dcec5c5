"""Fixtures of the guest's tests: a link, a fake device on it, and the binding that talks to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import guest_driver as vgc
from tests.fakes.device import FakeDevice
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink


@pytest.fixture
def link() -> Iterator[GuestLink]:
    with GuestLink() as link:
        yield link


@pytest.fixture
def fake(link: GuestLink) -> Iterator[FakeDevice]:
    with FakeDevice(link) as fake:
        yield fake


@pytest.fixture
def dev(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> Iterator[vgc.Device]:
    assert fake.link is link
    with open_device(link, tmp_path) as dev:
        yield dev
