"""Answers of `tests.fakes.control_daemon`: the verbs of `virtio_proto.control.api` over a simulated host."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from typing import Any, Final

from tests.fakes.control_records import FakeChannel, FakeInstance, push_of
from tests.fakes.control_world import NS_PER_S, FakeVm, World
from tests.fakes.vm_limits import limits_info
from virtio_proto.control.api import FaultInfo, LinkPauses, MigrationInfo, PolicyInfo, RecordsPush
from virtio_proto.control.records import Function, Level
from virtio_proto.control.selector import FUNCTIONS, Selector, SelectorError, parse
from virtio_proto.control.verbs.vms import LIMIT_NAMES

Fields = dict[str, Any]
MAX_CHANNELS: Final = 16383
"""Largest number of channels per VM."""


class Refusal(Exception):  # noqa: N818  an answer, not a fault
    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class FakeHost:
    """The state of a simulated daemon. `emit` is called for every event, with (event, vm, detail)."""

    def __init__(self, world: World, emit: Callable[[str, str | None, Fields], None]) -> None:
        self.world = world
        self.emit = emit
        self.instances: dict[int, FakeInstance] = {}
        self.policies: list[PolicyInfo] = []
        self.migrations: list[MigrationInfo] = []
        self.images: list[Fields] = []
        self.staged: dict[tuple[str, int], str] = {}
        self.sent: list[Fields] = []
        """The ``send`` requests so far, in order of arrival."""
        self.reloads: list[Fields] = []
        """The ``reload_vms`` requests so far."""
        self.removals: list[Fields] = []
        """The ``remove_vm`` requests so far."""
        self.added: list[Fields] = []
        """The ``add_vm`` requests so far."""
        self.loop_delay_ns = 0
        self.link_pauses: list[LinkPauses] = []
        self.reload_problem = ""
        self.status_problem = ""
        self.limits: dict[str, int] = {}
        """Limits that were set for a VM."""
        self.fault_totals: list[Fields] | None = None
        """Occurrences that the answer to ``faults`` tells; None: as an older daemon, it tells none."""
        self._instance_numbers = itertools.count(1)
        self._channel_numbers = itertools.count(1)
        self._fault_numbers = itertools.count(1)

    def answer(self, verb: str, fields: Fields, connection: object) -> Any:
        """:raise Refusal: the request is refused."""
        handler = getattr(self, f"do_{verb}", None)
        if handler is None:
            raise Refusal("unknown", f"{verb} is no verb")
        return handler(fields) if verb != "open" else self.do_open(fields, connection)

    # ---- events ----------------------------------------------------------------------------------

    def tick(self, wanted: set[int]) -> list[RecordsPush]:
        """Does one step of simulated work: makes batches of the instances in `wanted`, and lets instances expire."""
        now_ns = self.world.clock_ns()
        for instance in [one for one in self.instances.values() if one.expires_ns and one.expires_ns <= now_ns]:
            self.close(instance, "expired")
        pushes = []
        for instance in self.instances.values():
            if instance.number in wanted:
                made = (push_of(self.world, instance, channel) for channel in instance.channels)
                pushes += [push for push in made if push is not None]
        return pushes

    def fault(
        self, vm: str, pe: int | None, kind: str = "kernel", text: str = "address 0x10 is in no allocation"
    ) -> int:
        """Has a VM report a fault, or counts up an equal one that is listed; returns the fault's number."""
        now_ns = self.world.clock_ns()
        for fault in self.world.faults:
            if (fault["vm"], fault["pe"], fault["kind"], fault["cleared"]) == (vm, pe, kind, False):
                fault["count"] += 1
                fault["last_ns"] = now_ns
                self.emit("fault", vm, {"fault": fault["fault"]})
                return fault["fault"]
        found: FaultInfo = {
            "fault": next(self._fault_numbers),
            "time_ns": now_ns,
            "last_ns": now_ns,
            "count": 1,
            "gpu": str(self.world.vms[vm].gpu),
            "vm": vm,
            "pe": pe,
            "kind": kind,
            "xid": 31 if kind == "device" else None,
            "text": text,
            "advice": "Check the kernel's indices against the sizes of its buffers.",
            "cleared": False,
        }
        self.world.faults.append(found)
        self.emit("fault", vm, {"fault": found["fault"]})
        return found["fault"]

    # ---- selection -------------------------------------------------------------------------------

    def _selector(self, fields: Fields) -> Selector:
        try:
            return parse(fields.get("selector") or "")
        except SelectorError as error:
            raise Refusal("malformed", str(error)) from None

    def _elements(self, fields: Fields) -> list[tuple[FakeVm, int]]:
        found = self.world.elements(self._selector(fields))
        if not found:
            raise Refusal("unknown", f"nothing matches; there is: {', '.join(list(self.world.vms)[:8])}")
        return found

    def _vm(self, fields: Fields) -> FakeVm:
        vm = self.world.vms.get(fields.get("vm", ""))
        if vm is None:
            raise Refusal("unknown", f"no VM {fields.get('vm')!r}; there is: {', '.join(list(self.world.vms)[:8])}")
        return vm

    def _instance(self, fields: Fields) -> FakeInstance:
        instance = self.instances.get(fields.get("instance", 0))
        if instance is None:
            raise Refusal("unknown", f"no instance {fields.get('instance')}")
        return instance

    # ---- verbs: queries --------------------------------------------------------------------------

    def do_topology(self, _fields: Fields) -> Any:
        counts: dict[str, int] = {}
        for instance in self.instances.values():
            for channel in instance.channels:
                counts[channel.vm.name] = counts.get(channel.vm.name, 0) + 1
        return self.world.topology(lambda vm: counts.get(vm, 0))

    def do_load(self, fields: Fields) -> Any:
        return self.world.load(self.world.chosen(self._selector(fields)))

    def do_stat(self, fields: Fields) -> Any:
        open_on = {
            (channel.vm.name, channel.pe)
            for instance in self.instances.values()
            if instance.function in (Function.PERF, Function.LOAD)
            for channel in instance.channels
        }
        chosen = [(vm, pe) for vm, pe in self._elements(fields) if (vm.name, pe) in open_on]
        return {"time_ns": self.world.clock_ns(), "pes": [self.world.stat(vm, pe) for vm, pe in chosen]}

    def do_snapshot(self, fields: Fields) -> Any:
        return self.world.snapshot(self._elements(fields))

    def do_faults(self, fields: Fields) -> Any:
        selector = self._selector(fields)
        found = [fault for fault in self.world.faults if fields.get("cleared") or not fault["cleared"]]
        totals = {} if self.fault_totals is None else {"totals": self.fault_totals}
        return {"faults": [fault for fault in found if selector.matches_vm(fault["vm"])], **totals}

    def do_ls(self, fields: Fields) -> Any:
        selector = self._selector(fields)
        found = [one for one in self.instances.values() if selector.matches_fn(one.function.name.lower())]
        shown = [one for one in found if any(selector.matches_vm(channel.vm.name) for channel in one.channels)]
        return {"instances": [one.info(totals=bool(fields.get("totals"))) for one in shown]}

    def do_policies(self, _fields: Fields) -> Any:
        return {"policies": self.policies}

    def do_migrations(self, _fields: Fields) -> Any:
        return {"migrations": self.migrations}

    def do_firmware(self, _fields: Fields) -> Any:
        pes = []
        for vm, pe in self.world.elements(Selector()):
            other = self.staged.get((vm.name, pe))
            state = "staged" if other else "active"
            place = {"vm": vm.name, "gpu": str(vm.gpu), "pe": pe}
            pes.append({**place, "active": vm.firmware, "other": other, "state": state, "text": ""})
        return {"images": self.images, "pes": pes}

    def do_self(self, _fields: Fields) -> Any:
        channels = sum(len(instance.channels) for instance in self.instances.values())
        return {
            "time_ns": self.world.clock_ns(),
            "loop_delay_ns": self.loop_delay_ns,
            "link_pauses": self.link_pauses,
            "cpu_percent": 0.4,
            "memory_bytes": 48 << 20,
            "channels": channels,
            "records_per_s": float(channels),
            "lost": sum(channel.lost for one in self.instances.values() for channel in one.channels),
            "budget_percent": 1.0,
            "cost_percent": dict.fromkeys(self.world.vms, 0.02),
        }

    def do_programs(self, fields: Fields) -> Any:
        return {
            "programs": [one for vm in self.world.chosen(self._selector(fields)) for one in self.world.programs(vm)]
        }

    def do_functions(self, fields: Fields) -> Any:
        found = [work for vm in self.world.chosen(self._selector(fields)) for work in self.world.functions(vm)]
        return {"functions": found, "silent": []}

    def do_status(self, _fields: Fields) -> Any:
        if self.status_problem:
            raise Refusal("denied", self.status_problem)
        return {**self.world.status(), "channels": sum(len(one.channels) for one in self.instances.values())}

    # ---- verbs: channels -------------------------------------------------------------------------

    def do_open(self, fields: Fields, connection: object) -> Any:
        selector = self._selector(fields)
        try:
            function = selector.one_fn()
        except SelectorError as error:
            raise Refusal("malformed", str(error)) from None
        elements = self._elements(fields)
        if len(elements) > MAX_CHANNELS:
            raise Refusal("quota", f"{len(elements)} channels; allowed: {MAX_CHANNELS}")
        ttl_s, now_ns = fields.get("ttl_s"), self.world.clock_ns()
        if fields.get("keep") and ttl_s is None:
            raise Refusal("malformed", "keep without ttl_s; allowed: keep with a ttl_s, so that it ends")
        instance = FakeInstance(
            number=next(self._instance_numbers),
            function=Function(FUNCTIONS.index(function)),
            selector=str(selector),
            owner=fields.get("owner", "peer"),
            level=int(fields.get("level", Level.INFO)),
            policy=fields.get("policy", "drop-new"),
            sample=fields.get("sample", 0),
            opened_ns=now_ns,
            expires_ns=None if ttl_s is None else now_ns + int(ttl_s * NS_PER_S),
            channels=[FakeChannel(next(self._channel_numbers), vm, pe) for vm, pe in elements],
            connection=None if fields.get("keep") else connection,
        )
        self.instances[instance.number] = instance
        self._tell(instance, "opened")
        return instance.info()

    def _tell(self, instance: FakeInstance, event: str) -> None:
        vms = {channel.vm.name for channel in instance.channels}
        detail = {"instance": instance.number, "selector": instance.selector, "owner": instance.owner}
        self.emit(event, next(iter(vms)) if len(vms) == 1 else None, detail)

    def close(self, instance: FakeInstance, event: str = "closed") -> None:
        if self.instances.pop(instance.number, None) is not None:
            self._tell(instance, event)

    def do_close(self, fields: Fields) -> Any:
        instance = self._instance(fields)
        self.close(instance)
        return instance.info()

    def do_set(self, fields: Fields) -> Any:
        instance = self._instance(fields)
        instance.level = fields.get("level", instance.level)
        instance.sample = fields.get("sample", instance.sample)
        if fields.get("ttl_s") is not None:
            instance.expires_ns = self.world.clock_ns() + int(fields["ttl_s"] * NS_PER_S)
        return instance.info()

    def do_send(self, fields: Fields) -> Any:
        instance = self._instance(fields)
        if instance.function != Function.STDIO:
            raise Refusal("malformed", f"instance {instance.number} is not of stdio; allowed: one of stdio")
        wanted = (fields.get("vm"), fields.get("pe"))
        to = [one for one in instance.channels if wanted[0] in (None, one.vm.name) and wanted[1] in (None, one.pe)]
        if not to:
            raise Refusal("unknown", f"instance {instance.number} has no such element")
        for channel in to:
            channel.heard += fields["data"]
        self.sent.append(fields)
        return {"elements": len(to)}

    def do_threshold(self, fields: Fields) -> Any:
        elements = self._elements(fields)
        limits = (fields.get("low", float("-inf")), fields.get("high", float("inf")))
        for vm, _pe in elements:
            vm.thresholds[fields["name"]] = limits
        return {"elements": len(elements)}

    # ---- verbs: faults, load, firmware -----------------------------------------------------------

    def do_clear_faults(self, fields: Fields) -> Any:
        selector, numbers = self._selector(fields), fields.get("faults")
        cleared = 0
        for fault in self.world.faults:
            named = fault["fault"] in numbers if numbers is not None else selector.matches_vm(fault["vm"])
            if named and not fault["cleared"]:
                fault["cleared"] = True
                cleared += 1
                self.emit("fault_cleared", fault["vm"], {"fault": fault["fault"]})
        return {"cleared": cleared}

    def do_set_policies(self, fields: Fields) -> Any:
        self.policies = list(fields["policies"])
        return {"policies": self.policies}

    def _migrated(self, vm: FakeVm, source: str, target: str) -> MigrationInfo:
        now_ns = self.world.clock_ns()
        info: MigrationInfo = {
            "migration": len(self.migrations) + 1,
            "vm": vm.name,
            "source": source,
            "target": target,
            "state": "done",
            "started_ns": now_ns - 80_000_000,
            "ended_ns": now_ns,
            "bytes": 64 << 20,
            "paused_ns": 12_000_000,
            "text": "",
        }
        self.migrations.append(info)
        self.emit("migration", vm.name, {"migration": info["migration"], "state": "done"})
        return info

    def do_migrate(self, fields: Fields) -> Any:
        vm = self._vm(fields)
        target = int(fields.get("gpu", (vm.gpu + 1) % self.world.shape.gpus))
        if not 0 <= target < self.world.shape.gpus:
            raise Refusal("unknown", f"no GPU {target}; there is: 0-{self.world.shape.gpus - 1}")
        source, vm.gpu = f"gpu {vm.gpu}", target
        vm.generation += 1
        return self._migrated(vm, source, f"gpu {target}")

    def do_confine(self, fields: Fields) -> Any:
        vm = self._vm(fields)
        try:
            ranges = None if fields.get("pes") is None else parse(f"pe={fields['pes']}")
        except SelectorError as error:
            raise Refusal("malformed", str(error)) from None
        vm.confined_to = None if ranges is None else list(ranges.pes_of(vm.pes))
        return self._migrated(vm, f"gpu {vm.gpu}", f"gpu {vm.gpu} pe {fields.get('pes') or '*'}")

    def do_balance(self, fields: Fields) -> Any:
        by_load = sorted(self.world.vms.values(), key=lambda vm: float(self.world.busy(vm).mean()))
        if len(by_load) < 2 or self.world.shape.gpus < 2:
            return {"moves": []}
        vm, least = by_load[-1], by_load[0]
        move = {"vm": vm.name, "source": f"gpu {vm.gpu}", "target": f"gpu {least.gpu}", "reason": "most loaded"}
        number = self.do_migrate({"vm": vm.name, "gpu": least.gpu})["migration"] if fields.get("apply") else None
        return {"moves": [{**move, "migration": number}]}

    def do_reset_worker(self, fields: Fields) -> Any:
        vm = self._vm(fields)
        vm.generation += 1
        vm.frozen = False
        self.emit("worker_lost", vm.name, {"reason": "asked for"})
        self.emit("worker_ready", vm.name, {"generation": vm.generation})
        return {}

    def do_quiesce(self, fields: Fields) -> Any:
        self._vm(fields).frozen = True
        return {}

    def do_resume(self, fields: Fields) -> Any:
        self._vm(fields).frozen = False
        return {}

    def do_reload_vms(self, fields: Fields) -> Any:
        if self.reload_problem:
            raise Refusal("failed", self.reload_problem)
        self.reloads.append(fields)
        return {"added": ["new"], "removed": [], "changed": [], "waiting": []}

    def do_add_vm(self, fields: Fields) -> Any:
        if self.reload_problem:
            raise Refusal("failed", self.reload_problem)
        self.added.append(fields)
        return {"added": [fields["vm"]], "removed": [], "changed": [], "waiting": []}

    def do_remove_vm(self, fields: Fields) -> Any:
        if self.world.left_out.pop(fields["vm"], ""):
            return {"added": [], "removed": [fields["vm"]], "changed": [], "waiting": []}
        vm = self._vm(fields)
        self.removals.append(fields)
        if fields.get("now"):
            del self.world.vms[vm.name]
        return {"added": [], "removed": [vm.name], "changed": [], "waiting": [] if fields.get("now") else [vm.name]}

    def do_show_limits(self, fields: Fields) -> Any:
        return limits_info(self._vm(fields).name, self.limits)

    def do_set_limits(self, fields: Fields) -> Any:
        vm = self._vm(fields)
        if self.reload_problem:
            raise Refusal("failed", self.reload_problem)
        self.limits = {key: value for key, value in fields.items() if key in LIMIT_NAMES}
        return limits_info(vm.name, self.limits)

    def do_stage_firmware(self, fields: Fields) -> Any:
        image = fields.get("image")
        if not isinstance(image, bytes) or not image.startswith(b"VGCF"):
            raise Refusal("denied", "the image has no signature of a known key; allowed: one of control.firmware_keys")
        version = f"1.0.{zlib.crc32(image) % 1000}"
        digest = {
            "version": version,
            "key": "release",
            "name": "fake",
            "sha256": f"{zlib.crc32(image):064x}",
            "engine": "cuda",
        }
        self.images.append({**digest, "staged_ns": self.world.clock_ns()})
        for vm, pe in self._elements(fields):
            self.staged[vm.name, pe] = version
        return self.do_firmware({})

    def do_activate_firmware(self, fields: Fields) -> Any:
        version = fields.get("version")
        if version not in self.staged.values():
            raise Refusal("unknown", f"no image {version!r} is staged; there is: {sorted(set(self.staged.values()))}")
        for vm, pe in self._elements(fields):
            if self.staged.pop((vm.name, pe), None) == version:
                vm.firmware = str(version)
        self.emit("firmware", None, {"version": version, "state": "active"})
        return self.do_firmware({})

    def do_rollback_firmware(self, fields: Fields) -> Any:
        for vm, _pe in self._elements(fields):
            vm.firmware = "1.0.0"
        return self.do_firmware({})
