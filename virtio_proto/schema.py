"""Wire format of virtio-gpu-compute, declared once.

Everything that crosses the boundary between driver and device is declared here in construct: the
configuration space, requests, responses, opcodes, status codes, feature bits and limits. The C header
``include/vgc_wire.h`` is generated from this module (``python -m virtio_proto.codegen``), cffi compiles
against that header, and ``tests/unit/test_wire.py`` compares the three. All integers are little-endian
([virtio 1.3 §1.4]); every struct is packed by construction, with no implicit padding.

The *wire fingerprint* is a hash of all of it: a driver and a device that differ in any field refuse each other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final

from construct import Array, Bytes, Construct, Int8ul, Int16ul, Int32ul, Int64ul, Renamed, Struct

# --------------------------------------------------------------------------------------------------
# Constants
# --------------------------------------------------------------------------------------------------

CONFIG_MAGIC: Final = 0x43504756
"""``VGPC`` as a little-endian 32-bit integer. A driver recognises the device by it, not by its virtio id."""

WIRE_VERSION: Final = 1
VIRTIO_ID: Final = 38
"""Virtio id that has a name in QEMU, but no driver in Linux and no device in QEMU; PCI id 1af4:1066."""

LIMITS: Final[dict[str, int]] = {
    "CONFIG_SIZE": 256,  # QEMU's generic device aborts above this
    "MAX_QUEUES": 64,
    "MAX_QUEUE_SIZE": 256,
    "MAX_CHAIN": 256,  # descriptors in one chain, indirect ones included
    "MAX_CONTEXTS": 256,
    "MAX_STREAMS": 64,  # streams of one context, numbered from 0
    "MAX_EVENTS": 4096,  # live events of one VM
    "MAX_SHARES": 4096,  # allocations and events of one VM that contexts share
    "MAX_ARRAYS": 1024,  # live arrays of one VM
    "MAX_ARRAY_EXTENT": 131072,  # texels of an array along x and y
    "MAX_ARRAY_DEPTH": 16384,  # its slices or layers
    "MAX_LINEAR_TEXELS": 1 << 27,  # of a texture over linear memory
    "MAX_GRAPHS": 1024,  # live graphs of one VM
    "MAX_GRAPH_NODES": 16384,
    "MAX_GRAPH_BYTES": 4 << 20,  # of the nodes of a graph
    "MAX_NAME": 1024,  # bytes of a function or variable name
    "MAX_PARAM_BYTES": 32764,  # bytes of a kernel's parameter block, as CUDA 12.1 and newer allow
    "MAX_CALL_ARGS": 64,
    "MAX_SOURCE_BYTES": 16 << 20,
    "MAX_OPTIONS_BYTES": 16 << 10,
    "MAX_UNITS": 256,  # sources that are linked to one program
    "MAX_UNIT_NAME": 255,  # bytes of such a source's name
    "MAX_BLOCK_THREADS": 1024,
    "MAX_OUTPUT_BYTES": 64 << 10,  # printed by a context's kernels, kept until the guest fetches it
    "MAX_ERROR_TEXT": 1024,  # bytes of the error text that may follow a response
    "MAX_MARKS": 128,  # of one request
    "MAX_MARKS_BYTES": 24 << 10,  # with their texts, likewise
    "MAX_MARK_TEXT": 255,  # bytes of a mark's text; of its other names, MAX_MARK_NAME
    "MAX_MARK_NAME": 63,
    "MARKS_PER_S": 500,  # marks of a VM that the device passes on, in the long run
    "MARKS_BURST": 2000,  # marks that a VM which was quiet may have passed on at once
}


class Opcode(IntEnum):
    """Operation that a request asks for. `OPERATIONS` in vhost_backend/dataplane/request.c says who serves each."""

    NOP = 0x0001
    QUERY = 0x0002
    CONTEXT_CREATE = 0x0010
    CONTEXT_DESTROY = 0x0011
    PROGRAM_LOAD = 0x0020
    PROGRAM_UNLOAD = 0x0021
    FUNCTION_LOOKUP = 0x0022
    GLOBAL_LOOKUP = 0x0023
    FUNCTION_LIST = 0x0024
    ALLOC = 0x0030
    FREE = 0x0031
    MEMORY_EXPORT = 0x0032
    MEMORY_OPEN = 0x0033
    MEMORY_CLOSE = 0x0034
    COPY_IN = 0x0040
    COPY_OUT = 0x0041
    COPY_DEVICE = 0x0042
    FILL = 0x0043
    LAUNCH = 0x0050
    CALL = 0x0051
    EVENT_CREATE = 0x0060
    EVENT_DESTROY = 0x0061
    EVENT_RECORD = 0x0062
    EVENT_WAIT = 0x0063
    EVENT_QUERY = 0x0064
    EVENT_SYNC = 0x0065
    EVENT_EXPORT = 0x0066
    EVENT_OPEN = 0x0067
    ARRAY_CREATE = 0x0070
    ARRAY_DESTROY = 0x0071
    COPY_BOX = 0x0072
    TEXTURE_CREATE = 0x0073
    SURFACE_CREATE = 0x0074
    OBJECT_DESTROY = 0x0075
    GRAPH_CREATE = 0x0080
    GRAPH_UPDATE = 0x0081
    GRAPH_LAUNCH = 0x0082
    GRAPH_DESTROY = 0x0083
    MARKS = 0x0090


class Status(IntEnum):
    """Outcome of a request. Errors may carry a UTF-8 text as the response's payload."""

    OK = 0
    BAD_REQUEST = 1
    UNSUPPORTED = 2
    NO_CONTEXT = 3
    NOT_FOUND = 4
    INVALID_ARGUMENT = 5
    INVALID_ADDRESS = 6
    OUT_OF_MEMORY = 7
    RESOURCES_EXHAUSTED = 8
    COMPILE_FAILED = 9
    LAUNCH_FAILED = 10
    FAULT = 11
    ASSERT = 12
    TIMEOUT = 13
    DEADLOCK = 14
    DEVICE_LOST = 15
    CANCELLED = 16
    INTERNAL = 17


class EngineKind(IntEnum):
    """Engine that computes: ``config.engine_kind``."""

    NULL = 0
    CPU = 1
    CUDA = 2


class Health(IntEnum):
    """State of the VM's worker, in the configuration space."""

    STARTING = 0
    READY = 1
    RECOVERING = 2
    FAILED = 3


class DeviceFeature(IntFlag):
    """Bits of ``config.device_features``, apart from virtio's own, which are negotiated as usual."""

    CALL = 1 << 0
    EVENTS = 1 << 1
    REGION_ADDRESS = 1 << 2  # kernels may use addresses inside the region directly (zero copy)
    BINARY_PROGRAMS = 1 << 3  # cubins; and PTX and fatbins, which the software GPU takes without it
    TEXTURES = 1 << 4
    GRAPHS = 1 << 5


class LaunchFlag(IntFlag):
    """Bits of ``flags`` in a ``LAUNCH`` and a ``CALL``."""

    COOPERATIVE = 1 << 0  # all blocks run at once, so that the kernel may wait for its grid


class ProgramKind(IntEnum):
    """Format of the program in ``PROGRAM_LOAD``. `DeviceFeature.BINARY_PROGRAMS` says which the device takes."""

    CUDA_SOURCE = 1
    PTX = 2
    CUBIN = 3
    FATBIN = 4
    CUDA_UNITS = 5  # several CUDA sources, which the device links


class ProgramFlag(IntFlag):
    """Bits of ``flags`` in ``PROGRAM_LOAD``."""

    REGISTER = 1 << 0  # for the VM: all contexts find its functions, until it is unloaded
    KEEP = 1 << 1  # with REGISTER: through restarts of the guest and of the device


class FunctionOrigin(IntEnum):
    """Owner of a function that ``FUNCTION_LIST`` lists."""

    VM = 0
    HOST = 1


class FunctionFlag(IntFlag):
    """Bits of ``flags`` of a function that ``FUNCTION_LIST`` lists."""

    KEPT = 1 << 0  # see ProgramFlag.KEEP
    BROKEN = 1 << 1  # its program does not compile or load any more; parameters and id are not known


class QueryKind(IntEnum):
    """Subject of a ``QUERY``."""

    USAGE = 1
    OUTPUT = 2  # text that the context's kernels have printed; the query removes it from the device
    DEVICE = 3  # limits and properties of the device that computes


class ParamKind(IntEnum):
    """Type of a kernel's parameter, so that a driver can convert or refuse an argument."""

    UNKNOWN = 0
    INTEGER = 1  # also bool, char, enumerations
    FLOAT = 2  # IEEE 754 binary16, binary32 or binary64, by its size
    POINTER = 3  # a device address
    OTHER = 4  # a struct, union, vector or array, or a number of some other form


class ChannelKind(IntEnum):
    """Type of the channels of an array's or texture's texels."""

    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2


class ArrayFlag(IntFlag):
    """Bits of ``ARRAY_CREATE``'s flags."""

    LAYERED = 1 << 0  # depth counts layers
    SURFACE = 1 << 1  # surfaces may be made of it
    CUBEMAP = 1 << 2  # depth counts faces: 6, or a multiple of 6 with LAYERED
    GATHER = 1 << 3  # kernels gather from it


class TextureResource(IntEnum):
    """Source of a texture's texels."""

    ARRAY = 0
    LINEAR = 1  # device memory, fetched by index
    PITCH = 2  # device memory, rows of texels


class TextureFlag(IntFlag):
    """Bits of ``TEXTURE_CREATE``'s flags."""

    NORMALISED = 1 << 0  # coordinates run from 0 to 1
    AS_FLOAT = 1 << 1  # integers of 8 and 16 bits are read as floats
    SRGB = 1 << 2
    LINEAR = 1 << 3  # linear filter between texels
    LINEAR_LEVELS = 1 << 4  # linear filter between levels


class AddressMode(IntEnum):
    """Treatment of coordinates outside of a texture."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class ArgKind(IntEnum):
    """Kinds of ``CALL`` arguments, in the order of the function's parameters."""

    VALUE = 0  # `size` bytes, taken from the request's value bytes
    IN = 1  # a pointer to a copy of the next `size` readable payload bytes
    OUT = 2  # a pointer to `size` zeroed bytes that are returned in the writable payload
    INOUT = 3  # both


class MarkKind(IntEnum):
    """Kinds of marks that a program makes in time."""

    INSTANT = 0
    NESTED = 1  # a range that lies within those of its thread that were open when it began
    RANGE = 2  # any other range: it may end in another thread, or overlap


class PayloadKind(IntEnum):
    """Type of a mark's number."""

    NONE = 0
    UNSIGNED = 1
    SIGNED = 2
    FLOAT = 3  # IEEE 754 binary64


ENUMS: Final[tuple[type[IntEnum | IntFlag], ...]] = (
    Opcode,
    Status,
    EngineKind,
    Health,
    DeviceFeature,
    LaunchFlag,
    ProgramKind,
    ProgramFlag,
    FunctionOrigin,
    FunctionFlag,
    QueryKind,
    ParamKind,
    ChannelKind,
    ArrayFlag,
    TextureResource,
    TextureFlag,
    AddressMode,
    ArgKind,
    MarkKind,
    PayloadKind,
)


# --------------------------------------------------------------------------------------------------
# Structs
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WireStruct:
    """Struct of the wire format: C name, meaning, and its construct declaration."""

    name: str
    doc: str
    construct: Struct

    @property
    def size_bytes(self) -> int:
        """Size on the wire, and in C."""
        return self.construct.sizeof()


def _wire(name: str, doc: str, *fields: Construct[Any, Any]) -> WireStruct:
    return WireStruct(name, doc, Struct(*fields))


u8, u16, u32, u64 = Int8ul, Int16ul, Int32ul, Int64ul

CONFIG = _wire(
    "vgc_config",
    "Device-specific configuration space. Only `driver_ack` is writable by the driver.",
    "magic" / u32 * "`VGPC`: 0x43504756",
    "version" / u32 * "of the wire format",
    "fingerprint" / u64 * "hash of the wire format",
    "device_features" / u64 * "bits of VGC_F_*",
    "num_queues" / u32 * "virtqueues, all of one kind",
    "queue_depth" / u32 * "quota: requests of this VM in flight at once, all queues together",
    "region_size" / u64 * "bytes of the VM's shared region",
    "region_device_address" / u64 * "device address of the region's first byte; 0: kernels do not see the region",
    "engine_kind" / u32 * "engine that computes",
    "health" / u32 * "state of the worker",
    "generation" / u32 * "+1 whenever the worker was replaced: contexts, programs, memory are gone",
    "quota_pes" / u32 * "processing elements this VM may use",
    "quota_memory_bytes" / u64 * "device memory this VM may allocate",
    "deadline_ns" / u64 * "longest time a launch may run",
    "max_contexts" / u32 * "contexts that may exist at once",
    "max_streams" / u32 * "streams of a context, numbered from 0",
    "uuid" / Bytes(16) * "UUID of the VM",
    "engine_name" / Bytes(64) * "NUL-padded UTF-8",
    "vm_name" / Bytes(64) * "NUL-padded UTF-8",
    "driver_ack" / u32 * "the driver writes the allotment whose quota it has picked up",
    "allotment" / u32 * "number of the quota, at least 1: +1 whenever the quota has changed",
)

REQUEST = _wire(
    "vgc_request",
    "First bytes of every request's readable part; the opcode's body follows at once.",
    "opcode" / u16,
    "flags" / u16 * "none defined: must be 0",
    "context" / u32,
    "stream" / u32,
    "reserved" / u32,
    "request_id" / u64 * "chosen by the driver; appears in the host's logs",
)

RESPONSE = _wire(
    "vgc_response",
    "First bytes of every request's writable part; payload, or on error a text, follows at once.",
    "status" / u32,
    "detail" / u32 * "engine's own error code, 0 if none",
    "value" / u64 * "the opcode's result (an id, an address)",
    "aux"
    / u64
    * "a second result; the payload's whole length, if it was cut short; for LAUNCH, CALL and GRAPH_LAUNCH: bytes printed",
    "queued_ns" / u64 * "from pop to start on the engine",
    "exec_ns" / u64 * "from start to end on the engine",
    "payload_len" / u32 * "bytes written after this struct",
    "allotment" / u32 * "number of the latest quota that the device knows, 0 if none",
)

BODY_QUERY = _wire("vgc_body_query", "QUERY", "what" / u32, "reserved" / u32)
BODY_CONTEXT_CREATE = _wire(
    "vgc_body_context_create",
    "CONTEXT_CREATE; its place and meaning stay the same in every version of the wire format.",
    "fingerprint" / u64 * "fingerprint of the driver's wire format",
)
BODY_PROGRAM_LOAD = _wire(
    "vgc_body_program_load",
    "PROGRAM_LOAD; `options_len` bytes of NUL-terminated options, then `source_len` bytes of source follow.",
    "kind" / u32,
    "options_len" / u32,
    "source_len" / u64,
    "flags" / u32 * "enum vgc_program_flag",
    "reserved" / u32,
)
UNITS = _wire(
    "vgc_units",
    "First bytes of a program of several sources; `num_units` vgc_unit follow, then each unit's name, options and text.",
    "num_units" / u32 * "1 to MAX_UNITS",
    "reserved" / u32,
)
UNIT = _wire(
    "vgc_unit",
    "A source of a program of several.",
    "name_len" / u32 * "1 to MAX_UNIT_NAME bytes of UTF-8, which errors show",
    "options_len" / u32 * "bytes of NUL-terminated options, which follow those of the request",
    "text_len" / u64,
)
BODY_PROGRAM_UNLOAD = _wire("vgc_body_program_unload", "PROGRAM_UNLOAD", "program" / u32, "reserved" / u32)
BODY_LOOKUP = _wire(
    "vgc_body_lookup",
    "FUNCTION_LOOKUP and GLOBAL_LOOKUP; `name_len` bytes of name follow. program 0: any of the context, then of the VM.",
    "program" / u32,
    "name_len" / u32,
)
BODY_FUNCTION_LIST = _wire(
    "vgc_body_function_list",
    "FUNCTION_LIST",
    "first" / u32 * "0, or `next` of the list before",
    "reserved" / u32,
)
BODY_ALLOC = _wire("vgc_body_alloc", "ALLOC", "size" / u64)
BODY_FREE = _wire("vgc_body_free", "FREE", "address" / u64)
BODY_COPY = _wire(
    "vgc_body_copy",
    "COPY_IN (dst; payload readable), COPY_OUT (src; payload writable), COPY_DEVICE (both).",
    "dst" / u64,
    "src" / u64,
    "size" / u64,
)
BODY_FILL = _wire(
    "vgc_body_fill",
    "FILL: `size` bytes at `dst` with the low `unit` (1, 2, 4 or 8) bytes of `value`.",
    "dst" / u64,
    "size" / u64,
    "value" / u64,
    "unit" / u32,
    "reserved" / u32,
)
BODY_LAUNCH = _wire(
    "vgc_body_launch",
    "LAUNCH; `param_len` bytes follow, laid out as the function table says.",
    "function" / u32,
    "grid" / Array(3, u32),
    "block" / Array(3, u32),
    "shared_bytes" / u32,
    "param_len" / u32,
    "flags" / u32 * "enum vgc_launch_flag",
)
BODY_CALL = _wire(
    "vgc_body_call",
    "CALL; then `name_len` name bytes, `num_args` vgc_call_arg, `value_len` value bytes, IN/INOUT payloads.",
    "function" / u32 * "0: looked up by name",
    "grid" / Array(3, u32),
    "block" / Array(3, u32),
    "shared_bytes" / u32,
    "name_len" / u32,
    "num_args" / u32,
    "value_len" / u32,
    "flags" / u32 * "enum vgc_launch_flag",
)
CALL_ARG = _wire("vgc_call_arg", "Argument of a CALL.", "kind" / u32, "reserved" / u32, "size" / u64)
BODY_EVENT = _wire("vgc_body_event", "EVENT_*", "event" / u32, "reserved" / u32)
BODY_MEMORY = _wire("vgc_body_memory", "MEMORY_EXPORT and MEMORY_CLOSE", "address" / u64)
BODY_KEY = _wire("vgc_body_key", "MEMORY_OPEN and EVENT_OPEN", "key" / Array(2, u64))

BODY_ARRAY_CREATE = _wire(
    "vgc_body_array_create",
    "ARRAY_CREATE",
    "width" / u32 * "texels",
    "height" / u32 * "0: one-dimensional",
    "depth" / u32 * "slices, layers or faces; 0: neither",
    "levels" / u32 * "mipmap levels; 1: no mipmap",
    "kind" / u32 * "enum vgc_channel_kind",
    "bits" / u32 * "of a channel: 8, 16 or 32",
    "channels" / u32 * "1, 2 or 4",
    "flags" / u32 * "bits of VGC_ARRAY_FLAG_*",
)
BODY_ARRAY = _wire("vgc_body_array", "ARRAY_DESTROY", "array" / u32, "reserved" / u32)
BODY_COPY_BOX = _wire(
    "vgc_body_copy_box",
    "COPY_BOX: rows of `width` bytes. One side, at least, is an array; the other may be device memory.",
    "dst" / u64 * "address of the box's first byte; 0 for an array, as are pitch and slice",
    "dst_pitch" / u64 * "bytes from row to row",
    "dst_slice" / u64 * "bytes from slice to slice",
    "dst_array" / u32 * "0: device memory, then the next four are 0",
    "dst_level" / u32,
    "dst_x" / u32 * "bytes",
    "dst_y" / u32 * "rows",
    "dst_z" / u32 * "slices, layers or faces",
    "dst_reserved" / u32,
    "src" / u64,
    "src_pitch" / u64,
    "src_slice" / u64,
    "src_array" / u32,
    "src_level" / u32,
    "src_x" / u32,
    "src_y" / u32,
    "src_z" / u32,
    "src_reserved" / u32,
    "width" / u32 * "bytes",
    "height" / u32,
    "depth" / u32,
    "reserved" / u32,
)
BODY_TEXTURE_CREATE = _wire(
    "vgc_body_texture_create",
    "TEXTURE_CREATE",
    "resource" / u32 * "enum vgc_texture_resource",
    "array" / u32 * "0 for device memory",
    "address" / u64 * "0 for an array, as are the next three",
    "pitch" / u64 * "bytes from row to row",
    "width" / u32 * "texels",
    "height" / u32 * "rows; 1 for linear memory",
    "kind" / u32 * "enum vgc_channel_kind",
    "bits" / u32 * "of a channel; 0: channels are those of the array, and kind is 0",
    "channels" / u32,
    "flags" / u32 * "bits of VGC_TEXTURE_FLAG_*",
    "modes" / Array(3, u32) * "enum vgc_address_mode, along x, y and z",
    "max_anisotropy" / u32 * "0 to 16",
    "border" / Array(4, u32) * "IEEE 754 binary32, as are the next three",
    "bias" / u32,
    "min_level" / u32,
    "max_level" / u32,
    "first_level" / u32,
    "num_levels" / u32 * "0: all from the first on; likewise layers",
    "first_layer" / u32,
    "num_layers" / u32,
    "reserved" / u32,
)
BODY_SURFACE_CREATE = _wire("vgc_body_surface_create", "SURFACE_CREATE", "array" / u32, "level" / u32)
BODY_OBJECT = _wire("vgc_body_object", "OBJECT_DESTROY", "object" / u64)
BODY_GRAPH_NODES = _wire(
    "vgc_body_graph_nodes",
    "GRAPH_CREATE and GRAPH_UPDATE; `nodes_len` bytes follow: `num_nodes` nodes, one behind the other.",
    "graph" / u32 * "0 for GRAPH_CREATE",
    "num_nodes" / u32 * "1 to MAX_GRAPH_NODES",
    "nodes_len" / u32 * "at most MAX_GRAPH_BYTES",
    "reserved" / u32,
)
GRAPH_NODE = _wire(
    "vgc_graph_node",
    "First bytes of a graph's node; `num_deps` u32, the opcode's body and, for LAUNCH, its parameters follow.",
    "opcode" / u32 * "NOP, COPY_DEVICE, FILL, LAUNCH or COPY_BOX",
    "num_deps" / u32 * "nodes that end before this one starts: indices of nodes before it",
)
BODY_GRAPH = _wire("vgc_body_graph", "GRAPH_LAUNCH and GRAPH_DESTROY", "graph" / u32, "reserved" / u32)
BODY_MARKS = _wire(
    "vgc_body_marks",
    "MARKS; `marks_len` bytes follow: `num_marks` vgc_mark, each with its texts behind it.",
    "now_ns" / u64 * "the driver's clock, by which all times of the request are, when it was sent",
    "num_marks" / u32 * "at most MAX_MARKS",
    "marks_len" / u32 * "at most MAX_MARKS_BYTES",
    "dropped" / u32 * "marks that the driver has left out since its last request",
    "process" / u32 * "number of the process in the guest",
    "name" / Bytes(16) * "name of the process, NUL-padded UTF-8",
)
MARK = _wire(
    "vgc_mark",
    "First bytes of a mark; its text, domain, category's name and thread's name follow, in UTF-8.",
    "begin_ns" / u64 * "by the driver's clock",
    "end_ns" / u64 * "likewise; of an INSTANT, begin_ns",
    "payload" / u64 * "the number's bits",
    "kind" / u32 * "enum vgc_mark_kind",
    "payload_kind" / u32 * "enum vgc_payload_kind",
    "thread" / u32 * "number of the thread in the guest",
    "category" / u32,
    "colour" / u32 * "alpha, red, green, blue, from the highest byte on; 0: none",
    "text_len" / u16,
    "domain_len" / u16,
    "category_len" / u16,
    "thread_len" / u16,
    "reserved" / u32,
)

PROGRAM_TABLE = _wire(
    "vgc_program_table",
    "Payload of a PROGRAM_LOAD response: this header, functions, params, globals, strings, log.",
    "num_functions" / u32,
    "num_params" / u32,
    "num_globals" / u32,
    "strings_len" / u32,
    "log_len" / u32,
    "constant_bytes" / u32 * "of the program's variables in constant memory",
    "memory_bytes" / u64 * "bytes of the memory quota that are the program's until it is unloaded",
)
FUNCTION_ENTRY = _wire(
    "vgc_function_entry",
    "Function of a program; also the payload of FUNCTION_LOOKUP (its params follow, name_off 0).",
    "id" / u32,
    "name_off" / u32 * "the linker's (mangled) name, in the strings",
    "name_len" / u32,
    "short_off" / u32 * "the source's name, unqualified",
    "short_len" / u32,
    "first_param" / u32,
    "num_params" / u32,
    "param_bytes" / u32,
    "shared_bytes" / u32 * "static shared memory",
    "max_threads" / u32 * "per block",
    "num_registers" / u32 * "of a thread; 0: unknown",
    "local_bytes" / u32 * "local memory of a thread, as far as it is known",
)
PARAM_ENTRY = _wire(
    "vgc_param_entry",
    "Parameter of a function.",
    "offset" / u32 * "into the parameter block",
    "size" / u32,
    "kind" / u32 * "enum vgc_param_kind",
    "reserved" / u32,
)
GLOBAL_ENTRY = _wire(
    "vgc_global_entry",
    "A __device__ or __constant__ variable; also the payload of GLOBAL_LOOKUP.",
    "name_off" / u32,
    "name_len" / u32,
    "address" / u64,
    "size" / u64,
)
FUNCTION_LIST = _wire(
    "vgc_function_list",
    "Payload of FUNCTION_LIST: this header, functions, params, strings.",
    "num_functions" / u32,
    "num_params" / u32,
    "strings_len" / u32,
    "next" / u32 * "`first` of the request for those that had no room; 0: these are the last",
)
LISTED_FUNCTION = _wire(
    "vgc_listed_function",
    "Function that every context of the VM finds.",
    "id" / u32 * "0: it cannot be launched",
    "program" / u32 * "its program's id, by which it is unloaded; 0: it is the host's",
    "origin" / u32 * "enum vgc_function_origin",
    "flags" / u32 * "enum vgc_function_flag",
    "name_off" / u32 * "the linker's name, in the strings",
    "name_len" / u32,
    "short_off" / u32 * "the source's name",
    "short_len" / u32,
    "text_off" / u32 * "why it is BROKEN",
    "text_len" / u32,
    "first_param" / u32,
    "num_params" / u32,
    "launches" / u64 * "since the worker has started, all contexts together",
    "busy_ns" / u64 * "engine time of them",
    "p99_ns" / u64 * "99 of 100 took no longer; 0: none was timed",
)
USAGE = _wire(
    "vgc_usage",
    "Payload of QUERY(USAGE): resources that the VM holds now.",
    "memory_used_bytes" / u64,
    "memory_quota_bytes" / u64,
    "requests_done" / u64,
    "requests_failed" / u64,
    "busy_ns" / u64 * "engine time of all finished launches",
    "num_contexts" / u32,
    "num_programs" / u32,
    "num_allocations" / u32,
    "num_pes" / u32,
    "in_flight" / u32,
    "generation" / u32,
)
DEVICE_PROPERTIES = _wire(
    "vgc_device_properties",
    "Payload of QUERY(DEVICE). 0 where the device has no such thing, or does not say.",
    "compute_capability" / u32 * "10 * major + minor, as CUDA counts",
    "warp_threads" / u32,
    "pe_threads" / u32 * "threads that a processing element holds at once",
    "pe_blocks" / u32 * "blocks, likewise",
    "pe_registers" / u32 * "registers of 32 bits, likewise",
    "pe_shared_bytes" / u32 * "shared memory, likewise",
    "block_registers" / u32,
    "block_shared_bytes" / u32 * "most shared memory of a block, static and dynamic",
    "reserved_shared_bytes" / u32 * "shared memory of a block that the device takes itself",
    "constant_bytes" / u32,
    "l2_bytes" / u32,
    "clock_khz" / u32,
    "memory_clock_khz" / u32,
    "memory_bus_bits" / u32,
    "copy_engines" / u32 * "copies that go on beside kernels, and each other",
    "double_ratio" / u32 * "operations in single precision in the time of one in double precision",
    "cluster_blocks" / u32 * "most blocks of a cluster; 0: no clusters",
    "ecc" / u32 * "1: memory corrects errors",
)

STRUCTS: Final[tuple[WireStruct, ...]] = (
    CONFIG,
    REQUEST,
    RESPONSE,
    BODY_QUERY,
    BODY_CONTEXT_CREATE,
    BODY_PROGRAM_LOAD,
    UNITS,
    UNIT,
    BODY_PROGRAM_UNLOAD,
    BODY_LOOKUP,
    BODY_FUNCTION_LIST,
    BODY_ALLOC,
    BODY_FREE,
    BODY_COPY,
    BODY_FILL,
    BODY_LAUNCH,
    BODY_CALL,
    CALL_ARG,
    BODY_EVENT,
    BODY_MEMORY,
    BODY_KEY,
    BODY_ARRAY_CREATE,
    BODY_ARRAY,
    BODY_COPY_BOX,
    BODY_TEXTURE_CREATE,
    BODY_SURFACE_CREATE,
    BODY_OBJECT,
    BODY_GRAPH_NODES,
    GRAPH_NODE,
    BODY_GRAPH,
    BODY_MARKS,
    MARK,
    PROGRAM_TABLE,
    FUNCTION_ENTRY,
    PARAM_ENTRY,
    GLOBAL_ENTRY,
    FUNCTION_LIST,
    LISTED_FUNCTION,
    USAGE,
    DEVICE_PROPERTIES,
)

BODIES: Final[dict[Opcode, WireStruct]] = {
    Opcode.QUERY: BODY_QUERY,
    Opcode.CONTEXT_CREATE: BODY_CONTEXT_CREATE,
    Opcode.PROGRAM_LOAD: BODY_PROGRAM_LOAD,
    Opcode.PROGRAM_UNLOAD: BODY_PROGRAM_UNLOAD,
    Opcode.FUNCTION_LOOKUP: BODY_LOOKUP,
    Opcode.GLOBAL_LOOKUP: BODY_LOOKUP,
    Opcode.FUNCTION_LIST: BODY_FUNCTION_LIST,
    Opcode.ALLOC: BODY_ALLOC,
    Opcode.FREE: BODY_FREE,
    Opcode.MEMORY_EXPORT: BODY_MEMORY,
    Opcode.MEMORY_OPEN: BODY_KEY,
    Opcode.MEMORY_CLOSE: BODY_MEMORY,
    Opcode.COPY_IN: BODY_COPY,
    Opcode.COPY_OUT: BODY_COPY,
    Opcode.COPY_DEVICE: BODY_COPY,
    Opcode.FILL: BODY_FILL,
    Opcode.LAUNCH: BODY_LAUNCH,
    Opcode.CALL: BODY_CALL,
    Opcode.EVENT_DESTROY: BODY_EVENT,
    Opcode.EVENT_RECORD: BODY_EVENT,
    Opcode.EVENT_WAIT: BODY_EVENT,
    Opcode.EVENT_QUERY: BODY_EVENT,
    Opcode.EVENT_SYNC: BODY_EVENT,
    Opcode.EVENT_EXPORT: BODY_EVENT,
    Opcode.EVENT_OPEN: BODY_KEY,
    Opcode.ARRAY_CREATE: BODY_ARRAY_CREATE,
    Opcode.ARRAY_DESTROY: BODY_ARRAY,
    Opcode.COPY_BOX: BODY_COPY_BOX,
    Opcode.TEXTURE_CREATE: BODY_TEXTURE_CREATE,
    Opcode.SURFACE_CREATE: BODY_SURFACE_CREATE,
    Opcode.OBJECT_DESTROY: BODY_OBJECT,
    Opcode.GRAPH_CREATE: BODY_GRAPH_NODES,
    Opcode.GRAPH_UPDATE: BODY_GRAPH_NODES,
    Opcode.GRAPH_LAUNCH: BODY_GRAPH,
    Opcode.GRAPH_DESTROY: BODY_GRAPH,
    Opcode.MARKS: BODY_MARKS,
}
"""Body that follows the request header, by opcode; opcodes not listed have no body."""


# --------------------------------------------------------------------------------------------------
# Introspection, for codegen and the fingerprint
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """Field in C's terms: `count` elements of `width_bytes` each, `offset_bytes` into the struct."""

    name: str
    offset_bytes: int
    width_bytes: int
    count: int  # 1: a scalar
    doc: str  # may be empty

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole field."""
        return self.width_bytes * self.count


_SCALARS: Final[dict[int, int]] = {id(u8): 1, id(u16): 2, id(u32): 4, id(u64): 8}


def _shape(construct: Construct[Any, Any]) -> tuple[int, int]:
    """Element width and count of a field's construct.

    :raise TypeError: C codegen does not know the construct.
    """
    if isinstance(construct, Renamed):  # a name, or a doc
        return _shape(construct.subcon)
    if isinstance(construct, Array) and isinstance(construct.count, int):
        width, count = _shape(construct.subcon)
        return width, count * construct.count
    if isinstance(construct, Bytes) and isinstance(construct.length, int):
        return 1, construct.length
    if id(construct) in _SCALARS:
        return _SCALARS[id(construct)], 1
    raise TypeError(
        f"the wire schema cannot hold {construct!r}; allowed: u8, u16, u32, u64, Bytes, Array, of fixed size"
    )


def fields(struct: WireStruct) -> list[Field]:
    """Lists the fields of `struct` in order, with C offsets.

    :raise TypeError: a field has no name, or a type that C codegen does not know.
    """
    out: list[Field] = []
    offset = 0
    for renamed in struct.construct.subcons:
        if not isinstance(renamed, Renamed) or not renamed.name:
            raise TypeError(f"{struct.name} holds a field without a name: {renamed!r}")
        width, count = _shape(renamed)
        out.append(Field(renamed.name, offset, width, count, str(renamed.docs)))
        offset += width * count
    return out


def zeroes(struct: WireStruct) -> dict[str, Any]:
    """Values of a body of zeroes, by the names of its fields."""
    values = struct.construct.parse(bytes(struct.size_bytes))
    return {field.name: values[field.name] for field in fields(struct)}


def canonical_text(structs: tuple[WireStruct, ...] = STRUCTS) -> str:
    """Renders the schema as a text that changes if and only if the wire format changes."""
    lines = [f"version {WIRE_VERSION} magic {CONFIG_MAGIC:#x}"]
    lines += [f"limit {name} {value}" for name, value in LIMITS.items()]
    for enum in ENUMS:
        lines += [f"enum {enum.__name__} {member.name} {int(member)}" for member in enum]
    for struct in structs:
        lines.append(f"struct {struct.name} {struct.size_bytes}")
        lines += [f"  {f.name} @{f.offset_bytes} {f.width_bytes}x{f.count}" for f in fields(struct)]
    return "\n".join(lines) + "\n"


def fingerprint_of(text: str) -> int:
    """Hashes a canonical text to the 64 bits that the configuration space carries."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


FINGERPRINT: Final = fingerprint_of(canonical_text())
