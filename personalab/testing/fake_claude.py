"""A stand-in for the ``claude`` program for tests, measurements and trying the lab without a key.

It answers from its arguments, its input and a file of rules alone, accepts only what the real program
accepts, and identifies itself in its version. It must start fast, so it imports as little as possible.

``FAKE_CLAUDE_RULES`` names a JSON list of rules; the first whose ``match`` occurs in the system prompt or the
input applies. ``FAKE_CLAUDE_LOG`` names a file that gets a line for each call. A structured answer is made to fit
its schema: scores of the six dimensions come from a plain comparison of an answer with the expected output,
enough to tell a good answer from a bad one, and the same each time."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from os import environ
from typing import Any, cast

MARK = "(fake claude)"

_LONGEST_QUOTE = 160
_MAXIMA = {
    "functional_correctness": 30,
    "robustness": 20,
    "readability": 15,
    "conciseness": 15,
    "complexity_control": 10,
    "format_compliance": 10,
}
_HEADING = re.compile(r"^=== (.+?) ===[ \t]*$", re.MULTILINE)
_MARKED = re.compile(r"^=== ([^\n]+?) ===[ \t]*\n<<<(\w+)\n(.*?)\n?\2>>>", re.MULTILINE | re.DOTALL)
_MARK_LINE = re.compile(r"<<<\w+|\w+>>>")
_WORD = re.compile(r"[a-z0-9_]+|[^\x00-\x7f]")
_REFUSAL = re.compile(
    r"\b(?:i can(?:no|')t|i cannot|i'm sorry|as an ai|unable to)\b|无法|抱歉|不能帮", re.IGNORECASE
)
_NO_EXPECTATION = ("(none was given", "（没有给出")


def fitting(schema: object, text: str, path: tuple[str, ...] = ()) -> object:
    """Make a value that fits a schema, from the question."""
    form = cast("dict[str, Any]", schema if isinstance(schema, dict) else {})
    if "const" in form or form.get("enum"):
        return form["const"] if "const" in form else form["enum"][0]
    if kinds := cast("list[object]", form.get("anyOf", [])):
        return fitting(kinds[_index(path) % len(kinds)], text, path)
    match _kind(form):
        case "object":
            parts = cast("dict[str, object]", form.get("properties", {}))
            return {name: fitting(part, text, (*path, name)) for name, part in parts.items()}
        case "array":
            count = max(int(form.get("minItems", 0)), min(2, int(form.get("maxItems", 2))))
            return [fitting(form.get("items"), text, (*path, str(number))) for number in range(count)]
        case "integer" | "number":
            return _number(form, text, path)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _words_for(form, text, path)


def _index(path: tuple[str, ...]) -> int:
    """Return the list index at the end of a path; 0 if there is none."""
    return int(path[-1]) if path and path[-1].isdecimal() else 0


def _kind(form: dict[str, Any]) -> str:
    kind: object = form.get("type") or ("object" if "properties" in form else "string")
    if isinstance(kind, list):
        return next((str(one) for one in cast("list[object]", kind) if one != "null"), "null")
    return str(kind)


def _words_for(form: dict[str, Any], text: str, path: tuple[str, ...]) -> str:
    """Return a line of the question, a different one for each place."""
    if path and path[-1].startswith("reason"):
        return f"{MARK} by the words that are also in what was expected"
    told = (line.strip() for line in text.splitlines())
    lines = [
        line for line in told if line and not _HEADING.match(line) and not _MARK_LINE.fullmatch(line)
    ] or [text]
    line = lines[sum(map(ord, "".join(path))) % len(lines)]
    said = line if len(path) > 1 else f"{MARK} {line}"
    return said[: min(int(str(form.get("maxLength", _LONGEST_QUOTE))), _LONGEST_QUOTE)]


def _number(form: dict[str, Any], text: str, path: tuple[str, ...]) -> float | int:
    low, high = form.get("minimum", 0), form.get("maximum")
    low = low if isinstance(low, int | float) else 0
    dimension = next((step for step in path if step in _MAXIMA), None)
    if dimension is None:
        return low
    most = high if isinstance(high, int | float) else _MAXIMA[dimension]
    score = low + (most - low) * _quality(text, dimension)
    return round(score) if form.get("type") == "integer" else round(score, 1)


def _quality(text: str, dimension: str) -> float:
    """Look how much of what was expected is in an answer, and whether it is about as long: 0 to 1."""
    sections = _sections(text)
    expected, answer = _named(sections, "expected", "期望"), _named(sections, "answer", "回答")
    if expected.startswith(_NO_EXPECTATION):
        expected = _named(sections, "input", "输入")
    wanted, given = set(_WORD.findall(expected.lower())), set(_WORD.findall(answer.lower()))
    if not given:
        return 0.0
    shared = len(wanted & given) / len(wanted) if wanted else 0.5
    if _REFUSAL.search(answer) and not _REFUSAL.search(expected):
        shared *= 0.2
    length = min(1.0, 2 * max(len(expected), 40) / len(answer))
    if dimension in ("conciseness", "complexity_control"):
        return (shared + length) / 2 if shared > 0.2 else shared
    return 0.1 + 0.9 * shared * (0.7 + 0.3 * length)


def _sections(text: str) -> list[tuple[str, str]]:
    """Find the parts of a judge's question; the text between two marks is one part, whatever it holds."""
    if marked := _MARKED.findall(text):
        return [(heading.lower(), body) for heading, _, body in marked]
    parts = _HEADING.split(text)
    return [(heading.lower(), body) for heading, body in zip(parts[1::2], parts[2::2], strict=False)]


def _named(sections: list[tuple[str, str]], *names: str) -> str:
    return next((body.strip() for heading, body in sections if any(name in heading for name in names)), "")


# This is not our program's environment: the stand-in acts as another program, which has its own.


VERSION = "0.0.0-fake"
MODEL = "fake-claude"

_FLAGS = frozenset(
    [
        *("--print", "--no-session-persistence", "--strict-mcp-config", "--verbose", "--version"),
        *("--disable-slash-commands", "--no-chrome"),
    ]
)
_VALUES = frozenset(
    [
        *("--output-format", "--model", "--system-prompt", "--system-prompt-file", "--tools"),
        *("--append-system-prompt", "--setting-sources", "--json-schema", "--max-turns"),
        *("--max-budget-usd", "--allowedTools", "--disallowedTools", "--effort", "--settings"),
        *("--max-thinking-tokens", "--thinking", "--betas"),
    ]
)
_SHORT = {"-p": "--print", "-v": "--version"}
_FORMATS = ("text", "json", "stream-json")


class UsageError(Exception):
    """The arguments or the input are none the program takes."""


def main() -> int:
    """Answer one call, as ``claude -p`` would."""
    try:
        options = read_arguments(sys.argv[1:])
        if "--version" in options:
            print(f"{VERSION} (PersonaLab fake, not Claude Code)")
            return 0
        return _answer(options)
    except UsageError as refused:
        print(refused, file=sys.stderr)
        return 1


def read_arguments(arguments: list[str]) -> dict[str, str]:
    """Read the arguments; one that the real program does not know is refused in its words."""
    options: dict[str, str] = {}
    left = list(arguments)
    while left:
        given = left.pop(0)
        name, equals, value = given.partition("=")
        name = _SHORT.get(name, name)
        if not given.startswith("-"):
            options["prompt"] = given
        elif name in _FLAGS and not equals:
            options[name] = ""
        elif name not in _VALUES:
            raise UsageError(f"error: unknown option '{given.partition('=')[0]}'")
        elif not equals and not left:
            raise UsageError(f"error: option '{name} <value>' argument missing")
        else:
            options[name] = value if equals else left.pop(0)
    return options


def _answer(options: dict[str, str]) -> int:
    if "--print" not in options:
        raise UsageError("Error: this stand-in only answers with --print")
    shape = options.get("--output-format", "text")
    if shape not in _FORMATS:
        raise UsageError(
            f"error: option '--output-format <format>' argument '{shape}' is invalid. "
            f"Allowed choices are {', '.join(_FORMATS)}."
        )
    if shape == "stream-json" and "--verbose" not in options:
        raise UsageError("Error: When using --print, --output-format=stream-json requires --verbose")
    system = _system(options)
    asked = sys.stdin.buffer.read()
    text = (asked.decode("utf-8", "replace") + options.get("prompt", "")).strip()
    if not text:
        raise UsageError(
            "Error: Input must be provided either through stdin or as a prompt argument when using --print"
        )
    try:
        schema: object = json.loads(options["--json-schema"]) if "--json-schema" in options else None
    except ValueError:
        raise UsageError("Error: --json-schema is not valid JSON") from None
    _log(system, asked)
    said = system.decode("utf-8", "replace")
    rule = _rule(said, text)
    if (code := _misbehave(rule)) is not None:
        return code
    _show(_result(options, (said, text), schema, rule), shape, rule)
    return 1 if "status" in rule or "is_error" in rule else 0


def _system(options: dict[str, str]) -> bytes:
    path = options.get("--system-prompt-file")
    if path is None:
        return options.get("--system-prompt", "").encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        raise UsageError(f"Error: System prompt file not found: {path}") from None


def _log(system: bytes, asked: bytes) -> None:
    path = environ.get("FAKE_CLAUDE_LOG")
    if not path:
        return
    import hashlib

    row = {
        "argv": [argument.encode("utf-8", "replace").decode("utf-8") for argument in sys.argv[1:]],
        "system": hashlib.sha256(system).hexdigest(),
        "stdin": hashlib.sha256(asked).hexdigest(),
        "pid": os.getpid(),
        "inside": "CLAUDECODE" in environ,
    }
    _append(path, (json.dumps(row) + "\n").encode("ascii"))


def _append(path: str, content: bytes) -> int:
    """Append to a file at once, and tell where it ends then."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, content)
        return os.lseek(fd, 0, os.SEEK_CUR)
    finally:
        os.close(fd)


# --- rules


_DEEDS = frozenset(
    [
        *("match", "times", "reply", "structured", "sleep", "exit", "signal", "garbage", "noise", "stderr"),
        *("status", "is_error", "subtype", "hang", "stubborn", "grandchild", "bulk", "pretty", "list"),
    ]
)
"""``times`` limits a rule to its first calls; ``grandchild`` leaves a process with our output open for so many seconds;
``stubborn`` ignores a gentle end; ``bulk`` writes so many bytes; the others say what is written, and how it ends."""


def _rule(system: str, text: str) -> dict[str, object]:
    path = environ.get("FAKE_CLAUDE_RULES")
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            rules: list[dict[str, object]] = json.load(file)
        unknown = {name for rule in rules for name in rule} - _DEEDS
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"Error: FAKE_CLAUDE_RULES cannot be read: {error}") from None
    if unknown:
        raise UsageError(f"Error: FAKE_CLAUDE_RULES has unknown deeds: {', '.join(sorted(unknown))}")
    for number, rule in enumerate(rules):
        wanted = str(rule.get("match", ""))
        if (wanted in system or wanted in text) and _is_its_turn(rule, number, path):
            return rule
    return {}


def _is_its_turn(rule: dict[str, object], number: int, path: str) -> bool:
    times = rule.get("times")
    if not isinstance(times, int):
        return True
    counter = f"{environ.get('FAKE_CLAUDE_LOG') or path}.{number}.count"
    return _append(counter, b".") <= times


def _misbehave(rule: dict[str, object]) -> int | None:
    """Do what a rule says before an answer; give the exit code if there is to be none."""
    if rule.get("stubborn"):
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "grandchild" in rule and os.fork() == 0:
        time.sleep(float(str(rule["grandchild"])))
        os._exit(0)
    if "stderr" in rule:
        print(rule["stderr"], file=sys.stderr, flush=True)
    if "sleep" in rule:
        time.sleep(float(str(rule["sleep"])))
    if "bulk" in rule:
        _write("x" * int(str(rule["bulk"])))
    if "garbage" in rule:
        _write(str(rule["garbage"]))
    if rule.get("hang"):
        time.sleep(3600)
    if "signal" in rule:
        os.kill(os.getpid(), int(str(rule["signal"])))
    if "exit" in rule:
        return int(str(rule["exit"]))
    return 0 if "garbage" in rule or "bulk" in rule else None


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


# --- results


def _result(
    options: dict[str, str], asked: tuple[str, str], schema: object, rule: dict[str, object]
) -> dict[str, object]:
    system, text = asked
    reply = str(rule["reply"]) if "reply" in rule else _reply(system, text)
    structured = rule.get("structured")
    if schema is not None and structured is None:
        structured = fitting(schema, text)
        reply = str(rule.get("reply", json.dumps(structured, ensure_ascii=False)))
    result: dict[str, object] = {
        "type": "result",
        "subtype": str(rule.get("subtype", "success")),
        # In the real program a limit on turns is no error either.
        "is_error": "status" in rule or "is_error" in rule,
        "duration_ms": 1,
        "duration_api_ms": 0,
        "num_turns": 1,
        "result": reply,
        "stop_reason": "end_turn",
        "session_id": "00000000-0000-4000-8000-000000000000",
        "total_cost_usd": 0,
        **_usage(options.get("--model") or MODEL, len(system) + len(text), len(reply)),
        "permission_denials": [],
        "uuid": "00000000-0000-4000-8000-000000000001",
    }
    if structured is not None:
        result["structured_output"] = structured
    if "status" in rule:
        result["result"] = f"API Error: {rule['status']} it was told to say so"
        result["api_error_status"] = rule["status"]
    elif "is_error" in rule:
        result["result"] = str(rule["is_error"])
    if result["subtype"] != "success":
        del result["result"]
        result["errors"] = ["it was told to say so"]
    return result


def _usage(model: str, read: int, written: int) -> dict[str, object]:
    tokens = {"input_tokens": -(-read // 4), "output_tokens": -(-written // 4)}
    counted = {"inputTokens": tokens["input_tokens"], "outputTokens": tokens["output_tokens"], "costUSD": 0}
    return {"usage": tokens, "modelUsage": {f"fake:{model}": counted}}


def _show(result: dict[str, object], shape: str, rule: dict[str, object]) -> None:
    noise = f"{rule['noise']}\n" if "noise" in rule else ""
    if shape == "text":
        _write(f"{result.get('result', 'Execution error')}\n")
        return
    said = {"role": "assistant", "content": [{"type": "text", "text": result.get("result", "")}]}
    messages: list[dict[str, object]] = [
        {"type": "system", "subtype": "init", "model": MODEL, "claude_code_version": VERSION, "tools": []},
        {"type": "assistant", "message": said},
        result,
    ]
    if shape == "stream-json":
        _write(noise + "".join(json.dumps(message) + "\n" for message in messages))
    else:
        whole: object = messages if rule.get("list") else result
        _write(noise + json.dumps(whole, indent=2 if rule.get("pretty") else None) + "\n" + noise)


def _reply(system: str, text: str) -> str:
    """Quote the question, to show that it arrived."""
    told = next((line.strip() for line in system.splitlines() if line.strip()), "")
    return f"{MARK} {told[:_LONGEST_QUOTE]}\n\n{text[:_LONGEST_QUOTE]}"


if __name__ == "__main__":
    sys.exit(main())
