"""Tests of errors and retries with an OpenAI-compatible server."""

from __future__ import annotations

import socket
import time

import pytest

from personalab.providers.chat_models import open_model
from personalab.providers.failures import REASON_LENGTH
from personalab.providers.model_settings import ModelSettings
from tests.support.openai_server import (
    CONTEXT_OVERFLOWS,
    Answer,
    Behaviour,
    Event,
    OpenAIServer,
    cuts_after,
    delta,
    ends_after,
    errs_after,
    garbles_after,
    hangs_after,
    refuses,
    says,
)
from tests.support.providers import asking
from tests.support.providers.asking import KEY, ask, model_at

OVERLOADED = {"message": "overloaded", "type": "server_error", "code": 503}


@pytest.fixture(autouse=True, params=["wire", "langchain"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    """Ask the servers by our own reader and through LangChain."""
    monkeypatch.setattr(asking, "WAY", request.param)


@pytest.mark.parametrize(
    ("behaviour", "code", "retryable"),
    [
        pytest.param(refuses(401), "provider.wrong_key", False, id="401"),
        pytest.param(refuses(403), "provider.wrong_key", False, id="403"),
        pytest.param(refuses(404), "provider.not_found", False, id="404"),
        pytest.param(refuses(400), "provider.refused", False, id="400"),
        pytest.param(refuses(422), "provider.refused", False, id="422"),
        pytest.param(
            refuses(429, {"message": "no money", "type": "insufficient_quota", "code": "insufficient_quota"}),
            "provider.refused",
            False,
            id="quota used up",
        ),
        pytest.param(garbles_after(), "provider.bad_answer", True, id="bad JSON"),
        pytest.param([Event("5")], "provider.bad_answer", True, id="a number for an event"),
        pytest.param(
            [Answer(200, b"<html>Welcome</html>", {}, "text/html")],
            "provider.bad_answer",
            True,
            id="a page for a stream",
        ),
        pytest.param(
            errs_after(error={"message": "bad luck", "code": 400}),
            "provider.mid_stream",
            True,
            id="error event",
        ),
        pytest.param(says("Ha", finish="content_filter"), "provider.filtered", False, id="filter"),
        pytest.param(ends_after(), "provider.bad_answer", True, id="nothing at all"),
        *(
            pytest.param(behaviour, "provider.context_overflow", False, id=f"context overflow: {name}")
            for name, behaviour in CONTEXT_OVERFLOWS.items()
        ),
    ],
)
def test_a_failure_that_another_try_cannot_mend_is_reported_at_once(
    server: OpenAIServer, behaviour: Behaviour, code: str, retryable: bool
) -> None:
    server.script(behaviour, says("never asked for"))
    heard = ask(model_at(server))
    assert heard.code == code
    assert heard.error is not None
    assert heard.error.retryable is retryable
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(refuses(429), id="429"),
        pytest.param(refuses(429, headers={"Retry-After": "0"}), id="429 with Retry-After"),
        pytest.param(refuses(500), id="500"),
        pytest.param(refuses(503), id="503"),
        pytest.param(cuts_after(), id="connection cut"),
        pytest.param(errs_after(error=OVERLOADED), id="overload told in the stream"),
    ],
)
def test_a_passing_failure_is_tried_again_before_the_first_token(
    server: OpenAIServer, behaviour: Behaviour
) -> None:
    server.script(behaviour, behaviour, says("At", " last"))
    heard = ask(model_at(server))
    assert (heard.text, heard.error) == ("At last", None)
    assert len(server.requests) == 3


def test_no_other_try_is_made_once_reasoning_was_shown(server: OpenAIServer) -> None:
    server.script([delta("", reasoning_content="hm"), *cuts_after()], says("never asked for"))
    heard = ask(model_at(server))
    assert (heard.reasoning, heard.text, heard.code) == ("hm", "", "provider.connection")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        pytest.param(refuses(429), "provider.rate_limit", id="429"),
        pytest.param(refuses(500), "provider.server", id="500"),
        pytest.param(cuts_after(), "provider.connection", id="connection cut"),
    ],
)
def test_after_the_last_try_the_failure_is_reported(
    server: OpenAIServer, behaviour: Behaviour, code: str
) -> None:
    server.script(behaviour)
    heard = ask(model_at(server, max_tries=3))
    assert heard.code == code
    assert heard.error is not None
    assert heard.error.retryable
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        pytest.param(cuts_after("Hel", "lo"), "provider.connection", id="connection cut"),
        pytest.param(errs_after("Hel", "lo", error=OVERLOADED), "provider.mid_stream", id="error event"),
        pytest.param(garbles_after("Hel", "lo"), "provider.bad_answer", id="bad JSON"),
        pytest.param(ends_after("Hel", "lo"), "provider.no_finish", id="end without a finish"),
        pytest.param(says("Hel", "lo", finish="content_filter"), "provider.filtered", id="filter"),
    ],
)
def test_after_the_first_token_nothing_is_tried_again(
    server: OpenAIServer, behaviour: Behaviour, code: str
) -> None:
    server.script(behaviour, says("never asked for"))
    heard = ask(model_at(server))
    assert heard.text == "Hello"
    assert heard.code == code
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("pieces", "patience"),
    [((), {"first_token_seconds": 0.2}), (("Hel",), {"stall_seconds": 0.2})],
)
def test_a_silent_server_is_given_up(
    server: OpenAIServer, pieces: tuple[str, ...], patience: dict[str, float]
) -> None:
    server.script(hangs_after(*pieces))
    heard = ask(model_at(server, **patience))
    assert heard.pieces == pieces
    assert heard.code == "provider.stall"
    assert heard.error is not None
    assert "0.2 s" in str(heard.error)
    assert server.client_left.wait(60)
    assert len(server.requests) == 1


def test_retry_after_is_waited_for(server: OpenAIServer) -> None:
    server.script(refuses(429, headers={"Retry-After": "0.3"}), says("Now"))
    started = time.monotonic()
    assert ask(model_at(server)).text == "Now"
    assert time.monotonic() - started >= 0.3


def test_a_server_that_is_not_there_is_a_connection_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        settings = ModelSettings(base_url=f"http://127.0.0.1:{port}/v1", max_tries=2, backoff_seconds=0.01)
        heard = ask(open_model("openai:x", settings=settings))
    assert heard.code == "provider.connection"


@pytest.mark.parametrize(
    "behaviour",
    [
        refuses(400, {"message": f"key {KEY} and Bearer abc.def\nor sk-other-1234 are bad " + "x" * 999}),
        errs_after(error={"message": f"\x1b[31m{KEY} and sk-other-1234; Bearer abc.def " + "x" * 999}),
        garbles_after(),
    ],
)
def test_a_reason_is_one_short_line_without_keys(server: OpenAIServer, behaviour: Behaviour) -> None:
    server.script(behaviour)
    heard = ask(model_at(server))
    assert heard.error is not None
    reason = str(heard.error.params["reason"])
    assert len(reason) <= REASON_LENGTH
    assert reason.isprintable()
    for said in (reason, heard.error.message("zh"), heard.error.message("en")):
        assert KEY not in said
        assert "sk-" not in said
        assert "abc.def" not in said


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_every_failure_can_be_said_in_both_languages(server: OpenAIServer, status: int) -> None:
    server.script(refuses(status))
    error = ask(model_at(server, max_tries=1)).error
    assert error is not None
    for said in (error.message("zh"), error.message("en")):
        assert said
        assert "{" not in said
