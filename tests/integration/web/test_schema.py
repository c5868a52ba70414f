"""Every route answers as its description says, whatever is asked of it within that description and beyond."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from hypothesis.internal.conjecture.utils import many
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from personalab.operations.instances import new_instance
from personalab.services import open_services
from personalab.serving.server import listen
from personalab.settings import read_settings
from tests.support.lab.running import make_project
from tests.support.web.serving import wait_until
from web.app import Limits
from web.joining import whole_app

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("PERSONALAB_TEST_EXAMPLES", "4"))
"""Of each kind, a route: the whole takes less than a minute. ``PERSONALAB_TEST_EXAMPLES`` asks for more."""
SECONDS = 30
"""A stream ends by itself long before."""


NARROWING = ("attempt", "version", "user_id", "format", "before", "after", "offset", "rerun_failed")
"""What may be left out, and made up would name nothing."""
UNLIKELY = {
    "GET /api/characters/{character_id}/picture": "a card with a picture",
    "POST /api/instances/{instance_id}/retry": "a reply that failed",
    "POST /api/instances/{instance_id}/stop": "a reply that is being written",
    "POST /api/instances/{instance_id}/summary/undo": "a summary",
    "POST /api/instances/{instance_id}/persona/undo": "a character that grew",
    "POST /api/import": "a file of a known form",
    "POST /api/memory/undo": "the newest change of a memory",
    "DELETE /api/memory/entries/{content_id}": "an entry that no other call has taken back",
    "GET /api/memory/conversations/{conversation_id}": "a conversation that was learned from",
    "POST /api/lab/tags/approve": "a tag that waits",
    "POST /api/lab/tags/reject": "a tag that waits",
    "POST /api/lab/tags/propose": "an asset, and a kind that fits it",
    "POST /api/lab/projects/{project}/pause": "a run that goes on",
    "POST /api/lab/projects/{project}/skip": "an answer that failed",
    "POST /api/lab/projects/{project}/iteration/stop": "a search that goes on",
}
"""Calls that need more than ids to be answered with success; their own tests show that."""


@dataclass
class _World:
    url: str
    description: dict[str, Any]
    known: dict[str, Any]
    succeeded: set[str] = field(default_factory=set[str])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_World]:
    """A server with a story that was played a little and a project that was run, in a thread of this process."""
    root = tmp_path_factory.mktemp("schema") / "data"
    services = open_services(read_settings({"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "1"}))
    asyncio.run(new_instance(services, "char_alserqi", "bg_wasteland", "inst_001"))
    asyncio.run(make_project(services, cases=1, model="rehearsal"))
    app = whole_app(lambda: services, limits=Limits(calls_a_second=1e9, calls_at_once=10**9))
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server did not start")
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with httpx.Client(base_url=url, timeout=SECONDS) as client:
        yield _World(url, app.openapi(), _prepared(client))
    server.should_exit = True
    thread.join(SECONDS)


def _prepared(client: httpx.Client) -> dict[str, Any]:
    """Make what calls speak of, and tell its ids."""

    def ask(method: str, path: str, **more: Any) -> Any:
        answer = client.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()

    client.get(ask("POST", "/api/instances/inst_001/turns", json={"text": "你好"})["stream"])
    [project] = [row["project"] for row in ask("GET", "/api/lab/projects")["projects"]]
    job = ask("POST", f"/api/lab/projects/{project}/run", json={"confirm": True})
    client.get(job["stream"])
    found = ask("GET", f"/api/lab/projects/{project}/results")
    fact = {"content_type": "profile", "text": "喝茶"}
    made = ask("POST", "/api/memory/entries", params={"agent_id": "char_alserqi"}, json=fact)["change"]
    case = found["cases"][0]
    return {
        "instance_id": "inst_001",
        "session_id": "sess_001",
        "turn": 1,
        "character_id": "char_alserqi",
        "background_id": "bg_wasteland",
        "kind": "character",
        "id": "char_alserqi",
        "agent_id": "char_alserqi",
        "content_id": made["steps"][0]["content_id"],
        "was": "喝茶",
        "job_id": job["job_id"],
        "project": project,
        "skill_id": found["skills"][0]["skill_id"],
        "skill_ids": [found["skills"][0]["skill_id"]],
        "baseline_id": case["baseline_id"],
        "baseline_ids": [case["baseline_id"]],
        "case_id": case["case_id"],
        "values": {"thresholds.summary_last_n_turns": 5},
        "options": {},
        "greeting": None,
    }


def _more(self: Any) -> bool:
    """Go on to the next element, as hypothesis-jsonschema 0.23 still asks; newer hypothesis only has the loop."""
    if not hasattr(self, "going"):
        self.going = iter(self.__enter__())
    for _ in self.going:
        return True
    self.__exit__(None)
    return False


if not hasattr(many, "more"):
    many.more = _more  # pyright: ignore[reportAttributeAccessIssue]


# The server's own thread may draw a random number while a case is made.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_every_route_answers_as_it_is_described(played: _World) -> None:
    """Calls with ids that are there, with ids that are made up, and calls that are wrong."""
    failures: list[str] = []
    described: Any = schemathesis.openapi.from_dict(played.description)
    operations = [found.ok() for found in described.get_all_operations()]
    operations.sort(
        key=lambda operation: operation.label == "DELETE /api/memory"
    )  # what it forgets is needed
    for operation in operations:
        for mode, is_there in (
            (GenerationMode.POSITIVE, True),
            (GenerationMode.POSITIVE, False),
            (GenerationMode.NEGATIVE, True),
        ):
            try:
                cases = operation.as_strategy(generation_mode=mode)
                _try(cases, played, failures, is_there=is_there)
            except Unsatisfiable:
                assert mode is GenerationMode.NEGATIVE  # nothing can be wrong with a call that takes nothing
    assert not failures, "\n\n".join(failures)
    labels = {operation.label for operation in operations}
    assert UNLIKELY.keys() <= labels
    assert labels - played.succeeded <= UNLIKELY.keys()


def _try(cases: st.SearchStrategy[Case], world: _World, failures: list[str], *, is_there: bool) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        phases=[Phase.generate],
    )
    @given(case=cases)
    def call(case: Case) -> None:
        if is_there:
            _name_what_is_there(case, world.known)
        # Kept rather than raised: calls change what is there, so that none can be repeated as it was.
        try:
            answer = case.call_and_validate(base_url=world.url, checks=CHECKS, timeout=SECONDS)
        except FailureGroup as error:
            failures.extend(f"{case.operation.label}: {one}" for one in error.exceptions)
        else:
            if answer.status_code < 300:
                world.succeeded.add(case.operation.label)

    call()


def _name_what_is_there(case: Case, known: Mapping[str, Any]) -> None:
    """Put in ids that are there; what only narrows a call down is left out."""
    body = case.body if isinstance(case.body, dict) else {}
    for asked in (case.path_parameters, case.query, body):
        asked.update({name: value for name, value in known.items() if name in asked})
    for name in NARROWING:
        case.query.pop(name, None)
    if "kind" in case.query:
        case.query.pop("session_id", None)
