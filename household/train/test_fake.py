"""A small made-up data set in the form that the data set program writes, for tests and measurements."""

import json
import random

ROLE = "You command robots. " + " ".join(
    f"Rule {i}: take the next necessary step, {w}, and keep going until the task is done."
    for i, w in enumerate(
        "look around;name the robot;invent nothing;do not repeat a call;reply shortly;ask one question;stay calm".split(
            ";"
        )
    )
)
ROOMS = ["kitchen", "office", "bedroom", "hall"]
THINGS = ["red cup", "blue box", "lamp", "book", "towel", "tray"]


def word(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3))


def turn(role: str, text: str) -> dict:
    return {
        "pieces": [["s", "<|im_start|>"], ["t", f"{role}\n{text}"], ["s", "<|im_end|>"], ["t", "\n"]],
        "loss": False,
    }


def answer(pieces: list) -> list[dict]:
    return [
        {"pieces": [["s", "<|im_start|>"], ["t", "assistant\n"]], "loss": False},
        {"pieces": pieces + [["s", "<|im_end|>"]], "loss": True},
        {"pieces": [["t", "\n"]], "loss": False},
    ]


def call(name: str, parameter: str, value: str) -> list:
    arguments = json.dumps({parameter: value, "target_robot": "rover"})
    return [["s", "<tool_call>"], ["t", f'\n{{"name": "{name}", "arguments": {arguments}}}\n'], ["s", "</tool_call>"]]


def group(rng: random.Random, episodes: int, turns: int) -> dict:
    """Episodes that name a room or a thing and expect a call of the tool for it."""
    go, take = word(rng), word(rng)
    tools = "".join(
        "\n"
        + json.dumps(
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": description,
                    "parameters": {
                        "type": "object",
                        "properties": {
                            parameter: {"type": "string"},
                            "target_robot": {"type": "string", "enum": ["rover"]},
                        },
                        "required": [parameter, "target_robot"],
                    },
                },
            }
        )
        for name, description, parameter in [
            (go, "Drive to a room.", "room"),
            (take, "Pick something up.", "thing"),
            (word(rng), "Wave.", "who"),
        ]
    )
    out = []
    for _ in range(episodes):
        segments: list[dict] = []
        for _ in range(turns):
            if rng.random() < 0.5:
                value = rng.choice(ROOMS)
                text, pieces = f"Go to the {value}, please.", call(go, "room", value)
            else:
                value = rng.choice(THINGS)
                text, pieces = f"Could you take the {value}?", call(take, "thing", value)
            segments += [turn("user", text)] + answer(pieces)
            segments += [turn("user", "Environment status:\nDone.")] + answer([["t", f"The {value} is done."]])
        out.append(segments)
    system = f"system\n{ROLE}\n\n# Tools\n\nThese are the tools:\n<tools>{tools}\n</tools>"
    return {"prefix": [["s", "<|im_start|>"], ["t", system], ["s", "<|im_end|>"], ["t", "\n"]], "episodes": out}


def write(path: str, groups: int, seed: int, episodes: int = 8, turns: int = 4) -> None:
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(groups):
            out.write(json.dumps(group(rng, episodes, turns)) + "\n")
