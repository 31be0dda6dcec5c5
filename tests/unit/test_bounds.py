"""Bounds that the daemon moves while a worker serves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.limits import Limits
from vhost_backend.config.daemon import EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.bounds import move_processors
from vhost_backend.quarters import Quarters


class Tree:
    """Groups of version 1, of a VM, its worker and the elements in it: none may be allowed less than one within it."""

    def __init__(self, pes: int) -> None:
        self.cpus = {"vm": pes + 2.0, "worker": pes + 2.0, "elements": float(pes)}

    def move(self, name: str, limits: Limits) -> None:
        assert limits.cpus is not None
        self.cpus[name] = limits.cpus
        if not self.cpus["vm"] >= self.cpus["worker"] >= self.cpus["elements"]:
            raise OSError("less than one within it")


class Group:
    """Part of a control group: what `move_processors` asks for."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._tree = tree
        self._name = name

    def set_processors(self, limits: Limits) -> None:
        self._tree.move(self._name, limits)

    limit = set_processors

    def bound_threads(self, name: str, threads: Iterable[int], limits: Limits) -> None:
        assert not list(threads), "those that are there stay"
        self._tree.move(name, limits)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (2, 2)])
def test_no_group_is_ever_allowed_less_than_one_within_it(before: int, after: int) -> None:
    tree = Tree(before)
    quarters = Quarters(cgroup=cast("Cgroup", Group(tree, "vm")))
    quota = QuotaConfig(pes=after)
    config = VmConfig("a", vm_uuid("a"), engine=EngineConfig("cpu"), quota=quota, quarters=quarters)
    worker = cast("Cgroup", Group(tree, "worker"))
    move_processors(config, worker, Limits(cpus=after + 2), pes=after, are_more=after >= before)
    assert tree.cpus == {"vm": after + 2, "worker": after + 2, "elements": after}
