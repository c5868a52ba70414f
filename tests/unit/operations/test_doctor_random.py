"""Property test: after any damage the doctor makes a session file readable and keeps every whole line."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.operations.doctor import examine_root
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.transcript import AssistantLine, Metadata, UserLine, dump_line, parse_line

WHOLE = b"".join(
    [
        dump_line(Metadata("inst_001", "sess_001", "2025-10-16T10:30:00Z")),
        *(
            dump_line(line)
            for turn in range(1, 6)
            for line in (
                UserLine(f'问题 {turn} \\ " \n', turn, "2025-10-16T10:31:00Z"),
                AssistantLine(f"回答 {turn} 😀", turn, "2025-10-16T10:31:05Z"),
            )
        ),
    ]
)

Damage = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, len(WHOLE)), st.just(b"")),
    st.tuples(st.just("insert"), st.integers(0, len(WHOLE)), st.binary(max_size=40)),
    st.tuples(st.just("overwrite"), st.integers(0, len(WHOLE)), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("remove"), st.integers(0, len(WHOLE)), st.binary(min_size=1, max_size=200)),
    st.tuples(st.just("swap"), st.integers(0, 10_000), st.just(b"")),
)


def damaged(raw: bytes, damage: tuple[str, int, bytes]) -> bytes:
    """Do one thing to a file that a file does not deserve."""
    kind, at, data = damage
    match kind:
        case "cut":
            return raw[:at]
        case "insert":
            return raw[:at] + data + raw[at:]
        case "overwrite":
            return raw[:at] + data + raw[at + len(data) :]
        case "remove":
            return raw[:at] + raw[at + len(data) :]
        case _:
            lines = raw.split(b"\n")
            random.Random(at).shuffle(lines)
            return b"\n".join(lines)


def whole_lines(raw: bytes) -> list[bytes]:
    """Give the lines with an end that can be read, in order."""
    found: list[bytes] = []
    for number, line in enumerate(raw.split(b"\n")[:-1]):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        try:
            parse_line(text)
        except ValueError:
            continue
        found.append(text)
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(Damage, min_size=1, max_size=4))
def test_any_damage_is_repaired_and_no_whole_line_is_lost(damages: list[tuple[str, int, bytes]]) -> None:
    raw = WHOLE
    for damage in damages:
        raw = damaged(raw, damage)
    with TemporaryDirectory() as folder:
        services = open_services(read_settings({"PERSONALAB_DATA": str(Path(folder) / "data")}))
        path = _session(services)
        path.write_bytes(raw)
        asyncio.run(examine_root(services, fix=True))
        fresh = open_services(services.settings)
        fresh.stories.writer("inst_001", "sess_001").close()
        after = path.read_bytes()
        assert sorted(whole_lines(raw)) == sorted(_kept(whole_lines(after), whole_lines(raw)))
        left = asyncio.run(examine_root(fresh)).findings
        assert not [finding for finding in left if finding.fixable]


def _session(services: Services) -> Path:
    character = services.stories.character("char_alserqi")
    services.stories.create_instance(character, None, "inst_001", "2025-10-16T10:30:00Z")
    return services.stories.session_path("inst_001", "sess_001")


def _kept(after: list[bytes], before: list[bytes]) -> list[bytes]:
    """Leave out what the repair added: a metadata line, a closed reply."""
    left = list(before)
    kept: list[bytes] = []
    for line in after:
        if line in left:
            left.remove(line)
            kept.append(line)
    return kept
