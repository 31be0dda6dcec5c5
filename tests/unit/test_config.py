"""The configuration file: its meaning, and the error for every mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, cast

import pytest

from vhost_backend.config import daemon as config
from vhost_backend.config import engine as engine_config
from vhost_backend.config.daemon import MIB, EngineConfig, VmConfig
from vhost_backend.daemon.compile_setup import cache_domain
from vhost_backend.engines.registry import KINDS, engine_class
from vhost_backend.errors import ConfigError, EngineError
from virtio_proto.yaml_values import Scalar

EXAMPLE = Path(__file__).parents[2] / "docs" / "vgcd.example.yaml"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "f.yaml")
    return list(caught.value.problems)


def vm(text: str) -> VmConfig:
    """The parsed VM "a" with these settings."""
    return config.parse(f"vms: {{a: {{{text}}}}}").vms[0]


def test_example_is_valid_and_shows_every_key() -> None:
    assert len(config.load(EXAMPLE).vms) == 3
    text = EXAMPLE.read_text()
    options = engine_config.ENGINE_OPTIONS["cuda"]
    keys = [
        *options,
        *config._VM_KEYS,
        *config._QUOTA_KEYS,
        "kind",
        "options",
        "log",
        "format",
        "level",
        "cache",
        "state",
        "defaults",
    ]
    assert [key for key in keys if f"{key}:" not in text] == []


def test_vm_without_settings_has_defaults() -> None:
    found = config.parse("vms: {a: }").vms[0]
    assert (found.region_bytes, found.num_queues, found.sandbox) == (64 * MIB, 16, "strict")
    assert found.engine == EngineConfig("auto", {})
    assert found.uuid == config.vm_uuid("a")


def test_programs_are_shared_only_within_a_domain() -> None:
    found = config.parse("defaults: {cache_domain: all}\nvms: {a: {cache_domain: b}, b: {cache_domain: b}, c: , all: }")
    domains = {vm.name: cache_domain(vm) for vm in found.vms}
    assert domains["a"] == domains["b"] != domains["c"] == domains["all"]
    alone = config.parse("vms: {a: , b: , c: {cache_domain: a}}").vms
    assert len(set(map(cache_domain, alone))) == 3


_UUID: Final = "0f9c5f3e-6d0b-4c55-9d2b-0f1f3a8f7c11"


@pytest.mark.parametrize(
    ("text", "size"),
    [("1M", MIB), ("64MiB", 64 * MIB), ("2g", 2048 * MIB), ("1048576", MIB), ("2048 K", 2 * MIB)],
)
def test_sizes_have_binary_units(text: str, size: int) -> None:
    assert vm(f"region: {text}").region_bytes == size


def test_file_of_the_region_may_be_named() -> None:
    assert vm("region_file: /dev/shm/vgc").region_file == Path("/dev/shm/vgc")
    assert vm("").region_file is None


@pytest.mark.parametrize(("text", "ns"), [("10s", 10**10), ("1500ms", 1_500_000_000), ("2m", 120 * 10**9)])
def test_times_have_units(text: str, ns: int) -> None:
    assert vm(f"deadline: {text}").deadline_ns == ns


def test_engine_is_a_name_or_a_mapping() -> None:
    assert vm("engine: 'null'").engine == EngineConfig("null", {})
    assert vm("engine: {kind: cpu, options: {}}").engine == EngineConfig("cpu", {})
    assert vm("engine: {options: {binaries: true}}").engine == EngineConfig("auto", {"binaries": True})


GPU = "GPU-8f6d2a1e-0c3b-4d5e-9f70-1a2b3c4d5e6f"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("cuda", {}),
        ("cuda:0", {"device": 0}),
        (f"'cuda:{GPU}'", {"device": GPU}),
        ("cuda:GPU-8f6d", {"device": "GPU-8f6d"}),
        (f"'cuda:{GPU.replace('GPU', 'MIG')}'", {"device": GPU.replace("GPU", "MIG")}),
        ("{kind: cuda, options: {device: 3, heap: 16M}}", {"device": 3, "heap": 16 * MIB}),
        (
            "{kind: cuda, options: {driver: /opt/libcuda.so.1, compiler: nvcc, binaries: false}}",
            {"driver": "/opt/libcuda.so.1", "compiler": "nvcc", "binaries": False},
        ),
        ("{kind: cuda, options: {hooks: on}}", {"hooks": "on"}),
        ("{kind: cuda, options: {hooks: off}}", {"hooks": "off"}),
        ("{kind: cuda, options: {hooks: 'off'}}", {"hooks": "off"}),
    ],
)
def test_cuda_engine_names_its_device_and_how_it_works(text: str, options: dict[str, object]) -> None:
    assert vm(f"engine: {text}").engine == EngineConfig("cuda", cast("dict[str, str]", options))


def test_default_options_hold_for_a_vm_that_adds_its_own() -> None:
    text = "defaults: {engine: {kind: cuda, options: {binaries: true}}}\nvms: {a: {engine: {options: {device: 1}}}, b: {engine: cpu}}"
    a, b = config.parse(text).vms
    assert a.engine == EngineConfig("cuda", {"binaries": True, "device": 1})
    assert b.engine == EngineConfig("cpu")


OPTIONS: dict[str, Scalar] = {
    "device": 0,
    "driver": "/opt/libcuda.so.1",
    "compiler": "nvrtc",
    "completion": "event",
    "memory": "mapped",
    "hooks": "on",
    "libraries": "auto",
    "binaries": True,
    "heap": MIB,
    "lockstep": True,
    "perf_maps": True,
    "guard_pages": True,
    "cccl": "auto",
    "unknown": 1,
}


@pytest.mark.parametrize("kind", KINDS)
def test_engines_accept_all_options_of_the_configuration(kind: str) -> None:
    """Each engine takes all options that the configuration allows, and refuses others."""
    allowed = engine_config.ENGINE_OPTIONS[cast("engine_config.EngineName", kind)]
    options = {name: OPTIONS[name] for name in (*allowed, "unknown")}
    with pytest.raises(EngineError, match="unknown"):
        engine_class(kind).open(options, 1, MIB, 1)


def test_defaults_hold_unless_a_vm_says_otherwise() -> None:
    text = "defaults: {quota: {pes: 3, memory: 1G}, num_queues: 8}\nvms: {a: , b: {quota: {pes: 5}}}"
    a, b = config.parse(text).vms
    assert (a.quota.pes, a.quota.memory_bytes, a.num_queues) == (3, 1024 * MIB, 8)
    assert (b.quota.pes, b.quota.memory_bytes, b.num_queues) == (5, 1024 * MIB, 8)


def test_error_names_file_line_key_value_and_what_is_allowed() -> None:
    text = "vms:\n  a:\n    quota:\n      pes: 0\n"
    assert problems(text) == ["f.yaml:4: vms.a.quota.pes is 0; allowed: an integer of 1 to 4096"]


def test_host_may_have_no_vms() -> None:
    assert config.parse("vms: {}").vms == ()


def test_file_without_the_key_vms_is_refused() -> None:
    """A file that was emptied by accident, and is read again, must not remove all VMs of the host."""
    assert "allowed: a mapping of up to 256 VM names" in problems("")[0]


def test_all_errors_are_reported_at_once() -> None:
    text = "vms:\n  a: {socket: x}\n  b: {num_queues: 65}\nlog: {level: loud}\nzz: 1\n"
    found = problems(text)
    assert len(found) == 4
    for line, words in ((2, "absolute path"), (3, "1 to 64"), (4, "debug or info"), (5, "zz is not a key")):
        assert any(item.startswith(f"f.yaml:{line}: ") and words in item for item in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "vms"),
        ("vms:", "a mapping of up to 256 VM names to their settings; {} for none"),
        ("vms: [a]", "vms is a list"),
        ("vms: 3", "vms is 3"),
        ("[]", "the file is a list"),
        ("vms: {a b: }", "the name is 'a b'"),
        ("vms: {a: , a: }", "vms.a appears twice"),
        ("vms: {a: {region: 3}}", "a size such as"),
        ("vms: {a: {region: true}}", "region is True"),
        ("vms: {a: {region: 999T}}", "from 1M to 1T"),
        ("vms: {a: {region: 63M}}", "region is '63M'; allowed: a power of two"),
        ("vms: {a: {deadline: 5}}", "a time such as"),
        ("vms: {a: {deadline: 25h}}", "up to 24h"),
        ("vms: {a: {uuid: 12}}", "a UUID such as"),
        (
            "vms: {a: {engine: vulkan}}",
            'auto or cpu or "null" in quotes or cuda, or cuda with a device: cuda:1, cuda:GPU-<uuid>',
        ),
        ("vms: {a: {engine: null}}", 'vms.a.engine is empty; allowed: auto or cpu or "null" in quotes'),
        ("vms: {a: {engine: 3}}", "engine is 3; allowed: auto or"),
        ("vms: {a: {engine: 'cuda:'}}", "engine is 'cuda:'; allowed: cuda: and a device number of 0 to 63, or a UUID"),
        ("vms: {a: {engine: 'cuda:64'}}", "engine is 'cuda:64'; allowed: cuda: and a device number"),
        ("vms: {a: {engine: 'cuda:" + 5000 * "1" + "'}}", "allowed: cuda: and a device number"),
        ("vms: {a: {engine: 'cuda:GPU-x'}}", "engine is 'cuda:GPU-x'; allowed: cuda: and a device number"),
        (
            "vms: {a: {engine: 'cuda:MIG-8f6d2a1e'}}",
            "engine is 'cuda:MIG-8f6d2a1e'; allowed: cuda: and a device number",
        ),
        ("vms: {a: {engine: 'cpu:1'}}", "engine is 'cpu:1'; allowed: auto or"),
        ("vms: {a: {engine: {kind: 'cuda:1'}}}", "engine.kind is 'cuda:1'; allowed: auto or"),
        ("vms: {a: {engine: {kind: cuda, options: 3}}}", "engine.options is 3; allowed: a mapping with device, driver"),
        ("vms: {a: {engine: {kind: cuda, options: {device: -1}}}}", "options.device is -1; allowed: a device number"),
        ("vms: {a: {engine: {kind: cuda, options: {device: true}}}}", "options.device is True"),
        (
            "vms: {a: {engine: {kind: cuda, options: {compiler: on}}}}",
            "options.compiler is True; allowed: auto or nvrtc",
        ),
        ("vms: {a: {sandbox: off}}", "sandbox is False; allowed: strict or best-effort"),
        (
            "vms: {a: {engine: {kind: cuda, options: {driver: libcuda.so.1}}}}",
            "options.driver is 'libcuda.so.1'; allowed: an absolute",
        ),
        (
            "vms: {a: {engine: {kind: cuda, options: {compiler: clang}}}}",
            "compiler is 'clang'; allowed: auto or nvrtc or nvcc",
        ),
        ("vms: {a: {engine: {kind: cuda, options: {binaries: 1}}}}", "options.binaries is 1; allowed: true or false"),
        ("vms: {a: {engine: {kind: cuda, options: {heap: 1K}}}}", "options.heap is '1K'; allowed: a size such as 8M"),
        (
            "vms: {a: {engine: {kind: cuda, options: {x: 1}}}}",
            "options.x is not a key; allowed: device, driver, compiler",
        ),
        ("vms: {a: {engine: {kind: cpu, speed: 3}}}", "engine.speed is not a key"),
        ("vms: {a: {engine: {options: {x: [1]}}}}", "options.x is not a key"),
        ("vms: {a: {engine: {options: {driver: [1]}}}}", "options.driver is a list"),
        (
            "vms: {a: {engine: {kind: 'null', options: {threads: 3}}}}",
            "a.engine.options.threads is not a key; allowed: nothing",
        ),
        (
            "vms: {a: {engine: {kind: cpu, options: {threads: 3}}}}",
            "a.engine.options.threads is not a key; allowed: cccl, guard_pages, lockstep, perf_maps",
        ),
        (
            "vms: {a: {engine: {kind: cpu, options: {cccl: there}}}}",
            "a.engine.options.cccl is 'there'; allowed: auto, off, or the folder",
        ),
        ("vms: {a: {sandbox: 'off'}}", "strict or best-effort or permissive"),
        ("vms: {a: {cache_domain: '/x'}}", "vms.a.cache_domain is '/x'; allowed: 1 to 63 of A-Z a-z 0-9 _ . -"),
        ("vms: {a: {cache_domain: [b]}}", "vms.a.cache_domain is"),
        ("vms: {a: {num_queues: true}}", "num_queues is True"),
        ("vms: {a: {socket: /" + "x" * 107 + "}}", "at most 107 bytes"),
        ("vms: {a: {socket: /s}, b: {socket: /s}}", "a path that vms.a does not use"),
        ("vms: {a: {socket: /s}, b: {socket: /x/../s}}", "a path that vms.a does not use"),
        (
            "control: {socket: /run/c}\nvms: {a: {socket: /run/c}}",
            "vms.a.socket is '/run/c'; allowed: a path that control.socket does not use",
        ),
        (
            f"vms: {{a: {{uuid: {_UUID}}}, b: {{uuid: {_UUID.upper()}}}}}",
            f"vms.b.uuid is {_UUID}; allowed: a UUID that vms.a does not have",
        ),
        ("vms: {a: }\ndefaults: {socket: /s}", "defaults.socket is not a key"),
        ("vms: {a: {region_file: shm}}", "an absolute path"),
        ("vms: {a: {region_file: /f}, b: {region_file: /f}}", "vms.b.region_file is '/f'; allowed: a path that vms.a"),
        ("vms: {a: }\ndefaults: {region_file: /f}", "defaults.region_file is not a key"),
        ("vms: {a: }\ndefaults: {quota: {pes: x}}", "defaults.quota.pes is 'x'"),
        ("vms: [", "not YAML"),
        ("vms: {a: }\n# \x07", "not YAML: unacceptable character #x0007: special characters are not allowed"),
        ("a: &x [*x]", "not YAML"),
        ("vms: {a: !!python/object:os.system {}}", "vms.a has the tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("vms: {a: }\n---\nvms: {b: }", "not YAML"),
    ],
)
def test_mistake_is_explained(text: str, words: str) -> None:
    found = problems(text)
    assert any(words in item for item in found), found
    for item in found:
        assert re.match(r"f\.yaml:\d+: (the file|vms|defaults)\S* .+; allowed: .", item), "file, key, value, allowed"


def test_unreadable_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        config.load(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ConfigError, match="not UTF-8"):
        config.load(tmp_path / "binary.yaml")


@pytest.mark.parametrize("options", ["5", "[1]"])
def test_options_are_refused_for_an_engine_without_options(options: str) -> None:
    with pytest.raises(ConfigError, match=r"vms\.a\.engine\.options is .*; allowed: nothing, the engine null has"):
        config.parse(f"vms: {{a: {{engine: {{kind: 'null', options: {options}}}}}}}")


@pytest.mark.parametrize(
    ("written", "meant"), [("auto", "auto"), ("off", "off"), ("'off'", "off"), ("/opt/x", "/opt/x")]
)
def test_folder_of_libraries(written: str, meant: str) -> None:
    parsed = config.parse(f"vms: {{a: {{engine: {{kind: cpu, options: {{cccl: {written}}}}}}}}}")
    assert parsed.vms[0].engine.options == {"cccl": meant}


@pytest.mark.parametrize("prefix", ["GPU", "MIG"])
def test_uuid_of_a_device_is_kept_as_nvidia_writes_it(prefix: str) -> None:
    """The driver knows no other form."""
    uuid = "12345678-1234-1234-1234-123456789abc"
    parsed = config.parse(f"vms: {{a: {{engine: 'cuda:{prefix.lower()}-{uuid}'}}}}")
    assert parsed.vms[0].engine.options == {"device": f"{prefix}-{uuid}"}
