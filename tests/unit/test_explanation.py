"""`vgc explain`: kept times of functions that are called by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import guest_driver as vgc
from guest_driver import cli
from tests.fakes.device import FakeDevice, FakeFunction
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import fake, link

__all__ = ["fake", "link"]

FILE = """\
00000000000000aa saxpy 20 40000 9 1000 20 # Software GPU, 2 processing elements
00000000000000aa saxpy 41 100000 9 2500000 3 # Software GPU, 2 processing elements
00000000000000bb saxpy 20 5000 9 0 0
00000000000000aa a%20name 0 0 0 7 1 # Software GPU, 2 processing elements
what is this
00000000000000aa saxpy 4000 1 1 1 1
"""


@pytest.fixture(autouse=True)
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "choice"
    path.write_text(FILE)
    monkeypatch.setenv("VGC_CHOICE_FILE", str(path))
    monkeypatch.delenv("VGC_SIDE", raising=False)
    return path


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["explain", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["explain", *words]) == 1
    return capsys.readouterr().err


def rows(output: str) -> list[str]:
    return [" ".join(line.split()) for line in output.splitlines()[1:]]


def test_each_size_has_its_times_and_its_side(capsys: pytest.CaptureFixture[str], times: Path) -> None:
    output = explained(capsys, "saxpy")
    assert output.startswith(f"saxpy: by the bytes of its buffers; times in {times}\n")
    assert rows(output) == [
        "on Software GPU, 2 processing elements:",
        "size host samples CPU samples side why",
        "from 1 KiB 40 us 9 1 us 20 CPU 40 times as fast",
        "from 1.5 MiB 100 us 9 2.5 ms 3 host 25 times as fast",
        "on device 00000000000000bb:",
        "size host samples CPU samples side why",
        "from 1 KiB 5 us 9 - 0 CPU to measure it",
    ]


def test_a_side_that_was_not_measured_at_a_size_is_judged_by_other_sizes(
    capsys: pytest.CaptureFixture[str], times: Path
) -> None:
    lines = ("20 100000 9 10000 9", "38 0 0 7000000 9", "40 110000 9 10000000 9")
    times.write_text("".join(f"00000000000000aa mixed {line} # Software GPU\n" for line in lines))
    (middle,) = (row for row in rows(explained(capsys, "mixed")) if row.startswith("from 512 KiB"))
    assert middle.startswith("from 512 KiB - 0 7 ms 9 host ")
    assert middle.endswith(" times as fast, going by the host's times for other sizes")


def test_rules_come_before_times(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_SIDE", "sax*=host:bytes<4K")
    assert rows(explained(capsys, "saxpy"))[2].endswith("host by a rule in VGC_SIDE")
    monkeypatch.setenv("VGC_SIDE", "sax*=hots")
    assert "'hots' is no side; allowed: cpu, gpu, host, auto" in refused(capsys, "saxpy")


def test_functions_are_listed(capsys: pytest.CaptureFixture[str], times: Path) -> None:
    assert explained(capsys) == f"times of 2 functions in {times}\na name\nsaxpy\n"


def test_unknown_function_is_named_with_those_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing is known about 'sapxy'" in refused(capsys, "sapxy")
    assert "it has, for one, saxpy" in refused(capsys, "sapxy")
    assert len(refused(capsys, "x" * (1 << 20))) < 500


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 10, None], ids=["empty", "binary", "missing"])
def test_file_without_times_says_nothing(
    capsys: pytest.CaptureFixture[str], times: Path, content: bytes | None
) -> None:
    times.unlink()
    if content is not None:
        times.write_bytes(content)
    assert "nothing is known about 'saxpy' in" in refused(capsys, "saxpy")


def test_no_file_is_explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_CHOICE_FILE", "")
    assert "no times are kept: VGC_CHOICE_FILE is empty" in refused(capsys, "saxpy")


def test_kept_times_are_those_of_the_process(
    capsys: pytest.CaptureFixture[str], link: GuestLink, fake: FakeDevice, tmp_path: Path, times: Path
) -> None:
    """One table in the driver, one in the file: the same sizes, times and samples."""
    times.unlink()
    fake.functions = [FakeFunction("odd %name\t", call=lambda buffers: buffers)]
    with open_device(link, tmp_path) as dev:
        dev.functions.register("odd %name\t", lambda _x: None)
        for size in (1, 2, 3, 96, 1000):
            for side in ("host", "cpu"):
                dev.call_named("odd %name\t", vgc.InOut(bytearray(size)), side=side)
        known = dev.functions.known("odd %name\t")
    lines = rows(explained(capsys, "odd %name\t"))[2:]
    assert [line.split()[1] for line in lines] == [str(row.size_from) for row in known]
    assert [line.split()[5] for line in lines] == [str(row.host_samples) for row in known]
