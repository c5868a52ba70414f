"""What a made-up world is: the same for a seed, with an optimum that is the optimum and scores true to it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from personalab.lab.engine.problem import Trial, candidate_of, original
from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA
from personalab.lab.world import CASES, PRESETS, SEGMENTS, Preset, World, make_world


def _best(world: World) -> set[str]:
    """Find the best set of segments; no set at all is none."""
    top = int(np.argmax(world.truth[1:])) + 1
    return {one.segment_id for place, one in enumerate(world.problem.segments) if top >> place & 1}


def test_a_world_follows_from_its_seed() -> None:
    one, same, other = make_world(7), make_world(7), make_world(8)
    assert one.originals() == same.originals()
    assert np.array_equal(one.truth, same.truth)
    assert one.problem == same.problem
    assert not np.array_equal(one.truth, other.truth)


def test_a_world_has_the_size_that_was_measured() -> None:
    problem = make_world(0).problem
    assert (len(problem.segments), len(problem.skills), len(problem.cases)) == (16, 4, 12)
    assert [len(names) for names in problem.skills.values()] == [4, 4, 4, 4]
    assert {one.category for one in problem.cases} == set(CATEGORIES)


@pytest.mark.parametrize("preset", ["base", "deceptive"])
def test_no_set_is_better_than_the_optimum(preset: Preset) -> None:
    world = make_world(3, preset)
    best = _best(world)
    names = [one.segment_id for one in world.problem.segments]
    assert world.true_score(candidate_of(best)) == world.optimum
    assert world.headroom(candidate_of(best)) == 1.0
    for changed in (*combinations(names, 1), *combinations(names, 2)):
        neighbour = best ^ set(changed)
        assert not neighbour or world.true_score(candidate_of(neighbour)) <= world.optimum
    assert world.start == max(
        world.true_score(original(world.problem, skill_id)) for skill_id in world.problem.skills
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_scores_are_whole_in_range_and_average_to_the_truth(preset: Preset) -> None:
    world = make_world(5, preset)
    candidate = candidate_of(_best(world))
    totals: list[float] = []
    for repeat in range(1, 121):
        for case in world.problem.cases:
            scores = world.evaluate(Trial(candidate, case.case_id, repeat)).scores
            assert scores is not None
            assert all(score == int(score) and 0 <= score <= MAXIMA[name] for name, score in scores.items())
            totals.append(sum(scores[name] for name in DIMENSIONS))
    noise = 9.0 if preset == "noisy" else 5.5
    assert abs(sum(totals) / len(totals) - world.true_score(candidate)) < 4 * noise / len(totals) ** 0.5


def test_one_evaluation_varies_by_about_five_points() -> None:
    world = make_world(1)
    candidate = original(world.problem, "skill_1")
    table = np.array(
        [
            [
                sum((world.evaluate(Trial(candidate, case.case_id, repeat)).scores or {}).values())
                for case in world.problem.cases
            ]
            for repeat in range(1, 151)
        ]
    )
    assert table.shape == (150, CASES)
    assert 4.4 < float(table.std(axis=0).mean()) < 5.4


def test_under_pure_noise_every_set_is_worth_the_same() -> None:
    world = make_world(2, "pure_noise")
    assert float(np.ptp(world.truth)) < 1e-3
    assert not world.counts


def test_in_a_deceptive_world_no_segment_alone_does_anything() -> None:
    world = make_world(2, "deceptive")
    singles = [float(world.truth[1 << place]) for place in range(SEGMENTS)]
    assert max(singles) - min(singles) < 1e-3
    assert world.counts


def test_the_analysts_tags_are_right_two_times_in_three() -> None:
    # What a segment is mainly about is hidden; a tag that is right names the dimension it moves most.
    right = total = 0
    for seed in range(8):
        world = make_world(seed)
        effects = world._hidden.effects.mean(axis=0)  # pyright: ignore[reportPrivateUsage]
        for place, segment in enumerate(world.problem.segments):
            total += 1
            right += segment.dimension == DIMENSIONS[int(np.argmax(np.abs(effects[place])))]
    assert 0.4 < right / total < 0.8
