"""A control group of the daemon's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from vhost_backend.cgroups.limits import Limits, Usage
from vhost_backend.cgroups.versions import PROCESSES, Version, write

_UNBOUNDED: Final = Limits()


class Cgroup:
    """A control group that this process has made, or taken over: either with processes or with groups in it."""

    def __init__(self, version: Version, folders: Mapping[str, Path]) -> None:
        self._version = version
        self._folders = dict(folders)
        self._left: list[Cgroup] = []
        """Groups in this one that could not be removed yet."""
        self._admits = False
        self._kept: list[Cgroup] = []
        """Groups in this one that wait for their next processes."""
        self._earlier_kills = 0
        """OOM kills of processes that had the group before."""

    def __str__(self) -> str:
        return f"{self._folders['memory']} (version {self._version.number})"

    @property
    def version(self) -> int:
        """Version of control groups that the host has."""
        return self._version.number

    @property
    def doors(self) -> tuple[Path, ...]:
        """Files to which a process writes "0" to join the group."""
        return tuple(dict.fromkeys(folder / PROCESSES for folder in self._folders.values()))

    def child(self, name: str, limits: Limits = _UNBOUNDED) -> Cgroup:
        """Makes a group within this one, in place of one that a daemon has left behind; `remove` it.

        :raise OSError: the host does not allow it.
        """
        folders = {controller: folder / name for controller, folder in self._folders.items()}
        # A group of the same name that could not be removed is this one now.
        self._left = [group for group in self._left if not group.is_in(folders) and not group.remove()]
        if not self._admits:
            self._version.admit_children(self._folders)
            self._admits = True
        group = Cgroup(self._version, folders)
        try:
            for folder in group._unique():
                remove_tree(folder)
                folder.mkdir(exist_ok=True)
            self._version.limit(group._folders, limits)
        except OSError:
            group.remove()
            raise
        return group

    def child_again(self, name: str) -> Cgroup:
        """The group within this one that an earlier daemon has made, with its limits.

        Groups in it that have no processes are removed.

        :raise OSError: the group is gone.
        """
        group = Cgroup(self._version, {controller: folder / name for controller, folder in self._folders.items()})
        for folder in group._unique():
            for inner in [path for path in folder.iterdir() if path.is_dir()]:
                remove_tree(inner)
        return group

    @property
    def name(self) -> str:
        """Name within the group that it is in."""
        return self._folders["memory"].name

    @property
    def earlier_kills(self) -> int:
        """OOM kills that `oom_kills` does not count."""
        return self._earlier_kills

    def resumed(self, name: str, earlier_kills: int) -> Cgroup:
        """The group within this one that has the processes of an earlier daemon's; see `earlier_kills`."""
        group = Cgroup(self._version, {controller: folder / name for controller, folder in self._folders.items()})
        group._earlier_kills = earlier_kills
        return group

    def set_processors(self, limits: Limits) -> None:
        """Sets limits on processors anew, also while processes use them.

        In version 1 a group may be allowed no fewer than one within it.

        :raise OSError: the group is gone, or the host does not allow it.
        """
        self._version.set_processors(self._folders, limits)

    def weigh(self, weight: float) -> None:
        """Sets the group's share of the processors anew, also while processes use them.

        :raise OSError: the group is gone, or the host does not allow it.
        """
        self._version.set_weight(self._folders, weight)

    def bound_threads(self, name: str, threads: Iterable[int], limits: Limits) -> None:
        """Bounds the processors that some threads of the group's processes use together, with all threads that they start.

        The group within this one that they join is called `name`; it may be there already.

        :raise OSError: a thread is gone, or the host does not allow it.
        """
        folders, door = self._version.make_thread_group(self._folders, name)
        self._version.set_processors(folders, limits)
        for thread in threads:
            write(door, thread)

    def is_in(self, folders: Mapping[str, Path]) -> bool:
        """True if these are the group's folders."""
        return self._folders == folders

    def usage(self) -> Usage:
        """Reads what the group uses.

        :raise OSError: the group is gone.
        """
        return self._version.usage(self._folders)

    def oom_kills(self) -> int:
        """Number of processes that were killed because the group was out of memory; 0 if the group is gone.

        Those that were killed before the group was given to other processes do not count.
        """
        try:
            return self.usage().oom_kills - self._earlier_kills
        except OSError:
            return 0

    def keep(self, group: Cgroup) -> None:
        """Keeps a group within this one for later processes of its kind, which `reuse` gives them.

        Memory of files that outlive its processes belongs to a group for good: the kernel could not forget the group.
        """
        self._kept.append(group)

    def reuse(self, limits: Limits) -> Cgroup | None:
        """Takes a group that was kept, with other limits; None: each has processes, or does not take the limits."""
        for group in list(self._kept):
            if group.is_in_use():
                continue
            self._kept.remove(group)
            if group.begin_anew(limits):
                return group
            self.leave(group)
        return None

    def is_in_use(self) -> bool:
        """True if the group has processes."""
        try:
            return any(door.read_text() for door in self.doors)
        except OSError:
            return False

    def begin_anew(self, limits: Limits) -> bool:
        """Gives a group without processes other limits, and forgets its OOM kills; False: the host does not allow it."""
        try:
            self._version.limit(self._folders, limits)
            self._earlier_kills = self.usage().oom_kills
        except OSError:
            return False
        return True

    def limit(self, limits: Limits) -> None:
        """Gives a group that may have processes other limits.

        :raise OSError: the host does not allow it.
        """
        self._version.limit(self._folders, limits)

    def leave(self, group: Cgroup) -> None:
        """Removes a group within this one, now or, if processes in it are still ending, when the next one is made."""
        if not group.remove():
            self._left.append(group)

    def remove(self) -> bool:
        """Removes the group and the groups in it; False: there are processes in them."""
        removed = [remove_tree(folder) for folder in self._unique()]
        return all(removed)

    def _unique(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._folders.values()))


def remove_tree(folder: Path) -> bool:
    """Removes a group's folder and those in it, which hold no files of their own; False: processes are in one."""
    for path, _folders, _files in os.walk(folder, topdown=False):
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
