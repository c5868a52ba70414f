"""What holds for every engine: kept segments, new contents, replays, failures and small problems."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.lab.benching import ENGINES, MakeEngine
from personalab.lab.engine.ledger_engine import LedgerEngine
from personalab.lab.engine.problem import (
    STRATEGIES,
    CasePlace,
    Engine,
    EngineSegment,
    Observed,
    Params,
    SearchProblem,
    Trial,
    candidate_of,
    check_kept,
    original,
    plateau_level,
)
from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA, Dimension

Answer = Callable[[Trial], Observed]
every_engine = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES.keys())


def problem_of(skills: int, segments: int, cases: int, kept: Sequence[int] = ()) -> SearchProblem:
    """Make a problem in which the segments are dealt out to the skills in turn."""
    pieces = tuple(
        EngineSegment(f"seg_{i:03d}", f"skill_{i % skills}", DIMENSIONS[i % 6] if i % 4 else None)
        for i in range(segments)
    )
    named = {
        f"skill_{k}": tuple(one.segment_id for one in pieces if one.skill_id == f"skill_{k}")
        for k in range(skills)
    }
    places = tuple(CasePlace(f"case_{i:03d}", CATEGORIES[i % 3]) for i in range(cases))
    return SearchProblem(pieces, named, places, frozenset(f"seg_{i:03d}" for i in kept if i < segments))


def answer(trial: Trial) -> Observed:
    """Score by a rule that is the same for the same trial: odd segments help, even ones hurt, and there is luck."""
    helped = sum(1 if int(name[-3:]) % 2 else -1 for name in trial.candidate.segments)
    seed = f"{trial.candidate.candidate_id}{trial.case_id}{trial.repeat}"
    luck = Random(hashlib.sha256(seed.encode()).hexdigest())
    scores: dict[Dimension, float] = {
        name: float(
            round(min(MAXIMA[name], max(0.0, MAXIMA[name] * (0.5 + 0.05 * helped) + luck.gauss(0, 1))))
        )
        for name in DIMENSIONS
    }
    return Observed(trial.candidate.candidate_id, trial.case_id, trial.repeat, scores)


def failing(trial: Trial) -> Observed:
    """Fail always."""
    return Observed(trial.candidate.candidate_id, trial.case_id, trial.repeat, None)


def sometimes_failing(trial: Trial) -> Observed:
    """Fail on every other candidate, and on one case."""
    unlucky = int(trial.candidate.candidate_id, 16) % 2 == 0 or trial.case_id == "case_001"
    return failing(trial) if unlucky else answer(trial)


def known_of(problem: SearchProblem) -> list[Observed]:
    """Score the originals."""
    return [
        answer(Trial(original(problem, skill_id), case.case_id))
        for skill_id in problem.skills
        for case in problem.cases
    ]


def search(engine: Engine, reply: Answer = answer, batches: int = 300) -> list[list[Trial]]:
    """Let an engine search to its end."""
    asked: list[list[Trial]] = []
    while trials := engine.ask():
        asked.append(trials)
        engine.tell([reply(trial) for trial in trials])
        assert len(asked) < batches
    return asked


@every_engine
@settings(max_examples=12, deadline=None)
@given(
    segments=st.integers(1, 9),
    cases=st.integers(1, 7),
    kept=st.lists(st.integers(0, 8), max_size=4),
    seed=st.integers(-5, 10**9),
    width=st.integers(1, 4),
)
def test_every_candidate_contains_what_has_to_stay(
    make: MakeEngine, segments: int, cases: int, kept: list[int], seed: int, width: int
) -> None:
    problem = problem_of(2, segments, cases, kept)
    engine = make(problem, Params(max_rounds=12, beam_width=width, seed=seed), known_of(problem))
    for batch in search(engine):
        for trial in batch:
            assert problem.kept <= set(trial.candidate.segments)
    best = engine.best.candidate
    assert best is None or problem.kept <= set(best.segments)


@every_engine
def test_no_content_is_asked_for_twice(make: MakeEngine) -> None:
    problem = problem_of(2, 4, 5)
    engine = make(problem, Params(max_rounds=200, beam_width=3, seed=1), known_of(problem))
    asked = [trial for batch in search(engine, batches=500) for trial in batch]
    once = [(trial.candidate.candidate_id, trial.case_id, trial.repeat) for trial in asked]
    assert len(once) == len(set(once))
    originals = {original(problem, skill_id).candidate_id for skill_id in problem.skills}
    assert not any(trial.repeat == 1 and trial.candidate.candidate_id in originals for trial in asked)
    assert engine.best.stop_cause in ("exhausted", "plateau")


def test_the_ledger_tries_every_content_before_it_says_that_there_is_nothing_left() -> None:
    problem = problem_of(2, 3, 3)
    # No gain is ever enough here, and no hope too small: only running out of contents ends the search.
    engine = LedgerEngine(problem, Params(max_rounds=99, plateau_threshold=0.0), known_of(problem))
    tried = {trial.candidate.segments for batch in search(engine) for trial in batch if trial.repeat == 1}
    assert len(tried) + len(problem.skills) == 2**3 - 1
    assert engine.best.stop_cause == "exhausted"


@every_engine
@settings(max_examples=10, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_replaying_the_answers_leads_to_the_same_questions(
    make: MakeEngine, data: st.DataObject, seed: int
) -> None:
    problem = problem_of(3, 9, 6, kept=(2,))
    params = Params(max_rounds=6, beam_width=2, seed=seed, max_evaluations=90)
    whole = search(make(problem, params, known_of(problem)), sometimes_failing)
    cut = data.draw(st.integers(0, len(whole)))
    again = make(problem, params, known_of(problem))
    for batch in whole[:cut]:
        assert again.ask() == batch
        again.tell([sometimes_failing(trial) for trial in data.draw(st.permutations(batch))])
    assert again.ask() == (whole[cut] if cut < len(whole) else [])
    assert again.ask() == (whole[cut] if cut < len(whole) else [])


@every_engine
@pytest.mark.parametrize("reply", [failing, sometimes_failing])
def test_failed_evaluations_end_no_search(make: MakeEngine, reply: Answer) -> None:
    problem = problem_of(2, 6, 5)
    engine = make(problem, Params(max_rounds=20, seed=3), known_of(problem))
    search(engine, reply)
    logs = [log for one in engine.rounds for log in one.candidates]
    lost = [log for log in logs if log.error and log.error.startswith("failed ")]
    assert lost
    assert all(log.avg is None and not log.won for log in lost)
    assert engine.best.candidate is not None
    if reply is failing:
        assert len(lost) == len(logs)
        assert engine.best.round == 0


def failing_on(case_id: str) -> Answer:
    """Give full marks, but fail on one case."""

    def reply(trial: Trial) -> Observed:
        if trial.case_id == case_id:
            return failing(trial)
        full: dict[Dimension, float] = {name: float(MAXIMA[name]) for name in DIMENSIONS}
        return Observed(trial.candidate.candidate_id, trial.case_id, trial.repeat, full)

    return reply


@every_engine
@pytest.mark.parametrize("lost", ["case_000", "case_004"])
def test_who_lacks_the_scores_of_one_case_is_no_winner(make: MakeEngine, lost: str) -> None:
    problem = problem_of(2, 6, 5)
    engine = make(problem, Params(max_rounds=8, seed=3), known_of(problem))
    asked = [trial for batch in search(engine, failing_on(lost)) for trial in batch]
    logs = [log for one in engine.rounds for log in one.candidates]
    failed = [log for log in logs if log.error == "failed 1/5"]
    assert failed
    assert all(log.avg is None and log.breakdown is None and not log.won for log in logs)
    assert engine.best.round == 0
    originals = {original(problem, skill_id).candidate_id for skill_id in problem.skills}
    assert {trial.candidate.candidate_id for trial in asked if trial.repeat > 1} <= originals


@every_engine
def test_an_original_that_lacks_a_case_is_neither_the_best_nor_tried_further(make: MakeEngine) -> None:
    problem = problem_of(2, 6, 5)
    names = [original(problem, skill_id).candidate_id for skill_id in problem.skills]
    full: dict[Dimension, float] = {name: float(MAXIMA[name]) for name in DIMENSIONS}
    whole = [seen for seen in known_of(problem) if seen.candidate_id == names[1]]
    known = [Observed(names[0], case.case_id, 1, full) for case in problem.cases[:-1]]
    engine = make(problem, Params(max_rounds=3, seed=3), [*known, *whole])
    assert engine.best.candidate is not None
    assert engine.best.candidate.candidate_id == names[1]
    asked = [trial for batch in search(engine) for trial in batch]
    assert names[0] not in {trial.candidate.candidate_id for trial in asked}
    assert engine.best.candidate.candidate_id != names[0]
    alone = make(problem, Params(max_rounds=3, seed=3), known)
    assert alone.best.candidate is None


@every_engine
@pytest.mark.parametrize(
    ("skills", "segments", "cases", "kept"),
    [
        (1, 1, 1, ()),
        (1, 1, 12, ()),
        (1, 5, 2, ()),
        (2, 0, 4, ()),
        (2, 4, 0, ()),
        (2, 4, 3, (0, 1, 2, 3)),
        (4, 30, 3, (7,)),
        (3, 3, 2, (0, 1)),
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_a_small_or_odd_problem_is_searched_without_harm(
    make: MakeEngine, skills: int, segments: int, cases: int, kept: tuple[int, ...], told: bool
) -> None:
    problem = problem_of(skills, segments, cases, kept)
    engine = make(problem, Params(max_rounds=5), known_of(problem) if told else ())
    search(engine)
    best = engine.best
    assert best.stop_cause is not None
    assert best.candidate is None or (best.avg is not None and best.corrected is not None)
    if told and cases and not kept:
        assert best.candidate is not None
    if isinstance(engine, LedgerEngine):
        assert len(engine.ledger()) == segments


@every_engine
@pytest.mark.parametrize("budget", [0, 1, 5, 11, 12, 13, 30, 47, 60, 97])
def test_a_budget_is_never_overdrawn(make: MakeEngine, budget: int) -> None:
    problem = problem_of(2, 8, 12)
    engine = make(problem, Params(max_rounds=99, max_evaluations=budget), known_of(problem))
    spent = sum(len(batch) for batch in search(engine))
    assert spent <= budget
    assert engine.best.evaluations == spent
    assert engine.best.stop_cause == "budget"
    assert (spent > 0) == (budget >= 12)


@every_engine
def test_a_stop_by_hand_leaves_at_most_a_re_test(make: MakeEngine) -> None:
    problem = problem_of(2, 12, 6)
    for answered in range(6):
        engine = make(problem, Params(max_rounds=99), known_of(problem))
        for _ in range(answered):
            engine.tell([answer(trial) for trial in engine.ask()])
        over = not engine.ask()
        engine.stop()
        last = search(engine)
        assert all(trial.repeat > 1 for batch in last for trial in batch)
        assert len(last) <= 1
        assert over or engine.best.stop_cause == "manual"


@every_engine
def test_a_round_names_its_strategies_its_winner_and_its_level(make: MakeEngine) -> None:
    problem = problem_of(2, 8, 6)
    engine = make(problem, Params(max_rounds=9, seed=4), known_of(problem))
    search(engine)
    assert [one.round for one in engine.rounds] == list(range(1, len(engine.rounds) + 1))
    for one in engine.rounds:
        assert 0 <= one.plateau_level <= 3
        assert set(one.strategies_tried) <= set(STRATEGIES)
        assert set(one.strategies_tried) == {log.strategy for log in one.candidates}
        won = [log for log in one.candidates if log.won]
        assert len(won) <= 1
        assert one.winner is not None
        assert not won or won[0].candidate == one.winner
        for log in one.candidates:
            assert (log.avg is None) == (log.breakdown is None) == (log.error is not None)


@every_engine
def test_a_score_that_is_high_enough_ends_the_search(make: MakeEngine) -> None:
    problem = problem_of(2, 8, 6)
    engine = make(problem, Params(max_rounds=99, stop_threshold=20.0), known_of(problem))
    assert search(engine) == []
    assert engine.best.stop_cause == "threshold"


def test_the_plateau_level_follows_the_rounds_without_gain() -> None:
    assert [plateau_level(streak, 2) for streak in range(6)] == [0, 1, 2, 2, 3, 3]
    assert [plateau_level(streak, 1) for streak in range(4)] == [0, 2, 3, 3]


def test_a_candidate_is_named_by_its_content_alone() -> None:
    one, other = candidate_of(["b", "a", "a"], "GREEDY", ["x"]), candidate_of(["a", "b"])
    assert one.candidate_id == other.candidate_id
    assert one.segments == ("a", "b")
    assert candidate_of(["a"]).candidate_id != one.candidate_id


def test_a_candidate_that_lost_a_kept_segment_is_refused() -> None:
    problem = problem_of(2, 4, 3, kept=(1, 2))
    with pytest.raises(UserError) as caught:
        check_kept(problem, candidate_of(["seg_001"]))
    assert caught.value.code == "lab_kept_segment_lost"
    assert caught.value.params["segments"] == "seg_002"
