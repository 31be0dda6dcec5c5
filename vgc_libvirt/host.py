"""Facts about the host of a domain: user and groups of QEMU, and the security modules that confine it, as libvirt tells them."""

from __future__ import annotations

import grp
import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lxml import etree

_BASE_LABEL: Final = re.compile(r"\+?(\w+):\+?(\w+)")


@dataclass(frozen=True, slots=True)
class QemuUser:
    """User that QEMU's processes of a libvirt have."""

    uid: int
    groups: frozenset[int]

    @classmethod
    def of(cls, uid: int, gid: int) -> QemuUser:
        """User with its groups in this host's databases."""
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            return cls(uid, frozenset({gid}))
        return cls(uid, frozenset({gid, *os.getgrouplist(name, gid)}))

    def may(self, wanted: int, stat: os.stat_result) -> bool:
        """True if the permissions of a file give this user `wanted`, bits of os.R_OK, os.W_OK and os.X_OK."""
        if self.uid == 0:
            return True
        shift = 6 if stat.st_uid == self.uid else 3 if stat.st_gid in self.groups else 0
        return (stat.st_mode >> shift) & wanted == wanted

    def __str__(self) -> str:
        return f"user {user_name(self.uid)} (groups {', '.join(sorted(map(group_name, self.groups)))})"


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about a host."""

    user: QemuUser
    models: frozenset[str] = frozenset()
    """Security modules that libvirt uses, such as apparmor and selinux."""


def of_capabilities(text: str) -> Host:
    """Reads what libvirt says about its host (``virsh capabilities``)."""
    root = etree.fromstring(text.encode())
    models = frozenset(model for one in root.iterfind("host/secmodel") if (model := one.findtext("model")))
    for one in root.iterfind("host/secmodel"):
        for label in one.iterfind("baselabel"):
            found = _BASE_LABEL.fullmatch(label.text or "")
            if one.findtext("model") == "dac" and found and label.get("type") in ("kvm", "qemu"):
                return Host(QemuUser.of(int(found[1]), int(found[2])), models)
    return Host(QemuUser.of(os.getuid(), os.getgid()), models)  # a session of the user's


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def owner(path: Path, stat: os.stat_result) -> str:
    """Owner and permissions of a file, for messages."""
    return f"{path} is {user_name(stat.st_uid)}:{group_name(stat.st_gid)} with mode {stat.st_mode & 0o7777:04o}"
