"""VMs beside those of the configuration: the roll, and the state file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from vhost_backend.config import daemon as configuration
from vhost_backend.config.daemon import MIB, DaemonConfig
from vhost_backend.daemon import roll
from vhost_backend.daemon.roll import AddedVm, Roll, VmStore
from vhost_backend.errors import ConfigError, HostError

BASE = (
    "defaults: {deadline: 3s, quota: {memory: 1G}}\nvms: {a: {socket: /run/a}, b: {socket: /run/b, region_file: /r/b}}"
)


def base(text: str = BASE) -> DaemonConfig:
    return configuration.parse(text, "f.yaml")


def added(name: str = "c", persists: bool = False, **settings: object) -> Roll:
    return Roll(base()).with_added(name, AddedVm({"socket": f"/run/{name}", **settings}, persists))


def problems(there: Roll) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        there.config()
    return caught.value.problems


def test_added_vm_has_the_configurations_keys_and_defaults() -> None:
    vm = added(engine="cpu", quota={"pes": 2}).config().vms[-1]
    assert (vm.name, str(vm.socket), vm.engine.kind) == ("c", "/run/c", "cpu")
    assert (vm.deadline_ns, vm.quota.pes, vm.quota.memory_bytes) == (3_000_000_000, 2, 1024 * MIB)


def test_mistakes_have_the_configurations_messages() -> None:
    assert problems(added(quota={"pes": 0}, region="3M", colour="red")) == (
        "added VMs: vms.c.quota.pes is 0; allowed: an integer of 1 to 4096",
        "added VMs: vms.c.region is '3M'; allowed: a power of two, as the guest sees the region as a PCI BAR",
        "added VMs: vms.c.colour is not a key; allowed: " + ", ".join(configuration._VM_KEYS),
    )
    assert "the name is 'a b'; allowed: 1 to 63 of" in problems(added("a b"))[0]


@pytest.mark.parametrize("key", ["socket", "region_file"])
def test_paths_of_others_are_refused(key: str) -> None:
    path = {"socket": "/run/b", "region_file": "/r/b"}[key]
    assert problems(added(**{key: path})) == (  # type: ignore[arg-type]
        f"added VMs: vms.c.{key} is {path!r}; allowed: a path that vms.b does not use",
    )


def test_limits_that_were_set_stay_until_the_configuration_is_read_again() -> None:
    there = added().with_limits("a", {"pes": 2, "deadline_ns": 5}).with_limits("a", {"contexts": 3})
    there = there.with_limits("c", {"memory_bytes": MIB})
    a, b, c = there.config().vms
    assert (a.quota.pes, a.quota.contexts, a.quota.memory_bytes, a.deadline_ns) == (2, 3, 1024 * MIB, 5)
    assert (b, c.quota.memory_bytes) == (base().vms[1], MIB)
    after = there.with_base(base()).config().vms
    assert (after[:2], after[2].quota.memory_bytes) == (base().vms, MIB), "those of an added VM stay"
    named = there.with_base(base("vms: {c: {socket: /run/c}}"))
    assert named.config().vms[0].quota == base("vms: {c: {socket: /run/c}}").vms[0].quota
    assert there.without("c").with_added("c", there.added["c"]).config().vms[2].quota.memory_bytes == 1024 * MIB
    with pytest.raises(ConfigError, match="z is to leave"):
        there.with_limits("z", {"pes": 1})


def test_limits_of_a_persisted_vm_outlast_the_daemon() -> None:
    there = added(persists=True, quota={"pes": 2, "memory": "1G"}, deadline="3s")
    there = there.with_limits("c", {"memory_bytes": 3 * MIB, "weight": 7, "deadline_ns": 1_500_000})
    settings = there.persistent()["c"]
    assert settings == {
        "socket": "/run/c",
        "quota": {"pes": 2, "memory": 3 * MIB, "weight": 7},
        "deadline": "2ms",
    }
    (vm,) = (vm for vm in Roll(base()).with_added("c", AddedVm(settings, True)).config().vms if vm.name == "c")
    assert (vm.quota.pes, vm.quota.memory_bytes, vm.quota.weight) == (2, 3 * MIB, 7)


def test_vm_may_have_all_elements_again() -> None:
    there = added(persists=True, quota={"pes": 2, "memory": "1G"})
    there = there.with_limits("a", {"pes": 1}).with_limits("a", {"pes": 0}).with_limits("c", {"pes": 0})
    assert {vm.name: vm.quota.pes for vm in there.config().vms} == {"a": None, "b": None, "c": None}
    assert there.persistent()["c"]["quota"] == {"memory": "1G"}


def test_names_of_others_are_refused() -> None:
    for there, name in ((Roll(base()), "a"), (added(), "c")):
        with pytest.raises(ConfigError, match=rf"vms\.{name} is served already; allowed: a name that no VM has"):
            there.with_added(name, AddedVm({}, persists=False))


def test_vms_are_bounded() -> None:
    there = Roll(base())
    for number in range(configuration.MAX_VMS - 1):
        there = there.with_added(f"v{number}", AddedVm({}, persists=False))
    assert problems(there) == (f"added VMs: there would be {configuration.MAX_VMS + 1} VMs; allowed: 256",)


def test_added_vm_outlasts_a_reload_unless_the_configuration_names_it() -> None:
    there = added("c").with_added("d", AddedVm({"socket": "/run/d"}, persists=True))
    after = there.with_base(base("vms: {a: {socket: /run/a}, d: {socket: /run/d}}"))
    assert [vm.name for vm in after.config().vms] == ["a", "d", "c"]
    assert (list(there.persistent()), list(after.persistent())) == (["d"], [])


def test_vm_of_the_configuration_with_an_added_vms_socket_is_refused() -> None:
    after = added("c").with_base(base("vms: {d: {socket: /run/c}}"))
    assert problems(after) == ("added VMs: vms.c.socket is '/run/c'; allowed: a path that vms.d does not use",)


def test_origin_says_from_where_a_vm_comes() -> None:
    there = added("c").with_added("d", AddedVm({}, persists=True))
    assert [there.origin(name, has_file=True) for name in "acde"] == ["file", "added", "persisted", "leaving"]
    assert there.origin("a", has_file=False) == "command line"
    assert there.without("a").origin("a", has_file=True) == there.without("c").origin("c", has_file=True) == "leaving"


def test_state_folder_is_the_configurations_or_systemds_or_the_default() -> None:
    of_unit = {"STATE_DIRECTORY": "/var/lib/unit:/var/lib/other"}
    assert roll.state_folder(base("state: /srv/vgc\nvms: {a: }"), of_unit) == Path("/srv/vgc")
    assert roll.state_folder(base(), of_unit) == Path("/var/lib/unit")
    assert roll.state_folder(base(), {}) == Path("/var/lib/vgcd")


# ---- the state file ------------------------------------------------------------------------------


def test_saved_vms_are_loaded_again_and_nobody_else_reads_them(tmp_path: Path) -> None:
    store = VmStore(tmp_path / "state")
    assert store.load() == {}
    store.save({"c": {"socket": "/run/c", "quota": {"pes": 2}}})
    store.save({"d": {"socket": "/run/d"}})
    assert VmStore(tmp_path / "state").load() == {"d": {"socket": "/run/d"}}
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.file.parent.stat().st_mode) == 0o700
    assert list(store.file.parent.iterdir()) == [store.file]


def test_vms_that_are_left_out_stay_until_they_are_replaced(tmp_path: Path) -> None:
    store = VmStore(tmp_path)
    store.left_out = {"c": {"socket": "/old"}, "d": {"socket": "/run/d"}}
    store.save({"c": {"socket": "/new"}})
    store.save({})
    assert store.load() == {"d": {"socket": "/run/d"}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"version": 2, "vms": {}}',
        '{"version": 1}',
        '{"version": 1, "vms": []}',
        '{"version": 1, "vms": {"c": 7}}',
        "[" * 100_000,
        b"\xff",
    ],
)
def test_damaged_file_is_named_and_kept(tmp_path: Path, text: str | bytes) -> None:
    store = VmStore(tmp_path)
    data = text if isinstance(text, bytes) else text.encode()
    store.file.write_bytes(data)
    with pytest.raises(
        ConfigError, match=r"added-vms\.json cannot be used: .*; allowed: a file that vgcd wrote, or none"
    ):
        store.load()
    with pytest.raises(ConfigError, match=r"and a restart of vgcd"):
        store.save({"c": {}})
    assert store.file.read_bytes() == data


def test_folder_is_of_one_daemon(tmp_path: Path) -> None:
    mine, other, late = (VmStore(tmp_path) for _ in range(3))
    assert mine.load(hold=True) == other.load(hold=True) == late.load(hold=True) == {}
    mine.save({"a": {}})
    mine.save({"a": {}, "b": {}})
    with pytest.raises(ConfigError, match="is another vgcd's; allowed: a folder for each"):
        other.save({"c": {}})
    third = VmStore(tmp_path)
    with pytest.raises(ConfigError, match="is another vgcd's"):
        third.load(hold=True)
    with pytest.raises(ConfigError, match="and a restart of vgcd"):
        third.save({"c": {}})
    assert mine._hold is not None
    os.close(mine._hold)
    with pytest.raises(ConfigError, match="is another vgcd's"):
        late.save({"c": {}})  # it would lose those of the file, which it has not read
    assert VmStore(tmp_path).load() == {"a": {}, "b": {}}


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store = VmStore(tmp_path)
    store.file.mkdir()
    with pytest.raises(ConfigError, match="cannot be used: Is a directory"):
        store.load()


def test_file_that_cannot_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VmStore(tmp_path)
    store.save({"c": {}})

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HostError, match=r"added-vms.json cannot be written: No space left on device \(set 'state'"):
        store.save({"d": {}})
    assert store.load() == {"c": {}}
    assert list(tmp_path.iterdir()) == [store.file]
    blocked = VmStore(tmp_path / store.file.name / "below")
    assert blocked.load() == {}
    with pytest.raises(HostError, match="cannot be written: Not a directory"):
        blocked.save({"d": {}})


def test_file_is_readable_by_people(tmp_path: Path) -> None:
    store = VmStore(tmp_path)
    store.save({"c": {"socket": "/run/c"}})
    assert json.loads(store.file.read_text()) == {"version": 1, "vms": {"c": {"socket": "/run/c"}}}
