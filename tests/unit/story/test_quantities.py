"""A character is told in words: traits in figures are found, figures of the story are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.story.persona import figure_in

SCORES = """
信任度 80%
好感 7/10
trust: 8
+5
Level 3
80 分
对玩家的信任度从 60 上升到 80。
好感度：75
好感＋５
信任８０％
她的信任度为八十分
信任度提升了二十点
好感度三级
信任值 = 12
信任 80，怀疑 20
亲密等级 3
羁绊 Lv.3
忠诚★★★☆☆
愤怒：███░░
信任增加了 10 点
信任百分之八十
信任减少三级
Trust 8/10, fear 2/10
Her trust is now at 8.
trust level of 7
affection has risen to 75 and
She is eighty percent sure of him
trust -5
loyalty score: 9
gained 5 trust points
gains 3 points of affection.
7 out of 10 in trust
confidence = 0.8
openness 0.7, neuroticism 0.2
HP: 100
她给他打了 95 分
信任度-5
心情指数 6.5
好感度达到了 100
好感度八十
信任度已经到了九十五，再没有退路
她对他好感大增，已有八成信任
她的信任有八成。
信任 7 点
信任 80 左右
信任从 60 变成 80
She reached level 4 with him
level 5 friendship
好感 +1000
"""
FACTS = """
三天前她被背叛了。
In 1987 she lost her brother.
她住在第 3 号避难所。
她对玩家的信任在 3 天前破裂。
信任度一落千丈，一点点回升。
她十分信任他，信任度十分低。
她百分之百信任他。
凌晨 3 点 15 分她醒来，等了 10 分钟。
2087 年，核战后 50 年，气温 -20 度。
他欠她 300 瓶盖，价值 3 枚金币。
她数了 5 个人，都带着枪。
第 2 分队有 12 人。
Her trust in 3 men was broken.
His love of 20 years is gone.
She found love at 17, and lost it in 1990.
They hid on Level 3 of the bunker.
Seven out of ten men died; 7 out of 10 men died.
On 12/10/1987 the ship sank.
Her one hope is 3 brothers still at sea.
24/7 she keeps the lamp.
She keeps 3 points of light in view at 51.5 north.
他们之间的关系经历了三次转折。
怀疑 2 号仓库有内鬼。
怀疑三个人。
她的勇气来自 2 年前的一次救援。
信任一分分地重建，三分信任，七分怀疑。
恐惧让她在 3 点钟就醒了。
他加了 3 勺糖，下降了 30 米。
UTC+8
1+1
Trust takes 3 things: time, words, deeds.
Her fear of 13 candles.
The 20-year bond held.
She has read 100 pages; his strength has 2 sources.
第 5 轮里他答应不再冲动。
他相信希望 7 号会来。
八成是他干的。
She gave him her trust; 2 days later he was gone.
其信任，2 天后便破了。
获得了 3 点钟的船票
她希望7点前回到灯塔。
她希望7点回到灯塔
她希望 20 艘船都能平安回来。
5/10 那天她第一次笑了。
Since 5/10 she has not slept.
She has level 4 clearance now.
她记得+86开头的号码。
她背得出 +86 138 0000 0000。
心情2号线上的那次告别让她变得沉默。
关系从1999年的那场雪开始变好。
她八成信任他了吧
八成希望他来
"""


@pytest.mark.parametrize("text", SCORES.strip().splitlines())
def test_a_trait_in_figures_is_found(text: str) -> None:
    assert figure_in(text)
    assert figure_in(f"她变了。{text}\nShe has changed.")


@pytest.mark.parametrize("text", FACTS.strip().splitlines())
def test_figures_of_the_story_are_left_alone(text: str) -> None:
    assert figure_in(text) is None


@given(st.text(max_size=400))
def test_any_text_can_be_looked_at(text: str) -> None:
    found = figure_in(text)
    assert found is None or found


@given(st.sampled_from(["信任", "好感度", "忠诚值", "恐惧指数"]), st.integers(0, 100))
def test_any_figure_behind_a_trait_is_found(trait: str, value: int) -> None:
    assert figure_in(f"{trait}：{value}")
    assert figure_in(f"{trait}{value}%")
    assert figure_in(f"她的{trait} {value}/100。")
