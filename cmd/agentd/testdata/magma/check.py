"""Holds bodies against the models of magma_core.

    check.py            reads lines {"model": name, "body": text}, writes a line {"error": text or null} for each
    check.py schema     writes the JSON Schema of all models

The schema holds types, fields and bounds. The rules that the models check in code
(unique ids, output or error, proposals or reason) are not in it.
"""

import json
import sys

import pydantic
from magma_core.protocol.agent import AgentHealth, AgentInfo, AgentRequest, AgentResponse
from magma_core.protocol.agent_coaching import (
    CoachingSessionConfig,
    InternalStep,
    ReplaceSay,
    SpecializedCoachingRequest,
    SpecializedCoachingResponse,
)
from pydantic.json_schema import models_json_schema

MODELS = {
    model.__name__: model
    for model in (
        AgentHealth,
        AgentInfo,
        AgentRequest,
        AgentResponse,
        CoachingSessionConfig,
        InternalStep,
        ReplaceSay,
        SpecializedCoachingRequest,
        SpecializedCoachingResponse,
    )
}


def bare(schema, names=False):
    """The schema without its texts; names says that the keys are names of properties."""
    if isinstance(schema, list):
        return [bare(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: bare(value, key in ("properties", "$defs") and not names)
        for key, value in sorted(schema.items())
        if names or key not in ("title", "description", "default")
    }


if sys.argv[1:] == ["schema"]:
    _, schema = models_json_schema([(model, "validation") for model in MODELS.values()])
    lines = [f"{json.dumps(name)}: {json.dumps(model)}" for name, model in bare(schema)["$defs"].items()]
    print('{"$defs": {\n' + ",\n".join(lines) + "\n}}")
else:
    for line in sys.stdin:
        entry = json.loads(line)
        error = None
        try:
            MODELS[entry["model"]].model_validate_json(entry["body"])
        except pydantic.ValidationError as problem:
            error = str(problem)
        print(json.dumps({"error": error}), flush=True)
