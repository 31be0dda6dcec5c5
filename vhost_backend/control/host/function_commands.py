"""The verbs functions and programs: how often VMs launch their functions; programs that guests have registered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.vm_port import ProgramView
from vhost_backend.worker_protocol.protocol import FunctionFigures
from virtio_proto.control.verbs.base import Verb
from virtio_proto.control.verbs.functions import (
    Functions,
    FunctionWork,
    Programs,
    RegisteredPrograms,
    RegisteredWork,
    Works,
)


class FunctionCommands:
    """Handlers of the verbs functions and programs."""

    def __init__(self, registry: InstanceRegistry) -> None:
        self._registry = registry

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {Functions: self._functions, Programs: self._programs}

    async def _programs(self, caller: Caller, asked: Programs.Request) -> RegisteredPrograms:
        sides = self._registry.chosen(caller.peer, asked.chosen)
        return {"programs": [_program(side, one) for side in sides for one in side.vm.programs()]}

    async def _functions(self, caller: Caller, asked: Functions.Request) -> Works:
        sides = self._registry.chosen(caller.peer, asked.chosen)
        looks = await asyncio.gather(*(side.vm.functions() for side in sides))
        found: Works = {"functions": [], "silent": []}
        for side, look in zip(sides, looks, strict=True):
            if look is None:
                found["silent"].append(side.name)
            else:
                found["functions"] += [_work(side, figures) for figures in look]
        return found


def _program(side: VmSide, one: ProgramView) -> RegisteredWork:
    return {
        "vm": side.name,
        "program": one.number,
        "functions": list(one.signatures),
        "num_functions": one.num_functions,
        "kept": one.is_kept,
        "size_bytes": one.size_bytes,
        "problem": one.problem,
    }


def _work(side: VmSide, figures: FunctionFigures) -> FunctionWork:
    return {
        "vm": side.name,
        "gpu": side.vm.facts().gpu,
        "function": figures.name,
        "launches": figures.launches,
        "busy_ns": figures.busy_ns,
        "times": list(figures.times),
    }
