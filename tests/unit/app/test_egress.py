"""Which addresses jobs may reach."""

import json
import ssl
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.app.egress import (
    admit_of,
    certificates_of,
    check_static,
    egress_of,
    judge_of,
    log_egress,
    make_sender,
    trust_of,
)
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.settings import LoadedSettings, SettingsError, load_settings
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.egress_guard import EgressPolicy, Guard, Route, Trust
from scheduler_service.transport.errors import RefusedTarget
from scheduler_service.transport.service_urls import InvocationDirectory
from tests.certificate import make_certificate, server_context
from tests.manual_clock import ManualClock
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import OK, Stage, TableResolver, repeating


def silent(event: str, /, **keys: object) -> None:
    """A log that nobody reads."""


async def test_no_setting_lets_a_job_call_the_sidecar() -> None:
    """A node's daprd would take it for the node; what else is on loopback is a matter of the settings."""
    loaded = load_settings({}, {"PUNCTUAL_EGRESS__ALLOW": '["127.0.0.0/8", "::1", "localhost"]'})
    known = StaticDirectory(addresses={"daprd": "http://127.0.0.1:3500"})
    sender = make_sender(
        loaded,
        "",
        directory=known,
        system={},
        clock=ManualClock(),
        log=silent,
        room=Room(1 << 20),
        signer=None,
        sidecar=InvocationDirectory(known=known, http_port=3500),
    )
    for host in ("127.0.0.1", "127.9.9.9", "[::1]", "localhost"):
        for port in (3500, 50001, 8001):
            refused = await sender.send(OutboundRequest("GET", f"http://{host}:{port}/v1.0/metadata", ()))
            assert isinstance(refused, Fault)
            assert (refused.kind, "Dapr sidecar" in refused.message) == (FaultKind.EGRESS, True)
    registered = await sender.send(OutboundRequest("GET", "service://daprd/v1.0/metadata", ()))
    assert isinstance(registered, Fault)
    assert registered.kind is FaultKind.EGRESS
    await sender.close()


LOOPBACK = ["127.0.0.1", "::1", "127.9.9.9"]


def opens(loaded: LoadedSettings, addresses: list[str]) -> set[bool]:
    """Whether jobs may reach these addresses."""
    policy = egress_of(loaded)
    return {policy.refuse_address(text, ip_address(text)) is None for text in addresses}


def test_without_configuration_loopback_is_allowed_and_said_first() -> None:
    """`punctual serve` without configuration allows loopback and says so (SPEC section 9)."""
    loaded = load_settings({}, {})
    told: list[tuple[str, dict[str, Any]]] = []
    log_egress(loaded, lambda event, /, **keys: told.append((event, keys)))
    assert opens(loaded, LOOPBACK) == {True}
    assert opens(loaded, ["10.0.0.1", "169.254.169.254"]) == {False}
    [(event, keys)] = told
    assert event == "egress_set"
    assert keys["allow"] == ["127.0.0.0/8", "::1"]
    assert "loopback is allowed" in keys["note"]


def test_a_configuration_without_egress_refuses_loopback(tmp_path: Path) -> None:
    """Loopback and private ranges are refused unless allowed (SPEC section 9)."""
    file = tmp_path / "punctual.toml"
    file.write_text("[server]\nport = 9000\n", encoding="utf-8")
    loaded = load_settings({}, {}, file)
    told: list[dict[str, Any]] = []
    log_egress(loaded, lambda _event, /, **keys: told.append(keys))
    assert opens(loaded, [*LOOPBACK, "10.0.0.1"]) == {False}
    assert told == [{"allow": [], "deny": []}]
    narrow = load_settings({}, {"PUNCTUAL_EGRESS__ALLOW": '["10.0.0.0/8"]'})
    assert opens(narrow, ["10.0.0.1"]) == {True}
    assert opens(narrow, LOOPBACK) == {False}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_only_a_key_vouches_for_an_instance_on_a_private_address(anyio_backend: str) -> None:
    """Addresses of instances may be private only from settings or with a service's key (SPEC section 9)."""
    admit = admit_of(load_settings({}, {}))
    await admit("http://127.0.0.1:9000/base", False)
    await admit("http://93.184.215.14", False)
    keyed = admit_of(load_settings({}, {"PUNCTUAL_SERVER__KEY": "0123456789abcdef"}))
    for private in ("http://10.0.0.1", "http://192.168.0.1:81", "http://169.254.169.254", "http://[fe80::1]"):
        for judge in (admit, keyed):  # that there is a key in the settings vouches for nobody
            with pytest.raises(RefusedTarget):
                await judge(private, False)
    allowed = admit_of(load_settings({}, {"PUNCTUAL_EGRESS__ALLOW": '["10.0.0.0/8"]'}))
    await allowed("http://10.0.0.1", False)
    with pytest.raises(RefusedTarget, match=r"^http://127\.0\.0\.1 is refused: it is loopback; add it"):
        await allowed("http://127.0.0.1", False)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_key_vouches_for_what_is_denied(anyio_backend: str) -> None:
    """`deny` wins, and no form of a refused address has a use (SPEC section 9); settings name their own."""
    deny = '["127.0.0.0/8", "::1", "*.inside.test", "10.0.0.0/8"]'
    loaded = load_settings({}, {"PUNCTUAL_EGRESS__DENY": deny})
    admit = admit_of(loaded)
    await admit("http://192.168.0.1:81", True)
    for refused in ("127.0.0.1:81", "[::1]", "10.1.2.3", "a.inside.test", "[::ffff:10.1.2.3]"):
        with pytest.raises(RefusedTarget, match=r"egress\.deny (covers|names) it"):
            await admit(f"http://{refused}", True)
    for form in ("[::ffff:192.168.0.1]", "[64:ff9b::c0a8:1]"):
        with pytest.raises(RefusedTarget, match="a translated form of a private address"):
            await admit(f"http://{form}", True)
    ports = {3500}
    policy = egress_of(loaded, is_node=True)
    guard = Guard(
        policy=policy, resolver=TableResolver({"a.inside.test": [["1.1.1.1"]], "moved.test": [["::1"]]})
    )
    own = [(f"http://{host}/", Trust.OWN) for host in ("127.0.0.1:3500", "moved.test", "a.inside.test")]
    for url, trust in own:
        assert await guard.admit(Route(read_url(url).site, trust))
        with pytest.raises(RefusedTarget):
            await guard.admit(Route(read_url(url).site, Trust.VOUCHED))
    open_guard = Guard(
        policy=EgressPolicy(allow=[], deny=[], sidecar_ports=ports), resolver=TableResolver({})
    )
    assert await open_guard.admit(Route(read_url("http://127.0.0.1:3501").site, Trust.VOUCHED))
    for place in ("127.0.0.1:3500", "[::1]:50001", "127.9.9.9:8001"):  # at the registration, too
        for is_vouched in (False, True):
            with pytest.raises(RefusedTarget, match="the node's own Dapr sidecar"):
                await admit_of(load_settings({}, {}), is_node=True)(f"http://{place}", is_vouched)
        assert "Dapr sidecar" in str(judge_of(load_settings({}, {}), is_node=True)(f"http://{place}/v1.0"))
    with pytest.raises(RefusedTarget, match="the node's own Dapr sidecar"):
        await open_guard.admit(Route(read_url("http://127.0.0.1:3500").site, Trust.VOUCHED))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_neither_a_key_nor_the_settings_vouch_for_metadata(anyio_backend: str) -> None:
    """Private addresses are theirs to name, link-local ones in no form (SPEC section 9)."""
    admit = admit_of(load_settings({}, {"PUNCTUAL_SERVER__KEY": "0123456789abcdef"}))
    for private in ("http://10.0.0.1", "http://127.0.0.1:81/base", "http://metadata.test"):
        await admit(private, True)
        check_static(load_settings({"services": {"static": {"own": [private]}}}, {}).settings.services)
    for refused in ("http://169.254.169.254", "http://[fe80::1]:81/base", "http://[::ffff:169.254.169.254]"):
        with pytest.raises(RefusedTarget, match="which is always refused"):
            await admit(refused, True)
        services = load_settings({"services": {"static": {"own": ["http://10.0.0.1", refused]}}}, {})
        with pytest.raises(SettingsError, match=r"^services\.static\.own: .* which is always refused"):
            check_static(services.settings.services)


def test_who_vouches_for_a_service() -> None:
    """Whoever is noted to; else the settings for their addresses, and the node for its sidecar's.

    Where nothing is noted, an earlier version registered it: then a key of the settings does.
    """
    static = {"PUNCTUAL_SERVICES__STATIC": '{"oa": ["http://10.0.0.7:8080/base/", "http://oa.test"]}'}
    keyed = load_settings({}, static | {"PUNCTUAL_SERVER__KEY": "0123456789abcdef"})
    for settings in (load_settings({}, static), keyed):
        trust = trust_of(settings, "http://127.0.0.1:3500/v1.0/invoke")
        assert trust("http://10.0.0.7:8080/base", False) is Trust.OWN
        assert trust("http://oa.test", True) is Trust.OWN
        assert trust("http://127.0.0.1:3500/v1.0/invoke/any/method", False) is Trust.OWN
        assert trust("http://rebind.test", True) is Trust.VOUCHED
        assert not trust("http://127.0.0.1:3500/v1.0/state", False)
        assert not trust("http://oa.test:81", False)
        assert trust("http://oa.test:81", None) is (Trust.VOUCHED if settings is keyed else Trust.NONE)
        assert not trust_of(settings)("http://127.0.0.1:3500/v1.0/invoke/any/method", False)


async def test_targets_are_shown_the_certificate_of_the_settings(tmp_path: Path) -> None:
    """To their origin alone, whose authority is trusted there."""
    for name in ("own", "target"):
        (tmp_path / name).mkdir()
    own, target = make_certificate(tmp_path / "own"), make_certificate(tmp_path / "target")
    context = server_context(target)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.path)
    async with AsyncExitStack() as stack:
        server = await Stage(stack).server(repeating(OK), ssl=context)
        origin = f"https://127.0.0.1:{server.port}"
        shown = {"origin": origin, "cert": str(own.path), "key": str(own.key), "ca": str(target.path)}
        for given, kind in (([shown], Answer), ([], Fault)):
            egress = json.dumps({"allow": ["127.0.0.1"], "client_certificates": given})
            sender = make_sender(
                load_settings({}, {"PUNCTUAL_EGRESS": egress}),
                "",
                directory=StaticDirectory(addresses={}),
                system={},
                clock=ManualClock(),
                log=silent,
                room=Room(1 << 20),
                signer=None,
            )
            assert type(await sender.send(OutboundRequest("GET", f"{origin}/", ()))) is kind
            await sender.close()


def test_a_certificate_that_cannot_be_read_ends_the_start() -> None:
    """By the name of the setting, and of the origin."""
    given = '[{"origin": "https://a.test", "cert": "/none/cert.pem", "key": "/none/key.pem"}]'
    loaded = load_settings({}, {"PUNCTUAL_EGRESS__CLIENT_CERTIFICATES": given})
    said = "egress.client_certificates: the certificate for https://a.test cannot be read"
    with pytest.raises(SettingsError, match=said):
        certificates_of(loaded, silent)
