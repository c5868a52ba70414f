"""Tests of the offline embedder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.retrieval.embedders import VECTORS, open_embedder

OFFLINE = open_embedder("offline", api_key=None, base_url=None)
ANY_TEXT = st.text(st.characters(), max_size=80) | st.text(
    st.sampled_from("灯塔 的ab\x00\ud800é１\U0001f511"), max_size=20
)


@settings(deadline=None)
@given(ANY_TEXT)
def test_any_text_gives_the_same_finite_vector_every_time(text: str) -> None:
    vector, again = OFFLINE.embed_documents([text, text])
    assert vector == again == OFFLINE.embed_query(text)
    assert np.isfinite(vector).all()
    length = float(np.linalg.norm(vector))
    assert length == pytest.approx(1, abs=1e-3) or length == 0


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("我的狗生病了", "宠物看医生", "股票上涨"),
        ("我们坐船出海", "航行在大洋上", "考试成绩"),
        ("my dog is ill", "the pet saw a doctor", "stock prices"),
    ],
)
def test_what_means_alike_is_nearer(text: str, near: str, far: str) -> None:
    own, close, away = (np.array(vector) for vector in OFFLINE.embed_documents([text, near, far]))
    assert own @ close > own @ away + 0.1


def test_no_texts_give_no_vectors() -> None:
    assert OFFLINE.embed_documents([]) == []


def test_the_vectors_come_with_their_origin_and_licences() -> None:
    told = (VECTORS / "README.md").read_text(encoding="utf-8")
    for needed in (
        "synonyms",
        "all-MiniLM-L6-v2",
        "MIT License",
        "Apache-2.0",
        "changed",
        "tools/build_vectors",
    ):
        assert needed in told
    licence = (VECTORS / "LICENSE-Apache-2.0.txt").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence


def test_the_identity_changes_with_the_files() -> None:
    names = sorted(
        path.name for path in VECTORS.iterdir() if path.suffix == ".npy" or path.name.endswith("words.txt")
    )
    digest = hashlib.sha256(b"".join((VECTORS / name).read_bytes() for name in names)).hexdigest()[:8]
    assert digest in OFFLINE.identity, f"the vectors changed: the identity must say {digest}"


def test_the_files_are_small_enough_to_ship() -> None:
    assert sum(path.stat().st_size for path in Path(VECTORS).iterdir()) < 21_000_000
