"""The `control` section of the configuration: its meaning, and the error for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from vhost_backend.config import daemon as config
from vhost_backend.config.control import _KEYS, ControlConfig, PolicyConfig
from vhost_backend.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "docs" / "vgcd.example.yaml"
TLS = "tls: {certificate: /c, key: /k}"


def control(text: str) -> ControlConfig:
    return config.parse(f"vms: {{a: }}\ncontrol: {{{text}}}").control


def test_without_the_section_nothing_is_on() -> None:
    assert not config.parse("vms: {a: }").control.is_on
    assert not control("").is_on
    assert control("socket: /run/c").is_on
    assert control(f"listen: 'h:1', tokens: /t, {TLS}").is_on


def test_example_shows_every_key() -> None:
    text = EXAMPLE.read_text().partition("\ncontrol:")[2]
    for key in (*_KEYS, "selector", "kinds", "trigger", "count", "window", "action", "target"):
        assert f"{key}:" in text
    policies = config.load(EXAMPLE).control.policies
    assert [policy.name for policy in policies] == ["tell", "stop-what-faults-on", "fewer-elements-for-what-deadlocks"]


def test_policy_has_units_and_defaults() -> None:
    (policy,) = control("policies: [{name: p, window: 2m, kinds: [hung, hung], selector: 'pe=0-3|8'}]").policies
    assert policy == PolicyConfig("p", "pe=0-3|8", ("hung",), window_s=120)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("socket: run/c", "control.socket is 'run/c'; allowed: an absolute path"),
        ("listen: here", "control.listen is 'here'; allowed: an address and a port such as"),
        (f"listen: 'h:70000', tokens: /t, {TLS}", "control.listen is 'h:70000'"),
        ("listen: 'h:1', tokens: /t", "control.listen is there without control.tls"),
        (f"listen: 'h:1', {TLS}", "without tokens and tls.clients"),
        ("policies: [{name: a, kinds: [kernel, kernl]}]", "control.policies.0.kinds.1 is 'kernl'; allowed: kernel"),
        ("tls: {certificate: /c}", "control.tls lacks key; allowed: both of certificate and key"),
        ("tls: {certificate: /c, key: /k, clients: {a: view}}", "clients is there without client_ca"),
        ("tls: {certificate: /c, key: /k, client_ca: /a}", "control.tls.client_ca is there without clients"),
        ("tls: {certificate: /c, key: /k, client_ca: /a, clients: {a: root}}", "control.tls.clients.a is 'root'"),
        ("channels: 16384", "control.channels is 16384; allowed: an integer of 1 to 16383"),
        ("memory: 3M", "control.memory is '3M'; allowed: a power of two"),
        ("budget_percent: 0", "control.budget_percent is 0; allowed: a number of 0.01 to 100"),
        ("host: 'a b'", "control.host is 'a b'"),
        ("hung_after: 1ms", "control.hung_after is '1ms'"),
        ("firmware_keys: /k", "control.firmware_keys is '/k'; allowed: a list of absolute paths"),
        ("policies: [{action: alert}]", "control.policies.0 lacks name"),
        ("policies: [{name: p}, {name: p}]", "control.policies.1.name is 'p' again; allowed: each name once"),
        ("policies: [{name: p, kinds: hung}]", "control.policies.0.kinds is 'hung'; allowed: a list of kernel"),
        ("policies: [{name: p, selector: 'pe=x'}]", "control.policies.0.selector: selector 'pe=x'"),
        ("policies: [{name: p, action: pray}]", "control.policies.0.action is 'pray'; allowed: alert or quiesce"),
        (
            "policies: [{name: p, action: migrate, kinds: [hung, kernel]}]",
            "control.policies.0: action is migrate, which never works for the kinds hung, kernel; allowed: with one of assert,",
        ),
        ("policies: [{name: p, action: migrate, kinds: [device]}]", "never works for the kinds device; allowed:"),
        (
            "policies: [{name: p, action: migrate, target: '1'}]",
            "control.policies.0: target is '1', a GPU: VMs on the engine cuda cannot be migrated yet",
        ),
        (
            "policies: [{name: p, action: migrate, selector: gpu=1}]",
            "control.policies.0: selector is 'gpu=1', and action is migrate: VMs on the engine cuda cannot be migrated yet",
        ),
        ("policies: [{name: p, action: migrate, target: 'pes:3-1'}]", "target is 'pes:3-1'; allowed: pes: and numbers"),
        ("policies: [{name: p, target: 'pes:0'}]", "target is 'pes:0'; allowed: with the action migrate"),
        ("colour: red", "control.colour is not a key; allowed: socket, listen, tls"),
    ],
)
def test_mistake_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        control(text)
    assert words in str(caught.value)
    assert "config:2: " in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "selector", "allowed"),
    [
        ("cuda", "", False),
        ("cuda:1", "vm=a", False),
        ("cuda", "vm=b", True),
        ("cuda", "gpu=cpu", True),
        ("cpu", "", True),
        ("auto", "", True),  # what it becomes is not known yet
    ],
)
def test_policy_that_is_to_migrate_a_vm_on_a_gpu_is_refused(engine: str, selector: str, allowed: bool) -> None:
    text = (
        f"vms: {{a: {{engine: '{engine}', socket: /a}}, b: {{engine: cpu, socket: /b}}}}\n"
        f"control: {{policies: [{{name: p, action: migrate, selector: '{selector}'}}]}}"
    )
    if allowed:
        assert config.parse(text).control.policies[0].action == "migrate"
        return
    refused = r"p is to migrate vms\.a: VMs on the engine cuda cannot be migrated yet"
    with pytest.raises(ConfigError, match=refused):
        config.parse(text)
    without = config.parse(f"vms: {{}}\n{text.splitlines()[1]}")
    with pytest.raises(ConfigError, match=refused):
        config.with_vms(without, {"a": {"engine": engine, "socket": "/a"}}, "added VMs")


@pytest.mark.parametrize(
    "text",
    [
        "listen: 'h:1', tokens: /t, tls: {certificate: c, key: /k}",
        "listen: 'h:1', tokens: t, tls: {certificate: /c, key: /k}",
        "listen: 'h:1', tokens: /t, tls: 3",
    ],
)
def test_mistake_is_named_once(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        control(text)
    assert len(caught.value.problems) == 1
