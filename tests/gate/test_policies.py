"""What each policy asks for beyond a better score, and how it says so."""

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate._rules import sign_flip_p
from gate._tables import Table, judge
from skillopt.config.load import load
from skillopt.config.schema import GateConfig
from skillopt.errors import SkillOptError, UnknownName
from skillopt.evaluation.compare import paired_p
from skillopt.events import Judged, StageClosed
from skillopt.gate.decision import Case
from skillopt.gate.gate import digest
from skillopt.gate.policies import POLICIES, Strict, decide, sign_flip_p_value
from skillopt.runs.explain import _reason
from skillopt.tasks.rollout import Score

ONE, ZERO, HALF = Fraction(1), Fraction(0), Fraction(1, 2)
PASS, FAIL = Score(hard=1.0, soft=1.0), Score(hard=0.0, soft=0.0)
READING = {"metric": "hard", "weight": 0.5, "ahead": 4}


def one_draw(*bars, **limits):
    seed_chars = limits.pop("seed_chars", 0)
    rows = {(f"t{number:02d}", 0): bar for number, bar in enumerate(bars)}
    return Case.of(rows, settings=GateConfig(**limits), seed_chars=seed_chars)


def ended(name, case, candidate):
    reader, uppers = decide(name, case, candidate)
    return reader.ruling, reader.decided_by, len(uppers)


def table_of(candidate):
    return Table({row: (score, score) for row, score in candidate.items()}, random.Random(0))


class Margin(Strict):
    def objection(self):
        if self.upper - self.bar < 1:
            return "score", "better by a row is wanted"
        return super().objection()


def test_a_reject_of_a_policy_of_ones_own_is_explained_in_its_own_words() -> None:
    with POLICIES.lend("margin", Margin):
        own, _ = decide("margin", one_draw(HALF), [ONE])
    assert own.ruling == "reject" and own.upper > own.bar
    assert _reason(own, []) == "better by a row is wanted"
    strict, _ = decide("strict", one_draw(ONE), [])
    assert _reason(strict, []) == "U <= I after 0 of 1 rows"


# no_regression


def test_one_worse_row_outweighs_any_number_of_better_ones():
    assert ended("no_regression", one_draw(ZERO, ZERO, HALF, ONE), [ONE, ONE, ZERO]) == (
        "reject",
        "regression",
        3,
    )
    assert ended("no_regression", one_draw(ZERO, ZERO, HALF, ONE), [ONE, ZERO, HALF, ONE]) == (
        "accept",
        "regression",
        4,
    )


def test_no_row_worse_is_not_enough_without_a_better_one():
    assert ended("no_regression", one_draw(ZERO, ONE), [ZERO]) == ("reject", "score", 1)


# paired


def test_five_fixed_and_none_broken_is_no_accident_and_four_are():
    bars = [ZERO] * 6
    assert ended("paired", one_draw(*bars), [ONE] * 5 + [ZERO]) == ("accept", "chance", 6)  # p = 1/32
    # p = 1/16
    assert ended("paired", one_draw(*bars), [ONE, ONE, ONE, ZERO, ONE, ZERO]) == (
        "reject",
        "chance",
        6,
    )


def test_where_too_few_rows_can_change_nothing_is_measured():
    assert ended("paired", one_draw(ZERO, ZERO, ZERO, ZERO, ONE, ONE), [ONE] * 6) == ("reject", "chance", 0)
    assert ended("paired", one_draw(ZERO, ZERO, ZERO, ZERO, ONE, ONE, alpha=0.0625), [ONE] * 6)[0] == "accept"


def test_the_draws_of_one_task_are_one_witness():
    drawn = {(task, draw): ZERO for task in "abcd" for draw in range(3)}
    # twelve rows, but four tasks: p = 1/16
    assert ended("paired", Case.of(drawn), [ONE] * 12) == (
        "reject",
        "chance",
        0,
    )
    drawn |= {("e", draw): ZERO for draw in range(3)}
    assert ended("paired", Case.of(drawn), [ONE] * 15)[0] == "accept"


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_the_chance_of_an_accident_counts_all_sign_patterns(moves):
    assert sign_flip_p_value(moves) == sign_flip_p([Fraction(move) for move in moves])


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=14).filter(lambda moves: sum(moves) > 0))
def test_it_is_half_of_the_two_sided_figure_that_comparisons_report(moves):
    assert float(2 * sign_flip_p_value(moves)) == pytest.approx(min(1.0, paired_p(moves)[0]), abs=2e-12)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=10), st.data())
def test_a_better_row_never_makes_an_accident_likelier(moves, data):
    at, more = data.draw(st.integers(0, len(moves) - 1)), data.draw(st.integers(0, 60))
    better = [move + more if number == at else move for number, move in enumerate(moves)]
    assert sign_flip_p_value(better) <= sign_flip_p_value(moves)


@given(st.lists(st.integers(-20, 40), min_size=1, max_size=60), st.sampled_from([0.01, 0.05, 0.3]))
def test_far_ahead_is_never_said_of_a_possible_accident(moves, alpha):
    bars = [Fraction(max(0, -move), 100) for move in moves]
    rows = [bar + Fraction(move, 100) for bar, move in zip(bars, moves, strict=True)]
    order = sorted(range(len(moves)), key=lambda at: bars[at])
    reader, _ = decide(
        "paired", one_draw(*(bars[at] for at in order), alpha=alpha), [rows[at] for at in order]
    )
    unit = 10 if len(moves) <= 100 else 1
    is_likely = sign_flip_p_value([unit * move for move in moves]) > Fraction(str(alpha))
    assert (reader.ruling == "accept") == (sum(moves) > 0 and not is_likely)


def test_hundreds_of_graded_rows_are_counted_in_a_moment():
    rng = random.Random(1)
    bars = sorted(Fraction(rng.random()) for _ in range(300))
    rows = [min(ONE, max(ZERO, bar + Fraction(rng.gauss(0.03, 0.3)))) for bar in bars]
    reader, uppers = decide("paired", one_draw(*bars), rows)  # the test's own time limit is the claim
    assert reader.ruling in ("accept", "reject")
    assert uppers


# size_capped


@pytest.mark.parametrize(
    ("chars", "incumbent_chars", "cap", "said"),
    [
        (50, 40, 50, "accept"),
        (51, 40, 50, "reject"),
        (60, 61, 50, "accept"),
        (60, 60, 50, "reject"),
        (4_000, 10, 0, "accept"),
    ],
)
def test_too_long_is_rejected_unless_it_makes_the_skill_shorter(chars, incumbent_chars, cap, said):
    bars = {("a", 0): ZERO}
    case = Case.of(bars, settings=GateConfig(max_chars=cap), chars=chars, incumbent_chars=incumbent_chars)
    ruling, decided_by, read = ended("size_capped", case, [ONE])
    assert (ruling, decided_by, read) == (said, "length", 0 if said == "reject" else 1)


def test_too_long_costs_no_rollout():
    table = table_of({("a", 0): PASS})
    verdict, events = judge(
        {("a", 0): FAIL}, table, policy="size_capped", max_chars=100, candidate="x" * 101, **READING
    )
    assert (verdict.action, verdict.decided_by, verdict.bound, verdict.rows, table.asked) == (
        "reject",
        "length",
        None,
        (),
        [],
    )
    assert "101 characters, at most 100" in verdict.why
    assert [event.rows for event in events if isinstance(event, StageClosed)] == [[]]


# confirm


def drawn(tasks, first, again):
    """A task's first draw, and its draw in the confirmation."""
    return {(task, draw): score for task in tasks for draw, score in enumerate((first, again))}


def test_a_candidate_that_was_lucky_once_is_found_out():
    incumbent = {**drawn("abc", PASS, PASS), **drawn("de", FAIL, PASS)}
    candidate = {**drawn("abcde", PASS, FAIL)}
    table = table_of(candidate)
    verdict, _ = judge(incumbent, table, policy="confirm", first_draws=1, **{**READING, "ahead": 1})
    assert (verdict.action, verdict.decided_by) == ("reject", "confirmation")
    assert "1.0000 at first" in verdict.why
    assert verdict.rows_total == 10
    # after two failures of the second reading nothing can be better than 0.8
    assert len(table.asked) == len(verdict.rows) == 7


def test_a_reject_on_the_first_draws_asks_for_no_further_ones():
    incumbent, candidate = drawn("abcde", PASS, FAIL), drawn("abcde", FAIL, PASS)
    table = table_of(candidate)
    verdict, _ = judge(incumbent, table, policy="confirm", first_draws=1, **READING)
    assert (verdict.action, verdict.decided_by, verdict.rows_total) == ("reject", "score", 5)
    assert {draw for _, draw in table.asked} == {0}


def test_an_accepted_skill_carries_the_mean_of_all_its_draws():
    incumbent = {**drawn("abc", PASS, FAIL), **drawn("de", FAIL, FAIL)}
    candidate = {**drawn("abcd", PASS, PASS), **drawn("e", PASS, FAIL)}
    verdict, _ = judge(incumbent, table_of(candidate), policy="confirm", first_draws=1, **READING)
    assert (verdict.action, verdict.decided_by) == ("accept", "confirmation")
    assert (verdict.incumbent, verdict.candidate.score, verdict.candidate.hard) == (0.3, 0.9, 0.9)
    assert len(verdict.candidate.values) == 10


def test_a_confirmation_without_its_draws_is_indecisive():
    incumbent, candidate = drawn("abcde", FAIL, FAIL), drawn("abcde", PASS, PASS)
    verdict, _ = judge(
        incumbent, table_of({**candidate, ("c", 1): None}), policy="confirm", first_draws=1, **READING
    )
    assert (verdict.action, verdict.decided_by, verdict.candidate) == ("inconclusive", "indecisive", None)
    assert "further draws" in verdict.why and "c (parse)" in verdict.why
    verdict, _ = judge(
        incumbent, table_of({**candidate, ("c", 0): None}), policy="confirm", first_draws=1, **READING
    )
    assert (verdict.action, verdict.decided_by, len(verdict.rows)) == ("inconclusive", "lost rows", 5)


def test_the_incumbents_lucky_first_draws_do_not_raise_the_bar():
    incumbent = {**drawn("abcd", PASS, FAIL), **drawn("e", FAIL, FAIL)}  # 0.8 at first, 0.4 in the end
    candidate = {**drawn("abc", PASS, PASS), **drawn("de", FAIL, FAIL)}  # 0.6
    assert (
        judge(incumbent, table_of(candidate), policy="confirm", first_draws=1, **READING)[0].action
        == "accept"
    )


# all of them


@pytest.mark.parametrize("name", POLICIES.names())
def test_the_event_names_the_policy_what_decided_and_which_text(name):
    incumbent = {(task, draw): FAIL for task in "abcdef" for draw in range(2)}
    verdict, events = judge(
        incumbent,
        table_of(dict.fromkeys(incumbent, PASS)),
        policy=name,
        **READING,
        first_draws=1 + (name != "confirm"),
    )
    [judged] = [event for event in events if isinstance(event, Judged)]
    clause = {
        "strict": "score",
        "paired": "chance",
        "no_regression": "regression",
        "size_capped": "length",
        "confirm": "confirmation",
    }
    assert (judged.action, judged.policy, judged.decided_by) == ("accept", name, clause[name])
    assert judged.skill == digest("new")
    assert judged.why == verdict.why


@pytest.mark.parametrize("name", POLICIES.names())
def test_no_policy_accepts_what_is_not_strictly_better(name):
    further = {"further": 1} if name == "confirm" else {}
    bars = {(task, draw): HALF for task in "abcdef" for draw in range(2)}
    reader, _ = decide(name, Case.of(bars, **further), [HALF] * 12)
    assert reader.ruling == "reject"


def test_an_unknown_policy_is_an_error_with_the_near_miss(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'confirm'"):
        POLICIES.get("confrim")
    with pytest.raises(UnknownName, match="Did you mean 'paired'"):
        judge({("a", 0): FAIL}, table_of({}), policy="pairde", **READING)
    with pytest.raises(SkillOptError, match="strict"):
        load(None, flags={}, options=["env.name=world", "gate.policy=strcit"], environ={}, cwd=tmp_path)


@pytest.mark.parametrize("name", POLICIES.names())
def test_the_configuration_takes_and_names_every_policy_of_ours(name, tmp_path):
    options = ["env.name=world", f"gate.policy={name}"]
    assert load(None, flags={}, options=options, environ={}, cwd=tmp_path).config.gate.policy == name
    assert name in GateConfig.model_fields["policy"].description


def test_u_never_rises_within_a_reading():
    reader, uppers = decide(
        "confirm",
        Case.of(dict.fromkeys([("a", 0), ("a", 1), ("b", 0), ("b", 1)], ZERO), further=1),
        [ONE, ZERO, ONE, ZERO],
    )
    assert reader.ruling == "accept"
    assert all(one >= other for one, other in pairwise(uppers[:2]))
    assert uppers == [2, 1, 3, 2]


@pytest.mark.parametrize("policy", ["strict", "no_regression", "paired", "size_capped"])
def test_a_task_with_a_veto_alone_lifts_no_candidate_and_may_stop_one(policy):
    veto = {"veto_only": ["t00", "t01", "t02", "t03", "t04"], "alpha": 0.5}
    case = one_draw(ZERO, ZERO, ZERO, ZERO, HALF, HALF, HALF, **veto)
    assert [row for row, _ in case.rows][-2:] == ["t05", "t06"]
    better_on_form = [ONE] * 5 + [HALF, HALF]
    assert ended(policy, case, better_on_form)[0] == "reject"
    assert ended(policy, case, [ZERO] * 4 + [HALF, ONE, ONE])[0] == "accept"
    assert ended(policy, case, [ONE] * 4 + [ZERO, HALF, HALF + Fraction(1, 4)])[0] == "reject"
