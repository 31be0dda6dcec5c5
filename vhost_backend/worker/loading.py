"""A VM's work as the worker that gets it sees it: out of the file, at the addresses and with the ids that it had."""

from __future__ import annotations

from vhost_backend.engines.base import Engine
from vhost_backend.worker.moving_plane import MovingPlane, Objects
from vhost_backend.worker.programs import Programs
from vhost_backend.worker.transfer import Manifest, MovedProgram, Transfer, TransferError, places


class Loading:
    """Into a worker that has done nothing yet; after a failure it must end."""

    def __init__(self, engine: Engine, plane: MovingPlane, programs: Programs, transfer: Transfer) -> None:
        self._engine = engine
        self._plane = plane
        self._programs = programs
        self._transfer = transfer

    def run(self) -> None:
        """Loads everything.

        :raise TransferError: the file makes no sense, or is of another kind of engine.
        :raise DataPlaneError: an address or id cannot be had, or the quota does not allow it.
        :raise ProgramError: a program cannot be loaded where it was.
        """
        manifest, contents_at = self._transfer.read_manifest()
        self._check_engine(manifest)
        objects = Objects.read(self._transfer, manifest.objects_at, manifest.allocs_at, manifest.num_allocs)
        self._plane.load(objects)
        for moved in manifest.programs:
            self._load_program(moved)
        self._programs.publish()
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

    def _load_program(self, moved: MovedProgram) -> None:
        image = bytes(self._transfer.read(moved.image_at, moved.image_bytes))
        loaded = self._engine.load_program_at(image, moved.context, moved.base)
        if len(loaded.functions) != len(moved.functions):
            raise TransferError(
                f"program {moved.id} has {len(loaded.functions)} functions, and {len(moved.functions)} ids for them"
            )
        self._programs.add_moved(self._plane, moved.id, moved.context, loaded, moved.functions)

    def _load_contents(self, objects: Objects, contents_at: int) -> None:
        """To addresses that this worker has given, whatever the file may say."""
        ranges = [(address, size, True) for address, size in objects.ranges()]
        for entry in self._programs:
            ranges += [(address, size, False) for address, size in self._engine.program_place(entry.loaded).writable]
        offsets = places((size for _, size, _ in ranges), contents_at)
        for (address, size, fresh), offset in zip(ranges, offsets, strict=False):
            self._plane.load_contents(self._transfer, offset, address, size, fresh=fresh)
