"""The source's worked example as files: 41 turns of the wasteland story, and the events it recalls."""

from __future__ import annotations

import json
from pathlib import Path

from personalab.story.recall import StoryEvent
from personalab.story.transcript import AssistantLine, Line, Metadata, UserLine, dump_line

INPUT_42 = "你还记得我们之前的约定吗？"
REPLY_42 = (
    "我当然记得。（沉默片刻）我答应过你，不会冲动送死。但Victor必须付出代价，这是我活下去的唯一理由。"
    "我会等，等到最安全的时机。[PROGRESS:3:in_progress]"
)
LAST_TURNS = [
    (
        "我们已经潜入据点了，你看前面那个房间。",
        "（透过门缝）就是他...Victor，我曾经最信任的兄弟。[PROGRESS:3:in_progress]",
    ),
    ("你想怎么做？直接冲进去？", "不，太危险了。我数了一下，里面至少有五个人，都带着枪。"),
    ("你打算等到什么时候？", "等他们分散。Victor不可能一直和他们在一起。"),
]
RECALLED = ["第12轮：玩家让Alserqi承诺不冲动送死，这是两人的约定", "第20轮：Alserqi答应会冷静行动，遵守约定"]


def lay_out(root: Path, *, count: int = 2) -> None:
    """Write the example's files into a data root."""
    instance = root / "instances" / "inst_001"
    (instance / "sessions").mkdir(parents=True)
    _write(
        instance / "character_state.json",
        {
            "base_persona": "Alserqi，废土黑帮老大，曾经掌控北区，被心腹背叛...",
            "evolved_persona": "经历背叛后变得多疑，不再轻易相信他人...",
        },
    )
    _write(instance / "instance_state.json", instance_state(count))
    outline = ["发现背叛者的线索", "潜入敌人据点", "与仇人对峙", "做出关键选择", "应对选择的后果"]
    (root / "backgrounds" / "bg_wasteland").mkdir(parents=True, exist_ok=True)
    _write(
        root / "backgrounds" / "bg_wasteland" / "background.json",
        {
            "background_id": "bg_wasteland",
            "name": "废土复仇记",
            "world_setting": "2087年，核战后50年...",
            "story_outline": [{"index": n, "content": text} for n, text in enumerate(outline, start=1)],
        },
    )
    lines: list[Line] = [Metadata("inst_001", "sess_003", "2025-10-16T09:00:00Z", "sess_002")]
    turns = [(f"第{n}个问题", f"第{n}个回答") for n in range(1, 39)] + LAST_TURNS
    for number, (said, answered) in enumerate(turns, start=1):
        lines.append(UserLine(said, number, "2025-10-16T10:00:00Z"))
        lines.append(AssistantLine(answered, number, "2025-10-16T10:00:05Z"))
    session = instance / "sessions" / "sess_003.jsonl"
    session.write_bytes(b"".join(dump_line(line) for line in lines))


def instance_state(count: int) -> dict[str, object]:
    """The example's instance_state.json with a counter."""
    return {
        "instance_id": "inst_001",
        "character_id": "char_alserqi",
        "background_id": "bg_wasteland",
        "current_session_id": "sess_003",
        "created_at": "2025-10-10T10:00:00Z",
        "plot_state": {"current_plot_index": 3, "current_status": "in_progress", "no_update_count": count},
    }


def recalled_events() -> list[StoryEvent]:
    """The summaries the example's library holds."""
    return [
        StoryEvent(
            event_id=f"summary_inst_001_sess_002_{index}",
            kind="summary",
            text=text,
            instance_id="inst_001",
            session_id="sess_002",
            index=index,
            character_id="char_alserqi",
            background_id="bg_wasteland",
        )
        for index, text in enumerate(RECALLED, start=1)
    ]


def _write(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
