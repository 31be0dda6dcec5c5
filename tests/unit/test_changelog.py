"""The changelog keeps its form, and its newest release is what the parts call themselves."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from virtio_proto.version import VERSION

CHANGELOG = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text()
RELEASE = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})")
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

TITLES = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
RELEASES = [RELEASE.fullmatch(title) for title in TITLES[1:]]


def test_what_is_not_released_stands_above_releases_with_dates() -> None:
    assert TITLES[0] == "[Unreleased]"
    assert RELEASES
    assert all(RELEASES), TITLES


def test_the_newest_release_is_the_version() -> None:
    assert TITLES[1].startswith(f"[{VERSION}] - ")


def test_releases_are_in_order() -> None:
    found = [release for release in RELEASES if release is not None]
    versions = [tuple(map(int, release.groups()[:3])) for release in found]
    days = [date.fromisoformat(release[4]) for release in found]
    assert versions == sorted(set(versions), reverse=True)
    assert days == sorted(days, reverse=True)


def test_sections_are_those_of_keep_a_changelog_and_none_is_empty() -> None:
    for part in re.split(r"^## .*$", CHANGELOG, flags=re.MULTILINE)[1:]:
        sections = re.findall(r"^### (.*)\n(.?)", part, re.MULTILINE)
        names = [name for name, _ in sections]
        assert set(names) <= SECTIONS
        assert len(set(names)) == len(names)
        assert all(first == "-" for _, first in sections)
