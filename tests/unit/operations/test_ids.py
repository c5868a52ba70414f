"""An id that is none is refused by everything an entrance can call, before a path is built from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from graph.preview import preview_prompt
from personalab.errors import UserError
from personalab.operations.instances import new_instance, read_session, switch_background
from personalab.operations.recall import look_up
from personalab.services import Services
from tests.support.graph.turns import snapshot
from tests.unit.graph.test_turn_rules import BAD_IDS

pytestmark = pytest.mark.anyio
Call = Callable[[Services, str, str], Awaitable[object]]

CALLS: dict[str, Call] = {
    "new, character": lambda services, _, bad: new_instance(services, bad),
    "new, background": lambda services, _, bad: new_instance(services, "char_maren", bad),
    "new, instance": lambda services, _, bad: new_instance(services, "char_maren", None, bad),
    "switch, instance": lambda services, _, bad: switch_background(services, bad, None),
    "switch, background": lambda services, good, bad: switch_background(services, good, bad),
    "read, instance": lambda services, _, bad: read_session(services, bad),
    "read, session": lambda services, good, bad: read_session(services, good, bad),
    "recall": lambda services, _, bad: look_up(services, bad, "x"),
    "prompt": lambda services, _, bad: preview_prompt(services, bad),
    "stop": lambda services, _, bad: services.leases.stop(bad),
}


@pytest.mark.parametrize("name", CALLS)
async def test_every_operation_refuses_what_is_no_id(
    services: Services, root: Path, instance: str, name: str
) -> None:
    before = snapshot(root)
    for bad in BAD_IDS:
        with pytest.raises(UserError) as caught:
            await CALLS[name](services, instance, bad)
        assert caught.value.code == "bad_id", bad
    assert snapshot(root) == before
