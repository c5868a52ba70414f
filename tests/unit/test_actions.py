"""Suggested actions are named as each entrance offers them."""

from __future__ import annotations

import pytest

from mcp_server.texts import TITLES
from personalab.errors import Busy, NotFound
from personalab.texts import Language, languages, say
from personalab.texts.actions import ACTIONS, Entrance, rendering_for
from tests.support.catalogues import ACTION, texts_of

NOT_ON_THE_PAGE = ("doctor", "reindex", "archive", "recompose", "set_lab_cli")
NOT_IN_MCP = ("doctor", "reindex", "archive", "set_lab_cli")
ARGUMENTS = ("fresh_iteration", "max_rounds", "chat_model")


def test_every_action_is_used() -> None:
    named = {name for text in texts_of("en").values() for name in ACTION.findall(text)}
    assert all(named == {*actions} for actions in ACTIONS.values())


@pytest.mark.parametrize("language", languages())
def test_only_actions_name_commands(language: Language) -> None:
    assert [code for code, text in texts_of(language, "messages").items() if "personalab " in text] == []


@pytest.mark.parametrize("language", languages())
def test_the_page_names_a_command_only_where_it_has_no_place_for_it(language: Language) -> None:
    offered = ACTIONS["page"].templates(language)
    commands = {name for name, action in offered.items() if "personalab " in action}
    assert {name for name in commands if not name.startswith(NOT_ON_THE_PAGE)} == set()


def test_mcp_names_a_command_only_where_it_has_no_tool_for_it() -> None:
    offered = {name: words for name, words in ACTIONS["mcp"].templates("en").items() if name not in ARGUMENTS}
    commands = {name for name, words in offered.items() if words.startswith("personalab ")}
    assert {name for name in commands if not name.startswith(NOT_IN_MCP)} == set()
    assert {words.partition("(")[0] for name, words in offered.items() if name not in commands} <= {*TITLES}


@pytest.mark.parametrize(
    ("entrance", "zh", "en"),
    [
        ("terminal", "用 personalab stop s1 停止它", "stop it with personalab stop s1"),
        ("page", "用 “⏹ 停止” 停止它", "stop it with “⏹ Stop”"),
        ("mcp", '用 persona_stop(instance_id="s1") 停止它', 'stop it with persona_stop(instance_id="s1")'),
    ],
)
def test_an_error_names_what_its_reader_can_do(entrance: Entrance, zh: str, en: str) -> None:
    error = Busy("busy", instance_id="s1", pid=1, seconds=2)
    with rendering_for(entrance):
        assert zh in error.message("zh")
        assert en in error.message("en")
    assert "personalab stop s1" in str(error), "an entrance is left with its call"


def test_an_error_inside_a_warning_names_what_its_reader_can_do() -> None:
    error = NotFound("no_background", background_id="b")
    with rendering_for("mcp"):
        said = [
            say("warning.background_unreadable", lang, background_id="b", reason=error)
            for lang in languages()
        ]
    assert all("persona_library" in words and "personalab" not in words for words in said)


def test_a_value_is_never_read_as_an_action() -> None:
    assert say("no_instance", "en", instance_id="{do:stop}").startswith("There is no instance {do:stop};")
