"""Asks agentd by OpenAI's and TypeSafe's own clients: decide_client.py SERVER"""

import math
import sys

import openai
from typesafe_sdk import Choice, Noul, Score, TypeSafeClient

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
said = [
    {"role": "developer", "content": "You watch a robot."},
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "Bring the cup."}, {"type": "input_json", "data": {"room": "hall"}}],
    },
    {"type": "function_call", "call_id": "1", "name": "find", "arguments": '{"what": "cup"}'},
    {"type": "function_call_output", "call_id": "1", "output": "The cup is on the table."},
]
questions = [
    {"type": "predicate", "name": "done", "instructions": "Is the task done?"},
    {
        "type": "choice",
        "instructions": "Where is the cup?",
        "choices": [{"value": "table"}, {"value": "shelf", "description": "a high one"}, {"value": True}],
    },
    {
        "type": "score",
        "name": "risk",
        "instructions": "How risky is it?",
        "levels": [{"label": "safe"}, {"label": "risky"}],
    },
]
answer = client.decisions.create(model="any", input=said, questions=questions)
done, where, risk = answer.answers
assert (done.type, done.name) == ("predicate", "done") and 0 < done.probability < 1, done
assert where.type == "choice" and where.name is None and where.choice in ("table", "shelf", True), where
assert [p.value for p in where.probabilities] == ["table", "shelf", True], where
assert math.isclose(sum(p.probability for p in where.probabilities), 1, rel_tol=1e-9), where
assert math.isclose(where.confidence, max(p.probability for p in where.probabilities)), where
assert [(p.label, p.value) for p in risk.probabilities] == [("safe", 0), ("risky", 1)], risk
assert math.isclose(risk.score, risk.probabilities[1].probability), risk
usage = answer.usage
assert usage.input_tokens == usage.input_tokens_details.cached_tokens + usage.input_tokens_details.cache_write_tokens, (
    usage
)
assert usage.output_tokens >= 3 and usage.total_tokens == usage.input_tokens + usage.output_tokens, usage
again = client.decisions.create(model="any", input=said, questions=questions)
assert again.answers == answer.answers, (again, answer)
assert again.usage.input_tokens_details.cached_tokens > 0, again.usage
text = client.decisions.create(
    model="any", input="The door is open.", questions=questions[:1], extra_body={"orders": 2}
)
assert 0 < text.answers[0].probability < 1, text

seen = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
for wrong, param in (
    ({"input": seen, "questions": questions}, "input[0].content[0]"),
    ({"input": "a", "questions": []}, "questions"),
    ({"input": "a", "questions": questions * 134}, "questions"),
    ({"input": "a", "questions": [{**questions[1], "choices": [{"value": "a"}] * 2}]}, "questions[0].choices"),
):
    try:
        client.decisions.create(model="any", **wrong)
    except openai.BadRequestError as e:
        assert e.param == param, e
    else:
        raise AssertionError(param)

with TypeSafeClient(api_key="none", base_url=sys.argv[1]) as system:
    told = system.system_one(
        state={"message": "I was charged twice.", "open": True},
        questions={
            "billing": Noul(instructions="Is this about billing?"),
            "tone": Choice(instructions="What is the tone?", criteria={"calm": "polite", "angry": None}),
            "urgency": Score(instructions="How urgent is it?", criteria=["can wait", "this week", "today"]),
        },
    )
    assert 0 <= told.nouls["billing"].noul <= 1, told
    tone = told.choices["tone"]
    assert tone.choice in {"calm", "angry"} and math.isclose(sum(tone.probabilities.values()), 1, rel_tol=1e-9), told
    assert told.scores["urgency"].legend == {0: "can wait", 1: "this week", 2: "today"}, told
    assert 0 <= told.scores["urgency"].score <= 2 and told.usage.output_tokens >= 3, told
print("all is well")
