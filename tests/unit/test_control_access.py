"""Access to the control API: tokens, roles, VMs, certificates."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from control_center import answers
from tests.fakes.api_client import ApiRefusedError, Client
from tests.fakes.control_vm import text
from tests.unit.registry_rig import Rig, rig
from vhost_backend import cli
from vhost_backend.control.api.access import Peer, Tokens
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.errors import ConfigError
from virtio_proto.control import frames
from virtio_proto.control import tokens as token_lines
from virtio_proto.control.api import API_VERSION, ROLES, Role
from virtio_proto.control.server_settings import TlsConfig
from virtio_proto.control.verbs import VERBS

NS_PER_DAY = 86_400_000_000_000


def token_file(folder: Path, *tokens: token_lines.Token) -> Path:
    path = folder / "tokens"
    path.write_text("# tokens of the tests\n\n" + "\n".join(token.line() for token in tokens))
    return path


def tell(folder: Path, story: Callable[[Rig], Awaitable[None]], tokens: Path | None = None) -> None:
    async def told() -> None:
        async with rig(folder, tokens=tokens) as made:
            await story(made)

    asyncio.run(told())


# ---- tokens --------------------------------------------------------------------------------------


def test_token_has_role_vms_and_expiry_of_its_line(tmp_path: Path) -> None:
    secret, token = token_lines.new("operate", frozenset({"web1", "web2"}), 2_000_000_000_000_000_000, "ann")
    tokens = Tokens(token_file(tmp_path, token), lambda: 1)
    assert tokens.peer(secret) == Peer("ann", "operate", frozenset({"web1", "web2"}))
    assert secret not in token.line()


def test_unknown_token_is_denied(tmp_path: Path) -> None:
    _, token = token_lines.new("view", None, None, "ann")
    with pytest.raises(RefusedError, match="unknown to this host") as caught:
        Tokens(token_file(tmp_path, token), lambda: 1).peer("vgc_other")
    assert caught.value.kind == "denied"


def test_expired_token_is_denied_from_the_moment_on(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", None, 5_000_000_000, "ann")
    now_ns = [4_999_999_999]
    tokens = Tokens(token_file(tmp_path, token), lambda: now_ns[0])
    tokens.peer(secret)
    now_ns[0] = 5_000_000_000
    with pytest.raises(RefusedError, match="token ann has expired"):
        tokens.peer(secret)


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    first, token = token_lines.new("view", None, None, "ann")
    path = token_file(tmp_path, token)
    tokens = Tokens(path, lambda: 1)
    tokens.peer(first)
    second, other = token_lines.new("admin", None, None, "bob")
    path.write_text(other.line())
    os.utime(path, ns=(1, 1))
    assert tokens.peer(second).role == "admin"
    with pytest.raises(RefusedError, match="unknown"):
        tokens.peer(first)


def test_damaged_token_file_lets_nobody_in(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", None, None, "ann")
    path = token_file(tmp_path, token)
    tokens = Tokens(path, lambda: 1)
    tokens.peer(secret)
    path.write_text("nonsense")
    with pytest.raises(RefusedError, match="cannot be read"):
        tokens.peer(secret)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("md5:00 role=view", "allowed: sha256: and 64 hexadecimal digits"),
        ("{h} role=root", "allowed: view, operate, admin"),
        ("{h}", "role=''"),
        ("{h} role=view role=admin", "each of role, vms, expires, name once"),
        ("{h} role=view vms=", "allowed: names of VMs, as a|b"),
        ("{h} role=view vms=h1/web1", "allowed: names of VMs, as a|b"),
        ("{h} role=view expires=soon", "allowed: a time such as"),
        ("{h} role=view expires=2026-01-01T00:00:00", "with its zone"),
        ("{h} role=view colour=red", "'colour=red'; allowed"),
    ],
)
def test_wrong_line_is_named(line: str, words: str) -> None:
    with pytest.raises(token_lines.TokenError) as caught:
        token_lines.parse(line.replace("{h}", f"sha256:{'0' * 64}"), "tokens", with_hosts=False)
    assert "tokens:1: " in str(caught.value)
    assert words in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        token_lines.parse(text, "tokens")
    except token_lines.TokenError as error:
        assert "allowed:" in str(error)  # noqa: PT017  one of the two must be


def test_command_makes_a_token_that_the_file_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    arguments = ["token", "new", "--role", "view", "--vm", "web1", "--expires", "30d", "--append-to", str(path)]
    assert cli.main(arguments) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = capsys.readouterr().out.strip()
    assert Tokens(path, lambda: 1).peer(secret) == Peer("token", "view", frozenset({"web1"}))


@pytest.mark.parametrize("expires", ["0d", "soon", "3w"])
def test_command_refuses_an_invalid_time(expires: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["token", "new", "--role", "view", "--expires", expires]) == 2
    assert f"--expires is {expires!r}; allowed: a time such as" in capsys.readouterr().err


# ---- roles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(VERBS))
@pytest.mark.parametrize("role", ROLES)
def test_verb_takes_its_role(name: str, role: Role) -> None:
    verb = VERBS[name]
    allowed = ROLES.index(role) >= ROLES.index(verb.role)
    try:
        Peer("ann", role).may(verb)
    except RefusedError as error:
        assert not allowed
        assert f"{name} takes the role {verb.role}; ann has {role}" in str(error)  # noqa: PT017
    else:
        assert allowed


def test_denied_command_is_announced(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", None, None, "ann")

    async def story(rig: Rig) -> None:
        admin = await rig.client()
        await admin.ask("subscribe", events=True)
        viewer = await rig.client(secret)
        assert (await viewer.refusal("open", selector="fn=stdio")).kind == "denied"
        detail = (await admin.event("command"))["detail"]
        assert (detail["verb"], detail["by"], detail["role"]) == ("open", "ann", "view")
        assert detail["result"].startswith("denied: open takes the role operate")

    tell(tmp_path, story, token_file(tmp_path, token))


@pytest.mark.parametrize("values", [{b"x": 1}, {"k" * 60_000: 1}, {"vm": "a\0"}, {"vm": "a" * 300}])
def test_event_about_a_malformed_command_suits_its_subscribers(tmp_path: Path, values: dict[Any, Any]) -> None:
    secret, token = token_lines.new("view", None, None, "ann")

    async def story(rig: Rig) -> None:
        admin = await rig.client()
        await admin.ask("subscribe", events=True)
        viewer = await rig.client(secret)
        viewer.send({"id": 7, "do": "open", "with": values})
        assert (await viewer.read())["error"]["kind"] == "denied"
        event = await admin.event("command")
        assert (
            answers.push_of(event["push"], frames.encode(event)[4:]) == event
        )  # else a control centre would hang up on the daemon
        assert len(str(event)) < 2000

    tell(tmp_path, story, token_file(tmp_path, token))


# ---- a VM's owner sees that VM only --------------------------------------------------------------


def test_owner_of_a_vm_sees_nothing_of_others(tmp_path: Path) -> None:
    secret, token = token_lines.new("operate", frozenset({"web1"}), None, "owner")

    async def story(rig: Rig) -> None:
        admin, owner = await rig.client(), await rig.client(secret)
        await owner.ask("subscribe", events=True)
        foreign = (await admin.ask("open", selector="vm=web2,fn=stdio"))["instance"]
        wide = (await admin.ask("open", selector="fn=log"))["instance"]
        own = await owner.ask("open", selector="fn=stdio")
        assert {channel["vm"] for channel in own["channels"]} == {"web1"}
        assert [vm["vm"] for vm in (await owner.ask("topology"))["vms"]] == ["web1"]
        assert [item["instance"] for item in (await owner.ask("ls"))["instances"]] == [own["instance"]]
        for verb, fields in (
            ("close", {"instance": foreign}),
            ("close", {"instance": wide}),
            ("set", {"instance": foreign, "level": 1}),
            ("send", {"instance": foreign, "data": b"x"}),
            ("subscribe", {"records": [foreign]}),
            ("open", {"selector": "vm=web2,fn=stdio"}),
            ("snapshot", {"selector": "vm=web2"}),
            ("migrate", {"vm": "web2"}),
            ("confine", {"vm": "web2", "pes": "0"}),
            ("reset_worker", {"vm": "web2"}),
            ("quiesce", {"vm": "web2"}),
        ):
            error = await owner.refusal(verb, **fields)
            assert error.kind == "unknown", verb
            assert "web2" not in str(error).partition("there is")[2], verb
        rig.vms["web2"].channels.lose("secret reason")
        rig.vms["web1"].channels.lose("own reason")
        lost = await owner.event("worker_lost")
        assert (lost["vm"], lost["detail"]["reason"]) == ("web1", "own reason")
        assert not [push for push in owner.pushes if push.get("vm") not in ("web1", None)]

    tell(tmp_path, story, token_file(tmp_path, token))


def test_records_of_another_vm_do_not_reach_an_owner(tmp_path: Path) -> None:
    secret, token = token_lines.new("operate", frozenset({"web1"}), None, "owner")

    async def story(rig: Rig) -> None:
        owner = await rig.client(secret)
        instance = (await owner.ask("open", selector="fn=stdio"))["instance"]
        await owner.ask("subscribe", records=[instance])
        admin = await rig.client()
        await admin.ask("open", selector="fn=stdio")
        rig.vms["web2"].channels.emit(0, text(0, "private"))
        rig.vms["web1"].channels.emit(0, text(0, "own"))
        assert (await owner.push("records"))["vm"] == "web1"

    tell(tmp_path, story, token_file(tmp_path, token))


def test_balance_policies_and_reloads_need_access_to_all_vms(tmp_path: Path) -> None:
    secret, token = token_lines.new("admin", frozenset({"web1"}), None, "owner")

    async def story(rig: Rig) -> None:
        owner = await rig.client(secret)
        assert (await owner.refusal("balance")).kind == "denied"
        assert (await owner.refusal("set_policies", policies=[])).kind == "denied"
        assert (await owner.refusal("reload_vms")).kind == "denied"
        assert (await owner.refusal("add_vm", vm="web3", socket="/run/3")).kind == "denied"

    tell(tmp_path, story, token_file(tmp_path, token))


# ---- the sockets ---------------------------------------------------------------------------------


def test_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    async def story(rig: Rig) -> None:
        assert stat.S_IMODE(rig.path.stat().st_mode) == 0o600
        client = await rig.client()
        assert (await client.ask("topology"))["host"] == "h1"

    tell(tmp_path, story)


def test_token_narrows_what_the_socket_allows(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", None, None, "ann")

    async def story(rig: Rig) -> None:
        client = await rig.client(secret)
        assert (await client.refusal("reset_worker", vm="web1")).kind == "denied"

    tell(tmp_path, story, token_file(tmp_path, token))


class Authority:
    """A certificate authority for one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed("test CA", self._key.public_key(), ca=True)
        self.path = self._write("ca.crt", self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate = self._signed(name, key.public_key(), ca=False)
        encoded = certificate.public_bytes(serialization.Encoding.PEM)
        return self._write(f"{name}.crt", encoded), self._write(f"{name}.key", pem)

    def _signed(self, name: str, key: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, data: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(data)
        return path


async def connect(port: int, ca: Path, own: tuple[Path, Path] | None = None) -> Client:
    context = ssl.create_default_context(cafile=str(ca))
    if own is not None:
        context.load_cert_chain(*own)
    return Client(*await asyncio.open_connection("localhost", port, ssl=context))


def test_tls_peers_are_known_by_token_or_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    tls = TlsConfig(certificate, key, authority.path, {"centre": "operate"})
    secret, token = token_lines.new("view", None, None, "ann")

    async def told() -> None:
        config = {"listen": ("localhost", 0), "tls": tls, "tokens": token_file(tmp_path, token)}
        async with rig(tmp_path, **config) as made:
            port = made.system.server.port
            by_token = await connect(port, authority.path)
            assert (await by_token.ask("hello", version=API_VERSION, token=secret))["role"] == "view"
            by_name = await connect(port, authority.path, authority.issue("centre"))
            assert (await by_name.ask("hello", version=API_VERSION))["role"] == "operate"
            stranger = await connect(port, authority.path, authority.issue("stranger"))
            assert "the certificate of 'stranger' has no role here" in str(
                await stranger.refusal("hello", version=API_VERSION)
            )
            nobody = await connect(port, authority.path)
            assert "neither token nor certificate" in str(await nobody.refusal("hello", version=API_VERSION))
            for client in (by_token, by_name, stranger, nobody):
                client.writer.close()

    asyncio.run(told())


def test_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not a certificate")

    async def told() -> None:
        async with rig(tmp_path, listen=("localhost", 0), tls=TlsConfig(wrong, wrong)):
            pass

    with pytest.raises(
        ConfigError, match=r"control.tls: certificate or key of .*wrong.pem: .*allowed: readable PEM files"
    ):
        asyncio.run(told())


def test_another_version_is_refused(tmp_path: Path) -> None:
    async def story(rig: Rig) -> None:
        client = await rig.raw()
        with pytest.raises(ApiRefusedError, match=f"version is 9; allowed: {API_VERSION}"):
            await client.ask("hello", version=9)

    tell(tmp_path, story)
