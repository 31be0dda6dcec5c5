"""Ordinary CUDA programs, built by mynvcc and run on the real daemon's software GPU, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.protocol.cuda_programs import PROGRAMS, Builds, CudaProgram
from tests.protocol.guest_host import GuestHost, guest_host

AWAITED: Final[dict[str, str]] = {}
"""Programs of what the guest's toolkit does not do yet, by its part. A program that passes must be taken out."""
_REASONS: Final = {name: part for part, names in AWAITED.items() for name in names.split()}


def case(program: CudaProgram) -> object:
    """The program as a case of a test; one that waits for a part of the toolkit must fail."""
    reason = _REASONS.get(program.name)
    marks = [pytest.mark.xfail(reason=f"not there yet: {reason}", strict=True)] if reason else []
    return pytest.param(program, id=program.name, marks=marks)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture(scope="module")
def builds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builds]:
    """Builds what the session is going to run."""
    wanted = {item.callspec.params.get("program") for item in request.session.items if hasattr(item, "callspec")}
    builds = Builds(
        tmp_path_factory.mktemp("programs"),
        [program for program in PROGRAMS if program in wanted and not program.lacking],
    )
    yield builds
    builds.close()


@pytest.mark.parametrize("program", [case(program) for program in PROGRAMS])
def test_program_passes_its_own_check(host: GuestHost, builds: Builds, program: CudaProgram) -> None:
    if lacking := program.lacking:
        pytest.skip(f"{program.name} needs {lacking}")
    built = builds[program]
    done = host.run(built, cwd=built.parent)
    assert done.returncode == 0, f"{program.rule}\n{done.stdout}{done.stderr}"
    assert "PASS" in done.stdout
    for stream, text in program.expected:
        assert text in getattr(done, stream)


def test_programs_that_are_waited_for_exist() -> None:
    assert _REASONS.keys() <= {program.name for program in PROGRAMS}
