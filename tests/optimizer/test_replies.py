"""Reading what the optimizer said: usable as it stands, or not at all."""

import json

import pytest

from skillopt.messages import Reply
from skillopt.optimizer.replies import Edits, NamedEdits, Ranking, Unusable, analysis_of, read

ANALYSIS = analysis_of(Edits, "failure", notes=False)
GOOD = {
    "batch_size": 2,
    "failure_summary": [],
    "patch": {"reasoning": "r", "edits": [{"op": "append", "content": "你好 {x}"}]},
}


def reply(text, finish="stop"):
    return Reply(text=text, finish=finish, usage=None)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        json.dumps(GOOD, ensure_ascii=False),
        f"```json\n{json.dumps(GOOD)}\n```",
        f"Here it is:\n\n```json\n{json.dumps(GOOD)}\n```\nDone.",
        f"I looked at it. {json.dumps(GOOD)} That is all.",
        f"A set {{of things}} and then {json.dumps(GOOD)}",
        f"  {json.dumps(GOOD, indent=2)}  ",
    ],
)
def test_one_object_is_found_wherever_it_stands(text):
    assert read(reply(text), ANALYSIS).patch.items == GOOD["patch"]["edits"]


def test_edits_of_a_lane_may_come_in_the_form_of_the_published_analysts():
    assert read(reply(json.dumps(GOOD)), NamedEdits).edits == GOOD["patch"]["edits"]
    with pytest.raises(Unusable, match="edits"):
        read(reply(json.dumps({"patch": "none"})), NamedEdits)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json here", "no JSON object"),
        ("", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        (json.dumps(GOOD)[:-5], "no JSON object|wrong shape|JSON objects"),
        ('{"op": "delete"}', "wrong shape"),
        (f"{json.dumps(GOOD)} or rather {json.dumps(GOOD)}", "2 JSON objects"),
        ('{"patch": {"edits": "none"}}', "wrong shape"),
        ("{op: delete}", "no JSON object"),
    ],
)
def test_anything_else_is_unusable_and_says_why(text, why):
    with pytest.raises(Unusable, match=why):
        read(reply(text), ANALYSIS)


@pytest.mark.parametrize(("finish", "why"), [("length", "cut off"), ("refusal", "refused")])
def test_a_reply_that_was_cut_or_refused_is_never_used_even_if_it_parses(finish, why):
    with pytest.raises(Unusable, match=why):
        read(reply(json.dumps(GOOD), finish), ANALYSIS)


def test_indices_are_numbers_and_nothing_else():
    assert read(reply('{"selected_indices": [2, 0]}'), Ranking).selected_indices == [2, 0]
    with pytest.raises(Unusable):
        read(reply('{"selected_indices": ["the first"]}'), Ranking)


@pytest.mark.parametrize("flood", ["{" * 200_000, '{"a":' * 200_000, "[" * 200_000, '{"a": [' * 100_000])
@pytest.mark.timeout(20)
def test_a_flood_of_brackets_is_unusable_and_does_not_hang_or_crash(flood):
    with pytest.raises(Unusable):
        read(reply(flood), ANALYSIS)


def edit_of(value):
    return f'{{"patch": {{"edits": [{{"op": "append", "content": "x", "support": {value}}}]}}}}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (edit_of("[" * 330 + "]" * 330), "nested"),
        (edit_of('{"a":' * 330 + "1" + "}" * 330), "nested"),
        (edit_of("NaN"), "NaN is no number"),
        (edit_of("1e999"), "1e999 is no number"),
        (edit_of("-Infinity"), "no number"),
    ],
)
def test_what_no_file_can_hold_is_unusable(text, why):
    with pytest.raises(Unusable, match=why):
        read(reply(text), ANALYSIS)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("first\nsecond", "first\nsecond"),
        ("a\tb", "a\tb"),
        (r"match \d+\.\d", r"match \d+\.\d"),
        (r"C:\Users and \u12", r"C:\Users and \u12"),
        (r"a \\d and \n and \u00e9", "a \\d and \n and é"),
    ],
)
def test_line_breaks_and_backslashes_that_a_model_forgot_to_escape_are_mended(written, meant):
    text = '{"patch": {"edits": [{"op": "append", "content": "' + written + '"}]}}'
    for around in ("%s", "Here it is:\n```json\n%s\n```", "I think %s is best."):
        (edit,) = read(reply(around % text), ANALYSIS).patch.items
        assert edit["content"] == meant


def test_half_a_surrogate_pair_in_an_escape_is_replaced_and_bricks_nothing():
    text = '{"patch": {"edits": [{"op": "append", "content": "cut emoji \\ud83d end"}]}}'
    (edit,) = read(reply(text), ANALYSIS).patch.items
    assert edit["content"].encode() == b"cut emoji ? end"
