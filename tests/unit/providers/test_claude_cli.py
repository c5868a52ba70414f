"""Tests of the ``claude`` adapter: arguments, answers and failures."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.errors import StorageError, UserError
from personalab.lab.calling import Call, CallAnswer
from personalab.providers.claude_cli import ClaudeCli, answer_left, is_running, read_result
from personalab.texts import say
from tests.support.providers.fake_cli import FakeCli, install, question

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def fake(tmp_path: Path) -> FakeCli:
    return install(tmp_path / "fake")


# --- answers


def test_an_answer_has_its_text_its_costs_and_its_origin(fake: FakeCli) -> None:
    fake.rules({"reply": "The sea rises and falls."})
    answer = fake.run(question())
    assert (answer.status, answer.text, answer.error) == ("ok", "The sea rises and falls.", None)
    assert (answer.executor, answer.cli_version) == ("claude-cli", "0.0.0-fake")
    assert answer.model_version == "fake:opus"
    assert answer.usage == {"input_tokens": 8, "output_tokens": 6, "cached_tokens": 0}
    assert answer.cost_usd == 0
    assert CallAnswer.read(json.loads(json.dumps(answer.fields()))) == answer


def test_the_program_gets_the_skill_the_input_and_no_sign_that_it_is_inside_another(
    fake: FakeCli, tmp_path: Path
) -> None:
    content = tmp_path / "content.txt"
    content.write_bytes(b"Be brief.\r\n")
    fake.run(question("--model=x", system_file=str(content)))
    (called,) = fake.calls()
    assert called["system"] == hashlib.sha256(content.read_bytes()).hexdigest()
    assert called["stdin"] == hashlib.sha256(b"--model=x").hexdigest()
    assert called["inside"] is False
    assert f"--system-prompt-file={content}" in called["argv"]


@pytest.mark.parametrize(
    "model", ["-p", "--dangerously-skip-permissions", "--model=x", "= ", "模型", "a'b\"c$(d)", ""]
)
def test_a_model_of_any_name_is_a_name_and_no_flag(fake: FakeCli, model: str) -> None:
    answer = fake.run(question(model=model))
    assert answer.status == "ok"
    assert answer.model_version == f"fake:{model or 'fake-claude'}"


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=60).filter(str.strip))
def test_any_input_arrives_as_it_is(fake: FakeCli, text: str) -> None:
    before = len(fake.calls())
    call = question(text, call_id=f"call_{before}", system=text)
    answer = fake.run(call)
    called = fake.calls()[before]
    assert called["stdin"] == called["system"] == hashlib.sha256(text.encode("utf-8")).hexdigest()
    assert answer.status == "ok"


@pytest.mark.parametrize("text", ["\0", "a\0b", "-p", "--help", "\ud83d\ude00 \udc00", "x" * 3_000_000])
def test_odd_input_arrives(fake: FakeCli, text: str) -> None:
    assert fake.run(question(text)).status == "ok"
    formed = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
    assert fake.calls()[0]["stdin"] == hashlib.sha256(formed).hexdigest()


def test_a_structured_answer_comes_as_an_object(fake: FakeCli) -> None:
    fake.rules({"structured": {"tags": ["a\ud800b", "港"]}})
    schema = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}
    answer = fake.run(question(schema=schema))
    assert answer.structured == {"tags": ["a\ufffdb", "港"]}


def test_a_structure_that_is_only_in_the_text_is_found_and_none_is_no_failure(
    fake: FakeCli,
) -> None:
    fake.rules(
        {"match": "one", "garbage": '{"type":"result","subtype":"success","result":"So: {\\"a\\": 1}"}'},
        {"match": "two", "garbage": '{"type":"result","subtype":"success","result":"no"}'},
    )
    assert fake.run(question("one", call_id="one", schema={})).structured == {"a": 1}
    answer = fake.run(question("two", call_id="two", schema={}))
    assert (answer.status, answer.structured, answer.text) == ("ok", None, "no")


@pytest.mark.parametrize("rule", [{"noise": "Update available!"}, {"pretty": True}, {"list": True}])
@pytest.mark.parametrize("more", [{}, {"noise": '{"type":"log"}\n[1]'}])
def test_a_result_is_found_among_other_lines_and_in_every_form(
    fake: FakeCli, rule: dict[str, Any], more: dict[str, Any]
) -> None:
    fake.rules({"reply": "found", **rule, **more})
    assert fake.run(question()).text == "found"


@given(raw=st.binary(max_size=80), cut=st.integers(0, 200))
def test_what_is_no_whole_result_is_none(raw: bytes, cut: int) -> None:
    whole = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "…"}).encode()
    assert read_result(raw) is None
    if cut < len(whole):
        assert read_result(whole[:cut]) is None
    assert read_result(b"noise\n" + whole + b"\nnoise {") is not None


def test_deep_and_endless_json_is_no_result() -> None:
    assert read_result(b"[" * 200_000) is None
    assert read_result(b"[\n" * 200_000) is None
    assert read_result(b'{"type":"result","structured_output":NaN}') == {
        "type": "result",
        "structured_output": None,
    }


# --- failures


@pytest.mark.parametrize(
    ("rule", "code", "retryable"),
    [
        ({"status": 429}, "provider.cli_busy", True),
        ({"status": 529}, "provider.cli_busy", True),
        ({"status": 500}, "provider.server", True),
        ({"status": 408}, "provider.server", True),
        ({"status": 400}, "provider.refused", False),
        ({"status": 401}, "provider.cli_login", False),
        ({"status": 403}, "provider.cli_login", False),
        ({"status": 404}, "provider.refused", False),
        ({"is_error": "API Error: 503 no server left"}, "provider.server", True),
        ({"is_error": "Invalid API key · Please run /login"}, "provider.cli_login", False),
        ({"is_error": "Connection error."}, "provider.mid_stream", True),
        ({"is_error": "The moon is full"}, "provider.failed", False),
        ({"subtype": "error_max_turns"}, "provider.cli_stopped", False),
        ({"subtype": "error_max_budget_usd"}, "provider.cli_stopped", False),
        ({"subtype": "error_max_structured_output_retries"}, "provider.cli_stopped", False),
        ({"subtype": "error_during_execution"}, "provider.cli_stopped", False),
        ({"subtype": "error_during_execution", "status": 529}, "provider.cli_busy", True),
        ({"garbage": "Segmentation fault"}, "provider.cli_garbage", True),
        ({"garbage": ""}, "provider.cli_garbage", True),
        ({"garbage": '{"type":"result","subty'}, "provider.cli_garbage", True),
        ({"exit": 3}, "provider.cli_crashed", True),
        ({"signal": 9}, "provider.cli_crashed", True),
        ({"stderr": "API Error: 529", "exit": 1}, "provider.cli_busy", True),
        ({"stderr": "env: node: No such file or directory", "exit": 127}, "provider.cli_missing", False),
        ({"exit": 2}, "provider.cli_crashed", True),
        ({"stderr": "segfault in worker", "exit": 2}, "provider.cli_crashed", True),
        ({"stderr": "error: unknown option '--x'", "exit": 2}, "provider.cli_usage", False),
        ({"stderr": "it said: unknown option", "exit": 1}, "provider.cli_crashed", True),
        ({"stderr": "Invalid API key · Please run /login", "exit": 1}, "provider.cli_login", False),
        ({"is_error": "The page /login says that the user is unauthorized"}, "provider.failed", False),
        ({"is_error": "OAuth token has expired"}, "provider.cli_login", False),
        ({"is_error": "API Error: 401 authentication_error"}, "provider.cli_login", False),
    ],
)
def test_a_failure_says_what_it_is_and_whether_another_try_may_help(
    fake: FakeCli, rule: dict[str, Any], code: str, retryable: bool
) -> None:
    fake.rules(rule)
    answer = fake.run(question())
    assert (answer.status, answer.error_code, answer.retryable) == ("failed", code, retryable)
    assert answer.error
    assert len(answer.error) <= 300
    assert "\n" not in answer.error
    again = fake.run(question())
    assert (again.error_code, again.error_params) == (code, answer.error_params), "until it is forgotten"
    assert answer.error_params is not None
    assert say(code, "en", **answer.error_params)[:299] == answer.error[:299]
    assert len(fake.calls()) == 1


def test_a_flag_the_program_does_not_know_is_told_in_its_words(fake: FakeCli) -> None:
    fake.rules({"stderr": "error: unknown option '--betas'", "exit": 1})
    answer = fake.run(question(extra_flags=("--betas=x",)))
    assert (answer.error_code, answer.retryable) == ("provider.cli_usage", False)
    assert "unknown option '--betas'" in str(answer.error)


def test_the_fourth_try_succeeds_after_three_refusals_for_the_rate(fake: FakeCli) -> None:
    fake.rules({"status": 429, "times": 3}, {"reply": "at last"})
    executor = fake.executor()

    async def tries() -> list[str]:
        said: list[str] = []
        for _ in range(4):
            answer = await executor.run(question(), fake.spool)
            said.append(answer.text if answer.status == "ok" else str(answer.error_code))
            executor.forget(fake.spool, "call_1")
        return said

    assert asyncio.run(tries()) == ["provider.cli_busy"] * 3 + ["at last"]


def test_a_limit_that_says_when_it_ends_says_how_long_to_wait(fake: FakeCli) -> None:
    fake.rules({"is_error": f"Claude AI usage limit reached|{int(time.time()) + 900}"})
    answer = fake.run(question())
    assert answer.retryable
    assert answer.retry_after is not None
    assert 600 < answer.retry_after <= 900


def test_secrets_are_not_told(fake: FakeCli) -> None:
    fake.rules({"stderr": "key is verysecretvalue and sk-ant-abcdef", "exit": 1})
    environment = {**fake.environment, "MY_API_KEY": "verysecretvalue"}
    executor = ClaudeCli(str(fake.path), environment=environment)
    answer = asyncio.run(executor.run(question(), fake.spool))
    assert "key is ***" in str(answer.error)
    assert "secret" not in str(answer.error)
    assert "sk-ant" not in str(answer.error)


@pytest.mark.parametrize("how", ["missing", "not_executable", "a_folder", "no_program", "no_interpreter"])
def test_a_program_that_cannot_be_run_is_named_with_the_remedy(tmp_path: Path, how: str) -> None:
    path = tmp_path / "claude"
    if how == "a_folder":
        path.mkdir()
    elif how != "missing":
        path.write_text("#!/no/such/interpreter\n" if how == "no_interpreter" else "\0\1", encoding="utf-8")
        path.chmod(0o644 if how == "not_executable" else 0o755)
    for environment in (dict(os.environ), {"PATH": "/usr/bin:/bin"}):
        executor = ClaudeCli(str(path), environment=environment)
        answer = asyncio.run(executor.run(question(), tmp_path / "spool"))
        assert (answer.status, answer.error_code, answer.retryable) == (
            "failed",
            "provider.cli_missing",
            False,
        )
        assert "cli_path" in str(answer.error)
        assert list((tmp_path / "spool").iterdir()) == [], "it is tried anew once it has been mended"


def test_what_the_system_cannot_hand_over_is_a_failure(fake: FakeCli) -> None:
    schema = {"description": "x" * 4_000_000}
    answer = fake.run(question(schema=schema))
    assert (answer.error_code, answer.retryable) == ("provider.cli_usage", False)


def test_a_spool_that_cannot_be_written_is_an_error_of_ours(fake: FakeCli) -> None:
    fake.spool.write_text("in the way", encoding="utf-8")
    with pytest.raises(StorageError):
        fake.run(question())


# --- what is asked


@pytest.mark.parametrize("call_id", ["", "../x", "a/b", ".hidden", "a\0", "x" * 121, "a\n", "名"])
def test_a_call_id_that_is_no_file_name_is_refused(call_id: str) -> None:
    with pytest.raises(UserError):
        question(call_id=call_id)


@pytest.mark.parametrize(
    "changes",
    [
        {"text": " \n"},
        {"model": "a\0b"},
        {"model": "a\ud800"},
        {"model": "x" * 201},
        {"timeout_seconds": 0.0},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": float("inf")},
        {"extra_flags": ("-p",)},
    ],
)
def test_a_call_that_cannot_be_made_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        question(**changes)


@given(
    data=st.dictionaries(st.text(max_size=12), st.none() | st.integers() | st.text(max_size=5), max_size=6)
)
def test_an_answer_is_read_or_refused(data: dict[str, object]) -> None:
    with pytest.raises(UserError):
        CallAnswer.read({**data, "status": "perhaps"})
    assert CallAnswer.read({"status": "ok", "structured": data}).structured == data


def test_the_version_is_asked_once(fake: FakeCli) -> None:
    executor = fake.executor()
    assert asyncio.run(executor.version()) == "0.0.0-fake"
    fake.path.unlink()
    assert asyncio.run(executor.version()) == "0.0.0-fake"


def test_a_call_is_a_plain_value() -> None:
    assert question() == Call("call_1", "Answer briefly.", None, "What is a tide?", None, "opus", 30.0)


def test_what_is_left_of_a_call_is_read_without_asking_for_it(fake: FakeCli) -> None:
    assert answer_left(fake.spool, "call_1") is None
    fake.rules({"match": "one", "reply": "found"}, {"match": "two", "exit": 3})
    whole = fake.run(question("one"))
    left = answer_left(fake.spool, "call_1")
    assert left is not None
    assert (left.text, left.cost_usd, left.cli_version) == ("found", whole.cost_usd, "0.0.0-fake")
    fake.run(question("two", call_id="two"))
    failed = answer_left(fake.spool, "two")
    assert failed is not None
    assert failed.error_code == "provider.cli_crashed"
    assert not is_running(fake.spool, "call_1")
    assert len(fake.calls()) == 2
