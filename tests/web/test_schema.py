"""Every route answers as its description says, whatever is asked of it within that description and beyond."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
from personalab.serving.address import listen
from personalab.settings import read_settings
from tests.lab.running import make_project
from tests.web.serving import wait_until
from web.app import Limits
from web.joining import whole_app

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("PERSONALAB_TEST_EXAMPLES", "6"))
"""Of each kind, a route: the whole takes less than a minute. ``PERSONALAB_TEST_EXAMPLES`` asks for more."""
SECONDS = 30
"""A stream ends by itself long before."""


@dataclass
class _World:
    url: str
    description: dict[str, Any]
    known: dict[str, str]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_World]:
    """A server with a story that was played a little and a project, in a thread of this process."""
    root = tmp_path_factory.mktemp("schema") / "data"
    services = open_services(read_settings({"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "1"}))
    asyncio.run(new_instance(services, "char_alserqi", "bg_wasteland", "inst_001"))
    asyncio.run(make_project(services, cases=1, model="rehearsal"))
    project = next(path.name for path in (root / "workspace" / "projects").iterdir() if path.is_dir())
    app = whole_app(lambda: services, limits=Limits(calls_a_second=1e9, calls_at_once=10**9))
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server did not start")
    known = {
        "instance_id": "inst_001",
        "session_id": "sess_001",
        "character_id": "char_alserqi",
        "background_id": "bg_wasteland",
        "project": project,
    }
    yield _World(f"http://127.0.0.1:{listener.getsockname()[1]}", app.openapi(), known)
    server.should_exit = True
    thread.join(SECONDS)


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
    """Ids that are there are used as often as ids that are made up, for most of those name nothing."""
    failures: list[str] = []
    described: Any = schemathesis.openapi.from_dict(played.description)
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                _try(operation.as_strategy(generation_mode=mode), played, failures)
            except Unsatisfiable:
                assert mode is GenerationMode.NEGATIVE  # nothing can be wrong with a call that takes nothing
    assert not failures, "\n\n".join(failures)


def _try(cases: st.SearchStrategy[Case], world: _World, failures: list[str]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        phases=[Phase.generate],
    )
    @given(case=cases, is_there=st.booleans())
    def call(case: Case, is_there: bool) -> None:
        for asked in (case.path_parameters, case.query) if is_there else ():
            asked.update({name: value for name, value in world.known.items() if name in asked})
        # Kept rather than raised: calls change what is there, so that none can be repeated as it was.
        try:
            case.call_and_validate(base_url=world.url, checks=CHECKS, timeout=SECONDS)
        except FailureGroup as error:
            failures.extend(f"{case.operation.label}: {one}" for one in error.exceptions)

    call()
