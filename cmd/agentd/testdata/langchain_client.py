"""Uses agentd by LangChain's client of OpenAI's API: langchain_client.py BASE_URL"""

import sys

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

model = ChatOpenAI(
    base_url=sys.argv[1], api_key="none", model="", max_retries=0, max_tokens=200, temperature=0.6, stream_usage=True
)


@tool
def set_light(on: bool) -> str:
    """Sets a light that is <near> & bright."""
    return f"the light is {'on' if on else 'off'}"


@tool
def move(direction: str, steps: int) -> str:
    """Moves."""
    raise AssertionError("not chosen")


def answer(bound, messages, streamed):
    """The answer at once, or put together of a stream."""
    if not streamed:
        return bound.invoke(messages)
    whole = None
    for part in bound.stream(messages):
        whole = part if whole is None else whole + part
    return whole


for streamed in (False, True):
    messages = [SystemMessage("Be brief."), HumanMessage("Set the light, twice.")]
    ids = set()
    for _ in range(2):
        said = answer(model.bind_tools([set_light, move], tool_choice="set_light"), messages, streamed)
        assert [call["name"] for call in said.tool_calls] == ["set_light"] and not said.invalid_tool_calls, said
        messages.append(said)
        for call in said.tool_calls:
            ids.add(call["id"])
            messages.append(ToolMessage(set_light.invoke(call["args"]), tool_call_id=call["id"]))
    assert len(ids) == 2, ids
    said = answer(model.bind_tools([set_light, move], tool_choice="none"), messages, streamed)
    assert not said.tool_calls, said
    assert said.usage_metadata["output_tokens"] > 0, said


class Verdict(BaseModel):
    good: bool
    count: int


verdict = model.with_structured_output(Verdict, method="json_schema").invoke("Is it good?")
assert isinstance(verdict, Verdict), verdict
parts = list(model.with_structured_output(Verdict, method="json_schema").stream("Is it good?"))
assert isinstance(parts[-1], Verdict), parts
print("all is well")
