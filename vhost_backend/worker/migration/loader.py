"""Loading a VM's work from the transfer file, at the addresses and with the ids that it had in the other worker."""

from __future__ import annotations

from typing import Final

from vhost_backend.engines.base import Engine
from vhost_backend.worker.migration.file import (
    Manifest,
    MigratedProgram,
    MigratedRegistration,
    Transfer,
    TransferError,
    places,
)
from vhost_backend.worker.migration.plane import MigrationPlane, Objects
from vhost_backend.worker.programs import OF_VM, Programs
from vhost_backend.worker.registrations import Registration, Registrations
from virtio_proto.schema import LIMITS

MAX_GRAPH_BYTES: Final = LIMITS["MAX_GRAPH_BYTES"]


class Loader:
    """Loads everything into a worker that has done no work yet; after a failure the worker must end."""

    def __init__(
        self,
        engine: Engine,
        plane: MigrationPlane,
        programs: Programs,
        registrations: Registrations,
        transfer: Transfer,
    ) -> None:
        self._registrations = registrations
        self._engine = engine
        self._plane = plane
        self._programs = programs
        self._transfer = transfer

    def run(self) -> None:
        """Loads everything.

        :raise TransferError: the file is malformed, or comes from a different kind of engine.
        :raise DataPlaneError: an address or id is taken, or the quota does not allow it.
        :raise ProgramError: a program cannot be loaded at its address.
        """
        manifest, contents_at = self._transfer.read_manifest()
        self._check_engine(manifest)
        objects = Objects.read(self._transfer, manifest.objects_at, manifest.allocs_at, manifest.num_allocs)
        self._plane.load(objects)
        for migrated in manifest.programs:
            self._load_program(migrated)
        self._programs.publish()
        for registered in manifest.registrations:
            self._load_registration(registered)
        self._load_graphs(objects, manifest.graphs_at)
        self._load_contents(objects, contents_at)
        for entry in self._programs:
            self._engine.settle_program(entry.loaded)
        for output in manifest.outputs:
            text = bytes(self._transfer.read(output.text_at, output.text_bytes))
            self._plane.load_output(output.context, text, output.lost)

    def _check_engine(self, manifest: Manifest) -> None:
        engine = self._engine
        if (manifest.engine, manifest.features) != (engine.kind, engine.features):
            raise TransferError(
                f"work of the engine {manifest.engine} with features {manifest.features:#x}; "
                f"allowed: {engine.kind} with {engine.features:#x}"
            )

    def _load_graphs(self, objects: Objects, graphs_at: int) -> None:
        at = graphs_at
        for index, graph in objects.graphs():
            self._plane.load_graph(index, graph, self._transfer.read(at, min(graph.nodes_len, MAX_GRAPH_BYTES)))
            at += graph.nodes_len

    def _load_program(self, migrated: MigratedProgram) -> None:
        """Charges a program to the quota, and loads it."""
        self._plane.load_program(migrated.id, migrated.context, 0)
        image = bytes(self._transfer.read(migrated.image_at, migrated.image_bytes))
        self._plane.charge_program(migrated.id, self._engine.migrated_bytes(image))
        loaded = self._engine.load_program_at(image, migrated.context, migrated.base)
        if len(loaded.functions) != len(migrated.functions):
            raise TransferError(
                f"program {migrated.id} has {len(loaded.functions)} functions, "
                f"and {len(migrated.functions)} ids for them"
            )
        self._programs.add_migrated(self._plane, migrated.id, migrated.context, loaded, migrated.functions)

    def _load_registration(self, migrated: MigratedRegistration) -> None:
        """Notes a registered program. One that has no functions has no place in the data plane yet."""
        if migrated.problem:
            self._plane.load_program(migrated.program, OF_VM, 0)
        elif not self._programs.is_of_vm(migrated.program):
            raise TransferError(f"program {migrated.program} is registered, and was not migrated")
        self._registrations.add_migrated(
            Registration(
                migrated.number,
                migrated.program,
                migrated.digest,
                migrated.keep,
                migrated.problem,
                migrated.signatures,
            )
        )

    def _load_contents(self, objects: Objects, contents_at: int) -> None:
        """Fills device memory. Addresses are those that this worker has allocated: the file's are not trusted."""
        ranges = [(address, size, True) for address, size in objects.ranges()]
        for entry in self._programs:
            ranges += [(address, size, False) for address, size in self._engine.program_place(entry.loaded).writable]
        offsets = places((size for _, size, _ in ranges), contents_at)
        for (address, size, fresh), offset in zip(ranges, offsets, strict=False):
            self._plane.load_contents(self._transfer, offset, address, size, fresh=fresh)
