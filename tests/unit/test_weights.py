"""Weights of VMs: in the configuration, as limits of control groups, and as nice values elsewhere."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.fakes.cgroup_home import home
from vhost_backend.cgroups import weights
from vhost_backend.cgroups.limits import Limits
from vhost_backend.cgroups.weights import LEAST_NICE, highest, least_nice, nice_of, sharing
from vhost_backend.config.daemon import parse
from vhost_backend.daemon import housing
from vhost_backend.daemon.bounds import vm_limits
from vhost_backend.doctor import host as doctor
from vhost_backend.errors import ConfigError
from vhost_backend.quarters import NOWHERE, Quarters, Weight


def test_weight_is_100_or_what_the_configuration_says() -> None:
    config = parse("vms: {a: {socket: /s/a}, b: {socket: /s/b, quota: {weight: 10000}}}")
    assert [vm.quota.weight for vm in config.vms] == [100, 10000]


@pytest.mark.parametrize("weight", [0, 10001, "heavy", 1.5])
def test_other_weights_are_refused(weight: object) -> None:
    with pytest.raises(ConfigError, match=rf"vms.a.quota.weight is {weight!r}; allowed: an integer of 1 to 10000"):
        parse(f"vms: {{a: {{socket: /s/a, quota: {{weight: {weight}}}}}}}")


@pytest.mark.parametrize(
    ("weight", "nice"), [(1, 19), (10, 10), (50, 3), (80, 1), (100, 0), (125, -1), (300, -5), (8000, -20), (10000, -20)]
)
def test_a_step_of_nice_is_a_quarter_more(weight: int, nice: int) -> None:
    assert nice_of(weight) == nice


def test_a_nice_value_goes_no_lower_than_is_allowed() -> None:
    assert (nice_of(300, least=0), nice_of(300, least=-2), nice_of(10, least=0)) == (0, -2, 10)
    assert (highest(0), highest(-2)) == (100, 156)


@pytest.mark.parametrize(("capabilities", "privileged"), [("000001ffffffffff", True), ("00000000a80425fb", False)])
def test_only_some_processes_may_go_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capabilities: str, privileged: bool
) -> None:
    (tmp_path / "status").write_text(f"Name:\tvgcd\nCapEff:\t{capabilities}\nSeccomp:\t0\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (0, 0))
    assert least_nice(tmp_path) == (LEAST_NICE if privileged else 0)
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (25, 25))
    assert least_nice(tmp_path) == (LEAST_NICE if privileged else -5 - os.nice(0))


@pytest.mark.parametrize(
    ("autogroup", "groups", "unit"),
    [
        ("1", "1:cpu:/\n0::/", "session"),
        ("1", "0::/", "session"),
        ("1", "0::/plain/folder", "session"),
        ("1", "0::/user/login", "thread"),
        ("1", "2:cpu,cpuacct:/docker/7\n0::/", "thread"),
        ("1", "2:cpuacct:/docker/7\n1:cpu:/\n0::/", "session"),
        ("0", "1:cpu:/\n0::/", "thread"),
        (None, "0::/", "thread"),
    ],
)
def test_sessions_count_only_where_no_group_does(tmp_path: Path, autogroup: str | None, groups: str, unit: str) -> None:
    switch = tmp_path / "sched_autogroup_enabled"
    if autogroup is not None:
        switch.write_text(f"{autogroup}\n")
    (tmp_path / "cgroup").write_text(f"{groups}\n")
    tree = tmp_path / "tree"
    for folder in ("user/login", "plain/folder"):
        (tree / folder).mkdir(parents=True)
    (tree / "user" / "cpu.weight").write_text("100\n")
    assert sharing(tmp_path, switch, tree) == unit


@pytest.mark.parametrize("unit", ["session", "thread"])
def test_whoever_may_not_raise_threads_gives_a_session_its_weight(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    """The session's value is what counts where sessions share; elsewhere nothing has changed."""
    monkeypatch.setattr(weights, "sharing", lambda: unit)
    monkeypatch.setattr(os, "setpriority", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    quarters = Quarters(weight=Weight(25))
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as process:
        try:
            if unit == "session":
                quarters.weigh(50, process.pid)
            else:
                with pytest.raises(PermissionError):
                    quarters.weigh(50, process.pid)
        finally:
            process.kill()
    assert quarters.weight.value == (50 if unit == "session" else 25)


def test_a_weight_is_a_nice_value_only_without_a_control_group() -> None:
    assert (NOWHERE.nice, Quarters(weight=Weight(25)).nice) == (0, 6)
    with home() as own:
        quarters = Quarters(cgroup=own.group.child("vm-a"), weight=Weight(25))
        assert (quarters.nice, quarters.sharing) == (0, f"cgroup{own.group.version}")


def test_without_a_control_group_a_weight_reaches_as_far_as_nice_values_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhost_backend.quarters.least_nice", lambda: -2)
    assert [Quarters(weight=Weight(weight)).reached_weight for weight in (50, 156, 300)] == [50, 156, 156]
    with home() as own:
        assert Quarters(cgroup=own.group.child("vm-a"), weight=Weight(300)).reached_weight == 300


def test_check_of_a_configuration_names_weights_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housing, "least_nice", lambda: 0)
    names = {"a": 100, "b": 101, "c": 300}
    vms = ", ".join(f"{name}: {{socket: /s/{name}, quota: {{weight: {weight}}}}}" for name, weight in names.items())
    lines = housing.describe(parse(f"cgroups: 'off'\nvms: {{{vms}}}"))
    assert lines[-1] == "quota.weight of b, c counts as 100 for processors, the most that vgcd may give here"
    assert "counts as" not in " ".join(housing.describe(parse("cgroups: 'off'\nvms: {a: {socket: /s/a}}")))


def test_worker_and_compilers_of_a_vm_have_its_cores_together_and_some_to_serve_it() -> None:
    quota = "quota: {pes: 3, weight: 50}"
    config = parse(
        f"vms: {{a: {{engine: cpu, {quota}, socket: /s/a}}, b: {{engine: cuda, {quota}, socket: /s/b}}, "
        "c: {engine: cpu, socket: /s/c}}"
    )
    assert [vm_limits(vm) for vm in config.vms] == [Limits(cpus=5, weight=50), Limits(weight=50), Limits()]


def test_doctor_says_what_weights_count_for_without_control_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "sharing", lambda: "thread")
    monkeypatch.setattr(weights, "least_nice", lambda: 0)
    (finding,) = doctor._weights()
    assert finding.text == (
        "nice values, where there are no control groups: counted for each thread; highest weight: 100"
    )
