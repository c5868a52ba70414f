"""Files of a project that were spoiled by hand or by a broken disk are made again, or named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord, StorageError
from personalab.lab.judging import judge_identity
from personalab.lab.segments import PoolSegment, pool
from personalab.operations.lab.ranking import judge_facts, unproven
from personalab.operations.lab.tasks import arms_of
from personalab.services import Services
from tests.support.lab.running import OPTIONS, FakeExecutor, evaluate, make_project, use

pytestmark = pytest.mark.anyio
CASE = "aaaaaaaa_v1/case_001.json"
Spoil = Callable[[str], str]


def _half(text: str) -> str:
    return text[: len(text) // 2] + "}"


def _hole(text: str) -> str:
    middle = text.index('"actual_output"')
    return text[:middle] + "\0\0\0\0" + text[middle + 4 :]


def _scored(value: object) -> Spoil:
    def spoil(text: str) -> str:
        data = json.loads(text)
        data["scores"]["robustness"] = value
        return json.dumps(data, indent=2)

    return spoil


def _without_scores(text: str) -> str:
    data = json.loads(text)
    data["scores"] = dict.fromkeys(data["scores"])
    return json.dumps(data, indent=2)


def _nothing(text: str) -> str:
    return text[:0]


@pytest.mark.parametrize(
    "spoil",
    [_half, _hole, _without_scores, _scored(999), _scored(-1), _scored("much"), _scored(None), _nothing],
)
async def test_a_spoiled_result_is_made_again_of_its_calls_without_a_new_one(
    services: Services, spoil: Spoil
) -> None:
    place = await make_project(services, cases=2)
    fake = use(services, FakeExecutor())
    await evaluate(services, place.name)
    file = place.results / CASE
    sound, calls = file.read_text(encoding="utf-8"), len(fake.calls)
    summary = place.summary()
    file.write_text(spoil(sound), encoding="utf-8")
    assert not place.is_completed(str(file))
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"], result["failed"]) == ("done", 4, 0)
    assert len(fake.calls) == calls
    assert json.loads(file.read_text(encoding="utf-8"))["scores"] == json.loads(sound)["scores"]
    again = place.summary()
    assert summary is not None
    assert again is not None
    assert again.ranking == summary.ranking


async def test_a_result_is_told_completed_exactly_if_it_can_be_read_as_such(services: Services) -> None:
    place = await make_project(services, cases=2)
    use(services, FakeExecutor())
    await evaluate(services, place.name)
    file = place.results / CASE
    sound = file.read_bytes()
    for cut in range(0, len(sound) + 1, 7):
        file.write_bytes(sound[:cut])
        found = place.result(file)
        assert place.is_completed(str(file)) == (found is not None and found.status == "completed")
    file.write_bytes(json.dumps(json.loads(sound)).encode())
    assert place.is_completed(str(file))
    assert not place.is_completed(str(file.parent))
    assert not place.is_completed(str(file.with_name("case_777.json")))


_IDENTITY = judge_identity("fake", "en")


_NONSENSE: list[Any] = [
    [],
    {"judges": []},
    {"judges": None},
    {"judges": {"x": 1}},
    {"judges": {_IDENTITY: {"passed": "yes", "gap": 1}}},
    {"judges": {_IDENTITY: {"passed": False}}},
    {"judges": {_IDENTITY: {"passed": True, "gap": "wide"}}},
    {"judges": {_IDENTITY: {"calls": {"a": 1}}}},
    {"judges": {_IDENTITY: {"calls": [{}]}}},
    {"judges": {_IDENTITY: {"tries": None}}},
]


@pytest.mark.parametrize("content", _NONSENSE)
async def test_controls_that_make_no_sense_are_named(services: Services, content: Any) -> None:
    place = await make_project(services, cases=1)
    use(services, FakeExecutor())
    await evaluate(services, place.name)
    (place.results / "x_controls.json").write_text(json.dumps(content), encoding="utf-8")
    for read in (unproven, judge_facts):
        with pytest.raises(StorageError) as caught:
            read(place, OPTIONS, "en")
        assert caught.value.code == "file_broken"
        assert caught.value.params["file"] == f"{place.name}/results/x_controls.json"
    (place.results / CASE).unlink()
    _, result = await evaluate(services, place.name)
    assert result["status"] == "error"
    assert result["error"]["code"] == "file_broken"


async def test_a_skill_that_a_plan_lists_twice_is_tested_once(services: Services) -> None:
    place = await make_project(services, cases=2)
    file = place.folder / "config.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    data["skills"] = [data["skills"][0], *data["skills"], data["skills"][1]]
    file.write_text(json.dumps(data), encoding="utf-8")
    place = place.again()
    assert [arm.name for arm in arms_of(place, OPTIONS)] == ["alpha", "beta"]
    fake = use(services, FakeExecutor())
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["total"], result["completed"]) == ("done", 4, 4)
    assert len(fake.ids("x")) == 4


# --- the pieces of an iteration

_PIECES = pool({"a": "Be kind.\n\nNever lie.\n", "b": "Never lie.\n\nBe brief.\n"})
_JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.just([]), st.just({}))


def test_a_piece_is_read_as_it_was_written() -> None:
    for piece in _PIECES:
        assert PoolSegment.read(json.loads(json.dumps(piece.fields())), "x_iteration.json") == piece


@given(st.sampled_from(_PIECES), st.data())
def test_a_piece_with_anything_missing_is_refused(piece: PoolSegment, data: st.DataObject) -> None:
    fields: dict[str, Any] = json.loads(json.dumps(piece.fields()))
    row = data.draw(st.sampled_from([fields, fields["places"][0]]))
    row.pop(data.draw(st.sampled_from(sorted(row))))
    with pytest.raises(BadRecord) as caught:
        PoolSegment.read(fields, "x_iteration.json")
    assert caught.value.code == "lab_bad_record"


@given(st.sampled_from(_PIECES), st.data(), _JUNK)
def test_a_piece_with_anything_else_in_it_is_read_whole_or_refused(
    piece: PoolSegment, data: st.DataObject, junk: object
) -> None:
    fields: dict[str, Any] = json.loads(json.dumps(piece.fields()))
    row = data.draw(st.sampled_from([fields, fields["places"][0]]))
    row[data.draw(st.sampled_from(sorted(row)))] = junk
    try:
        found = PoolSegment.read(fields, "x_iteration.json")
    except BadRecord:
        return
    assert all(isinstance(text, str) for text in (found.segment_id, found.skill_id, found.text, *found.also))
