"""Proxies of the environment, and what of it must not touch a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from personalab.errors import ProviderError
from personalab.providers.connections import proxy_for
from tests.integration.providers.raw_server import raw_server, whole
from tests.support.providers import asking
from tests.support.providers.asking import KEY, listen, model_at

pytestmark = pytest.mark.anyio

ELSEWHERE = "http://model.test/v1"
"""A server that is reached only through a proxy."""
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(params=["wire", "langchain"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the servers by our own reader and through LangChain."""
    monkeypatch.setattr(asking, "WAY", request.param)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("HTTP_PROXY", "http://127.0.0.1:{port}"),
        ("http_proxy", "http://127.0.0.1:{port}"),
        ("ALL_PROXY", "http://127.0.0.1:{port}"),
        ("all_proxy", "http://127.0.0.1:{port}"),
        ("HTTP_PROXY", "127.0.0.1:{port}"),
        ("HTTP_PROXY", "http://127.0.0.1:{port}/"),
    ],
)
async def test_request_goes_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str, address: str
) -> None:
    async with raw_server(whole("through")) as proxy:
        monkeypatch.setenv(variable, address.format(port=proxy.port))
        assert (await listen(model_at(ELSEWHERE, max_tries=1))).text == "through"
        assert proxy.heads[0].startswith(b"POST http://model.test/v1/chat/completions ")


@pytest.mark.usefixtures("both_ways")
async def test_proxy_gets_its_own_password_and_the_server_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(whole("through")) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://user:pa%40ss@127.0.0.1:{proxy.port}")
        assert (await listen(model_at(ELSEWHERE, max_tries=1))).text == "through"
        head = proxy.heads[0].lower()
        assert b"\r\nproxy-authorization: basic dxnlcjpwyubzcw==\r\n" in head
        assert f"\r\nauthorization: bearer {KEY}\r\n".encode() in head


@pytest.mark.usefixtures("both_ways")
async def test_proxy_that_is_set_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(whole("through")) as proxy:
        assert (await listen(model_at(ELSEWHERE, max_tries=1))).code == "provider.connection"
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert (await listen(model_at(ELSEWHERE, max_tries=1))).text == "through"


@pytest.mark.usefixtures("both_ways")
async def test_exceptions_are_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(whole("through")) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "example.org,model.test")
        assert (await listen(model_at(ELSEWHERE, max_tries=1))).code == "provider.connection"
        assert proxy.heads == []


@pytest.mark.parametrize("kind", ["socks5", "socks5h", "socks4", "ftp"])
@pytest.mark.parametrize("variable", ["ALL_PROXY", "HTTP_PROXY"])
async def test_proxy_of_another_kind_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, kind: str
) -> None:
    monkeypatch.setenv(variable, f"{kind}://user:hidden@127.0.0.1:9")
    heard = await listen(model_at(ELSEWHERE))
    assert heard.code == "provider.proxy"
    assert heard.error is not None
    for said in (heard.error.message("en"), heard.error.message("zh")):
        assert kind in said
        assert "hidden" not in said


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("entry", ["machine model.test", "default"])
async def test_netrc_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entry: str) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"{entry} login someone password other\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    async with raw_server(whole("through")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert (await listen(model_at(ELSEWHERE, max_tries=1))).text == "through"
        assert f"\r\nauthorization: bearer {KEY}\r\n".encode() in proxy.heads[0].lower()


@pytest.mark.parametrize(
    ("url", "exceptions", "is_used"),
    [
        ("https://api.test/v1", "", True),
        ("https://api.test/v1", "*", False),
        ("https://api.test/v1", "other.test, *", False),
        ("https://api.test/v1", "API.test", False),
        ("https://api.test/v1", "test", False),
        ("https://api.test/v1", ".test", False),
        ("https://api.test/v1", "*.test", False),
        ("https://myapi.test/v1", "api.test", True),
        ("https://api.test:8443/v1", "api.test:8443", False),
        ("https://api.test:8443/v1", "api.test:443", True),
        ("https://10.1.2.3/v1", "10.1.2.3", False),
        ("https://10.1.2.3/v1", "10.1.2.30", True),
        ("https://[fe80::1]:8443/v1", "fe80::1", False),
        ("https://[fe80::1]:8443/v1", "[fe80::1]", False),
        ("https://localhost/v1", "", False),
        ("https://127.0.0.1:1/v1", "", False),
        ("https://[::1]/v1", "", False),
    ],
)
def test_exceptions_of_every_form(url: str, exceptions: str, is_used: bool) -> None:
    proxies = {"all": "http://proxy.test:3128", "no": exceptions}
    assert proxy_for(url, proxies) == ("http://proxy.test:3128" if is_used else None)


def test_proxy_of_the_scheme_comes_before_that_of_all() -> None:
    proxies = {"all": "http://a.test", "https": "https://b.test"}
    assert proxy_for("https://api.test", proxies) == "https://b.test"
    assert proxy_for("http://api.test", proxies) == "http://a.test"


def test_proxy_that_is_not_needed_may_be_of_any_kind() -> None:
    assert proxy_for("http://127.0.0.1:1/v1", {"all": "socks5://a.test"}) is None
    assert proxy_for("http://api.test/v1", {"https": "socks5://a.test"}) is None
    with pytest.raises(ProviderError):
        proxy_for("https://api.test/v1", {"https": "socks5://a.test"})
