"""Settings: ranges, both shapes, unknown fields, reset; nothing is saved in part."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab import config
from personalab.config import FIELDS, SOURCE_FIELDS, IntRange
from personalab.errors import StorageError, UserError
from personalab.services import Services

SOURCE_DEFAULTS = {
    "thresholds": {"rag_fallback_threshold": 3, "summary_last_n_turns": 5},
    "limits": {
        "max_total_tokens": 100000,
        "middle_section_warning_tokens": 20000,
        "conversation_max_tokens": 100000,
    },
    "preferences": {"summary_order": "summary_first", "conversation_load_all": True},
}
OLD_SHAPE = {
    "features": {"director_plot_control": {"enabled": False, "rag_fallback_threshold": 7}},
    "summary": {"order": "last_n_first", "last_n_turns": 9},
    "conversation_file": {"load_all": False, "max_tokens": 50000},
    "mine": [1, 2],
}


def _file(root: Path) -> dict[str, Any]:
    return json.loads((root / "config.json").read_text(encoding="utf-8"))


def test_the_shipped_config_and_a_reset_are_the_sources_defaults(services: Services, root: Path) -> None:
    assert _file(root) == SOURCE_DEFAULTS
    services.preferences.change({"rag_fallback_threshold": 9, "durability": "fsync"})
    assert services.preferences.reset()["thresholds.rag_fallback_threshold"] == 3
    assert _file(root) == SOURCE_DEFAULTS


def test_a_reset_mends_a_broken_file_and_keeps_the_language(services: Services, root: Path) -> None:
    services.preferences.change({"language": "en"})
    services.preferences.reset()
    assert _file(root)["preferences"]["language"] == "en"
    (root / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(StorageError):
        services.preferences.change({"max_total_tokens": 20_000})
    services.preferences.reset()
    assert _file(root) == SOURCE_DEFAULTS


@given(
    st.sampled_from(sorted(FIELDS)),
    st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.floats()),
)
def test_a_value_is_stored_exactly_when_it_is_within_its_range(name: str, value: object) -> None:
    rule = FIELDS[name]
    if rule.accepts(value):
        assert config.check_changes({name: value}) == {name: value}
    else:
        with pytest.raises(UserError) as caught:
            config.check_changes({name: value})
        assert name in str(caught.value)
        assert str(rule) in str(caught.value)


@pytest.mark.parametrize(("name", "low", "high"), [
    ("rag_fallback_threshold", 1, 10),
    ("max_total_tokens", 10_000, 200_000),
    ("middle_section_warning_tokens", 1_000, 50_000),
    ("summary_last_n_turns", 1, 20),
    ("conversation_max_tokens", 1_000, 200_000),
])  # fmt: skip
def test_the_ranges_are_the_specs(name: str, low: int, high: int) -> None:
    rule = FIELDS[config.full_name(name)]
    assert isinstance(rule, IntRange)
    assert (rule.low, rule.high) == (low, high)
    assert not rule.accepts(True)


def test_one_wrong_value_among_many_saves_nothing(services: Services, root: Path) -> None:
    before = (root / "config.json").read_bytes()
    with pytest.raises(UserError) as caught:
        services.preferences.change({"max_total_tokens": 20_000, "rag_fallback_threshold": 11})
    assert "thresholds.rag_fallback_threshold cannot be 11: it must be 1–10" in str(caught.value)
    with pytest.raises(UserError):
        services.preferences.change({"colour": "red"})
    assert (root / "config.json").read_bytes() == before


def test_the_older_shape_is_read_and_written_back_in_todays(services: Services, root: Path) -> None:
    (root / "config.json").write_text(json.dumps(OLD_SHAPE), encoding="utf-8")
    (root / "modules" / "director.json").unlink()
    found = services.preferences.read().config
    assert (found.rag_fallback_threshold, found.summary_order, found.summary_last_n_turns) == (
        7,
        "last_n_first",
        9,
    )
    assert (found.conversation_load_all, found.conversation_max_tokens) == (False, 50_000)
    services.preferences.change({"max_total_tokens": 20_000})
    after = _file(root)
    assert set(after) == {"thresholds", "limits", "preferences", "mine"}
    assert after["thresholds"] == {"rag_fallback_threshold": 7, "summary_last_n_turns": 9}
    assert json.loads((root / "modules" / "director.json").read_text(encoding="utf-8")) == {"enabled": False}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_older_director_switch_holds_until_the_module_has_its_own(
    services: Services, root: Path, enabled: bool
) -> None:
    old = {"features": {"director_plot_control": {"enabled": enabled}}}
    (root / "config.json").write_text(json.dumps(old), encoding="utf-8")
    module = root / "modules" / "director.json"
    module.unlink()
    found = services.preferences.read()
    assert (found.director.enabled, found.notices) == (enabled, ())
    services.preferences.change({"max_total_tokens": 20_000})
    assert json.loads(module.read_bytes()) == {"enabled": enabled}
    assert services.preferences.read().director.enabled is enabled


def test_the_directors_own_file_wins_over_the_older_switch(services: Services, root: Path) -> None:
    old = {"features": {"director_plot_control": {"enabled": False}}}
    (root / "config.json").write_text(json.dumps(old), encoding="utf-8")
    assert services.preferences.read().director.enabled
    (root / "modules" / "director.json").write_text("{", encoding="utf-8")
    found = services.preferences.read()
    assert (found.director.enabled, [notice.category for notice in found.notices]) == (
        False,
        ["director_switch"],
    )


def test_a_hand_written_value_out_of_range_falls_back_alone_and_is_named(
    services: Services, root: Path
) -> None:
    data = json.loads(json.dumps(SOURCE_DEFAULTS))
    data["limits"]["max_total_tokens"] = 5
    data["thresholds"]["rag_fallback_threshold"] = 4
    (root / "config.json").write_text(json.dumps(data), encoding="utf-8")
    found = services.preferences.read()
    assert (found.config.max_total_tokens, found.config.rag_fallback_threshold) == (100_000, 4)
    assert [notice.category for notice in found.notices] == ["config_value"]
    assert found.director.enabled


def test_unknown_fields_survive_a_change(services: Services, root: Path) -> None:
    data = {**SOURCE_DEFAULTS, "mine": {"a": 1}, "limits": {**SOURCE_DEFAULTS["limits"], "other": 2}}
    (root / "config.json").write_text(json.dumps(data), encoding="utf-8")
    services.preferences.change({"max_total_tokens": 20_000})
    assert (_file(root)["mine"], _file(root)["limits"]["other"]) == ({"a": 1}, 2)


def test_every_source_field_has_its_default_in_the_source(services: Services) -> None:
    for name, rule in SOURCE_FIELDS.items():
        assert config.place(SOURCE_DEFAULTS, name) == rule.default


def test_settings_edited_in_place_with_their_old_times_are_read_again(services: Services, root: Path) -> None:
    path = root / "config.json"
    for last in ("4", "5") * 10:
        before = path.stat()
        path.write_text(path.read_text(encoding="utf-8").replace("100000", "10000" + last), encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert services.preferences.read().config.max_total_tokens == int("10000" + last)
        path.write_text(path.read_text(encoding="utf-8").replace("10000" + last, "100000"), encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert services.preferences.read().config.max_total_tokens == 100000


def test_settings_that_could_not_be_read_once_are_read_again(services: Services, root: Path) -> None:
    """A process that is short of file descriptors for a moment keeps no defaults after it."""
    services.preferences.change({"max_total_tokens": 50_000})
    time.sleep(1.1)  # a file that has just changed is read every time anyway
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        found = services.preferences.read()
        templates = services.preferences.templates("en")
    except OSError:
        found, templates = None, None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found is None or found.notices
    assert templates is None or templates[1]
    assert services.preferences.read().config.max_total_tokens == 50_000
    assert not services.preferences.read().notices
    assert not services.preferences.templates("en")[1]
