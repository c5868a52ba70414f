"""Tests of the terminal's language and how a new user chooses it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pexpect
import pytest

from personalab.services import Services
from tests.e2e.cli.conftest import Run

Terminal = Callable[..., "pexpect.spawn[str]"]
ENTER = "\r"


@pytest.mark.parametrize(
    ("locale", "typed"), [("en_US.UTF-8", ""), ("C", "2"), ("POSIX", "2"), ("C.UTF-8", "2"), ("", "2")]
)
def test_a_newcomer_is_asked_for_a_language_once(
    terminal: Terminal, services: Services, locale: str, typed: str
) -> None:
    child = terminal("chat", LANG=locale, LC_ALL="")
    child.expect("Language")
    child.expect("English")
    child.send(typed + ENTER)
    child.expect("Welcome to PersonaLab")
    child.expect("Choose a character")
    child.send("\x03")
    child.expect(pexpect.EOF)
    assert services.preferences.language() == "en"


def test_a_terminal_of_chinese_proposes_chinese(terminal: Terminal, services: Services) -> None:
    child = terminal("chat", LANG="zh_CN.UTF-8")
    child.expect("语言 / Language")
    child.send(ENTER)
    child.expect("欢迎来到")
    assert services.preferences.language() == "zh"


def test_the_menu_of_stories_offers_the_other_language(
    terminal: Terminal, story: str, services: Services
) -> None:
    child = terminal("chat", LANG="C")
    child.expect("3.*English")
    child.send("3" + ENTER)
    child.expect("Which story do you want to continue")
    child.expect("中文")
    assert services.preferences.language() == "en"


def test_where_chinese_cannot_be_shown_english_is_spoken(personalab: Run, story: str) -> None:
    done = personalab("library", PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("Characters")
    assert "no instance" in personalab("read", "inst_404", PYTHONIOENCODING="latin-1").stderr.lower()


MISTAKES = [
    ("nonsense",),
    ("sya",),
    ("say",),
    ("say", "a", "b", "c"),
    ("say", "a", "--nope"),
    ("read", "a", "--count"),
    ("read", "a", "--count", "x"),
    ("read", "a", "--count", "0"),
    ("recall", "a", "b", "--count", "500"),
    ("recall", "a", "b", "--depth", "bottom"),
    ("say", "a", "b", "--json=1"),
]


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_bad_usage_is_said_in_the_saved_language_alone(
    personalab: Run, services: Services, words: tuple[str, ...]
) -> None:
    said = personalab(*words, LANG="en_US.UTF-8").stderr
    rest = re.sub(r"personalab[ \w-]*|--?\w+|'\w+'|“\w+”|INSTANCE|ID|\bc\b", "", said)
    assert re.search("[\u4e00-\u9fff]", said)
    assert not re.search("[A-Za-z]{2}", rest), rest
    services.preferences.change({"preferences.language": "en"})
    assert not re.search("[\u4e00-\u9fff]", personalab(*words, LANG="zh_CN.UTF-8").stderr)


def test_words_that_begin_with_a_dash_are_helped(personalab: Run, story: str) -> None:
    assert "say 故事ID -- 文字" in personalab("say", story, "-x").stderr
    assert personalab("say", story, "--", "-x").returncode == 0


def test_stop_names_what_it_stopped_in_words(personalab: Run) -> None:
    from cli.turns import task_name

    assert (task_name("say", "zh"), task_name("retry", "en")) == ("回复", "a reply")
    assert task_name("something-new", "en") == "something-new"


def test_json_may_stand_before_the_settings_command(personalab: Run) -> None:
    for words in (("show",), ("set", "language", "en"), ("reset",)):
        assert personalab("settings", "--json", *words).stdout.startswith("{")


def test_a_file_that_cannot_be_read_is_said_so_once(personalab: Run, services: Services) -> None:
    path = services.settings.data_root / "characters" / "char_maren" / "definition.json"
    path.write_bytes(b"junk")
    assert personalab("library").stdout.count("无法读取") == 1
