"""A small simulated task for two robots: the medicine has to be brought from a locked cupboard to a table.

Each tool has preconditions; a call that breaks one changes nothing and fails with a sentence that says why.
Nothing is random. house.json has the task and the tools.
"""

import json
import pathlib

DESCRIPTION = json.loads((pathlib.Path(__file__).parent / "house.json").read_text(encoding="utf-8"))
WHERE = {"cupboard": "in the cupboard", "table": "on the table", "rover": "with the rover"}


class Failure(Exception):
    """Says why a call failed."""


class House:
    """The state of the house. copy.copy of it is a snapshot to return to."""

    def __init__(self) -> None:
        self.room = "hall"  # where the rover is: hall, kitchen or lounge
        self.holds = "nothing"  # what the rover holds: medicine, plate or nothing
        self.cupboard = "locked"  # or shut or open
        self.medicine = "cupboard"  # where it is: cupboard, table or rover
        self.plate = "cupboard"  # the same

    def done(self) -> bool:
        """Whether the medicine is where it should be."""
        return self.medicine == "table"

    def __str__(self) -> str:
        """How things stand. The scripted coach reads these sentences."""
        holds = self.holds if self.holds == "nothing" else "the " + self.holds
        return (
            f"The rover is in the {self.room} and holds {holds}. The cupboard is {self.cupboard}. "
            f"The medicine is {WHERE[self.medicine]}. The plate is {WHERE[self.plate]}."
        )

    def do(self, call: dict) -> str:
        """Carries out one call and reports what happened, or raises Failure."""
        robot, name = call["target_robot_name"], call["name"]
        if robot not in ("rover", "arm"):
            raise Failure(f"There is no robot {robot}, only the rover and the arm.")
        tools = {
            "go_to": (self.go_to, ["room"]),
            "unlock": (self.unlock, ["furniture", "code"]),
            "open": (self.open, ["furniture"]),
            "pick_up": (self.pick_up, ["object"]),
            "put_down": (self.put_down, ["furniture"]),
        }
        if name not in tools:
            raise Failure(f"There is no tool {name}.")
        tool, parameters = tools[name]
        values = [call["arguments"].get(parameter) for parameter in parameters]
        return tool(robot, *[value if isinstance(value, str) else "" for value in values])

    def go_to(self, robot: str, room: str) -> str:
        if robot != "rover":
            raise Failure("The arm is fixed to the kitchen worktop and can't drive.")
        if room not in ("hall", "kitchen", "lounge"):
            raise Failure(f"There is no room {quoted(room)}; there are hall, kitchen and lounge.")
        if room == self.room:
            raise Failure(f"The rover is in the {room} already.")
        self.room = room
        seen = {"kitchen": " " + self.inside(), "lounge": f" On the table: {self.at('table')}."}
        return f"rover is in the {room}." + seen.get(room, "")

    def at(self, place: str) -> str:
        """What is on the table or in the cupboard."""
        return ", ".join(thing for thing in ("medicine", "plate") if getattr(self, thing) == place) or "nothing"

    def inside(self) -> str:
        """What the rover sees of the cupboard."""
        if self.cupboard == "open":
            return f"The cupboard is open. In the cupboard: {self.at('cupboard')}."
        return "The cupboard is closed."

    def unlock(self, robot: str, furniture: str, code: str) -> str:
        if robot != "arm":
            raise Failure("The rover can't work a lock, the arm can.")
        if furniture != "cupboard":
            raise Failure("Only the cupboard has a lock.")
        if self.cupboard != "locked":
            raise Failure("The cupboard is not locked.")
        if code != DESCRIPTION["code"]:
            raise Failure(f"The lock of the cupboard does not take the code {quoted(code)}.")
        self.cupboard = "shut"
        return "arm has unlocked the cupboard. The cupboard is closed."

    def open(self, robot: str, furniture: str) -> str:
        if robot != "rover":
            raise Failure("The arm can't open doors, the rover can.")
        if furniture != "cupboard":
            raise Failure("Only the cupboard can be opened.")
        if self.room != "kitchen":
            raise Failure(f"The cupboard is in the kitchen, the rover is in the {self.room}.")
        if self.cupboard == "locked":
            raise Failure("The cupboard is locked. It has to be unlocked with its code.")
        if self.cupboard == "open":
            raise Failure("The cupboard is open already.")
        self.cupboard = "open"
        return "rover has opened the cupboard. " + self.inside()

    def pick_up(self, robot: str, thing: str) -> str:
        if robot != "rover":
            raise Failure("The arm can't carry, the rover can.")
        if thing not in ("medicine", "plate"):
            raise Failure(f"There is no {quoted(thing)} to pick up; there are medicine and plate.")
        if self.holds != "nothing":
            raise Failure(f"The rover holds the {self.holds} and has no second gripper.")
        place = getattr(self, thing)
        if place == "table" and self.room != "lounge":
            raise Failure(f"The {thing} is on the table in the lounge, the rover is in the {self.room}.")
        if place == "cupboard" and self.cupboard != "open":
            raise Failure(f"The rover can't see the {thing}; the cupboard is {self.cupboard}.")
        if place == "cupboard" and self.room != "kitchen":
            raise Failure(f"The {thing} is in the cupboard in the kitchen, the rover is in the {self.room}.")
        setattr(self, thing, "rover")
        self.holds = thing
        return f"rover holds the {thing}."

    def put_down(self, robot: str, furniture: str) -> str:
        if robot != "rover":
            raise Failure("The arm holds nothing, and can't.")
        if self.holds == "nothing":
            raise Failure("The rover holds nothing.")
        if furniture not in ("table", "cupboard"):
            raise Failure(f"Things can't be put on {quoted(furniture)}; there are the table and the cupboard.")
        if furniture == "table" and self.room != "lounge":
            raise Failure(f"The table is in the lounge, the rover is in the {self.room}.")
        if furniture == "cupboard" and self.room != "kitchen":
            raise Failure(f"The cupboard is in the kitchen, the rover is in the {self.room}.")
        if furniture == "cupboard" and self.cupboard != "open":
            raise Failure(f"The cupboard is {self.cupboard}.")
        thing, self.holds = self.holds, "nothing"
        setattr(self, thing, furniture)
        return f"The {thing} is {WHERE[furniture]}."


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
