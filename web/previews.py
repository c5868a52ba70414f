"""Model answers behind the previews of summaries and of persona growth.

The answers are cached, not the result: the saved result is computed from them again. Where the story has
changed in the meantime, the questions differ and are sent to the model.
"""

from __future__ import annotations

from collections import OrderedDict

_KEPT = 64


class Previews:
    """The answers that the newest previews rest on."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()

    def answers(self, kind: str, instance_id: str, *, fresh: bool) -> dict[str, str]:
        """Return the known answers for an operation, to be added to; with ``fresh`` it starts without any."""
        known = self._answers.pop((kind, instance_id), {})
        self._answers[kind, instance_id] = {} if fresh else known
        while len(self._answers) > _KEPT:
            self._answers.popitem(last=False)
        return self._answers[kind, instance_id]

    def forget(self, kind: str, instance_id: str) -> None:
        """Drop answers after a save or a failure, so that a new attempt gets new answers."""
        self._answers.pop((kind, instance_id), None)
