"""Uses agentd by OpenAI's own client: openai_client.py BASE_URL"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
models = client.models.list().data
model = models[0].id
assert [(m.id, m.parent) for m in models] == [(model, None), ("careful", model)], models
hello = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]

whole = client.chat.completions.create(model=model, messages=hello, seed=3, max_tokens=12)
text = whole.choices[0].message.content
assert whole.usage.prompt_tokens > 0 and whole.usage.completion_tokens > 0, whole

parts, reasons = [], []
for event in client.chat.completions.create(model=model, messages=hello, seed=3, max_tokens=12, stream=True):
    parts.append(event.choices[0].delta.content or "")
    reasons.append(event.choices[0].finish_reason)
assert "".join(parts) == text, (parts, text)
assert reasons[-1] == whole.choices[0].finish_reason, reasons

usage = {"include_usage": True}
events = list(
    client.chat.completions.create(
        model=model, messages=hello, seed=3, max_tokens=12, stream=True, stream_options=usage
    )
)
assert events[-1].usage.completion_tokens == whole.usage.completion_tokens, events[-1]

pair = client.chat.completions.create(
    model=model, messages=hello, n=2, seed=3, temperature=2, top_p=1, max_completion_tokens=12
).choices
assert len(pair) == 2 and pair[0].message.content != pair[1].message.content, pair

parameters = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}},
    "required": ["on"],
    "additionalProperties": False,
}
tools = [
    {"type": "function", "function": {"name": name, "description": "Sets it.", "parameters": parameters}}
    for name in ("light", "door")
]
choice = {"type": "function", "function": {"name": "door"}}
called = client.chat.completions.create(
    model=model, messages=hello, tools=tools, tool_choice=choice, max_tokens=100
).choices[0]
assert called.finish_reason == "tool_calls" and called.message.tool_calls[0].function.name == "door", called
assert set(json.loads(called.message.tool_calls[0].function.arguments)) == {"on"}, called
answered = [
    *hello,
    called.message,
    {"role": "tool", "tool_call_id": called.message.tool_calls[0].id, "content": "done"},
]
client.chat.completions.create(model=model, messages=answered, tools=tools, max_tokens=100)

loop, ids = list(hello), set()
for stream in (False, True):
    if stream:
        with client.chat.completions.stream(
            model=model, messages=loop, tools=tools, tool_choice="required", max_tokens=100
        ) as events:
            said = events.get_final_completion().choices[0].message
    else:
        said = (
            client.chat.completions.create(
                model=model, messages=loop, tools=tools, tool_choice="required", max_tokens=100
            )
            .choices[0]
            .message
        )
    assert not said.content and len(said.tool_calls) == 1, said
    loop.append(said)
    for call in said.tool_calls:
        assert call.function.name in ("light", "door") and set(json.loads(call.function.arguments)) == {"on"}, call
        ids.add(call.id)
        loop.append({"role": "tool", "tool_call_id": call.id, "content": "done"})
assert len(ids) == 2, ids

cut = client.chat.completions.create(
    model=model, messages=hello, tools=tools, tool_choice="required", max_tokens=3
).choices[0]
assert cut.finish_reason == "length" and cut.message.content is None and not cut.message.tool_calls, cut

schema = {"name": "verdict", "schema": parameters}
verdict = client.chat.completions.create(
    model=model, messages=hello, response_format={"type": "json_schema", "json_schema": schema}, max_tokens=100
).choices[0]
assert set(json.loads(verdict.message.content)) == {"on"}, verdict

raw = {"return_token_ids": True, "structured_outputs": {"grammar": 'root ::= "yes" | "no"'}}
ids = client.completions.create(model=model, prompt=[5, 6, 7], n=3, seed=1, max_tokens=8, extra_body=raw)
assert all(c.text in ("yes", "no") and c.token_ids for c in ids.choices) and len(ids.choices) == 3, ids

greedy = {"prompt": [5, 6, 7], "temperature": 0, "max_tokens": 12, "extra_body": {"return_token_ids": True}}
answers = [client.completions.create(model=m.id, **greedy) for m in (*models, *models)]
assert [a.model for a in answers] == [m.id for m in (*models, *models)], answers
first, second, *again = [a.choices[0].token_ids for a in answers]
assert first != second and again == [first, second], answers

try:
    client.chat.completions.create(model="another", messages=hello)
    raise SystemExit("an unknown model was ignored")
except openai.BadRequestError as e:
    assert e.param == "model" and "careful" in e.message, e

try:
    client.chat.completions.create(model=model, messages=hello, presence_penalty=0.5)
    raise SystemExit("an unsupported field was ignored")
except openai.BadRequestError as e:
    assert e.param == "presence_penalty", e
print("all is well")
