"""Run with `python -m unittest` in this directory."""

import json
import unittest

import numpy as np

import reading
from reading import (
    ASKED,
    DECLARED_BY,
    FOUND,
    HELD,
    HERE,
    KINDS,
    LISTED,
    NEEDED,
    NOTHING,
    PARAMETER_OF,
    ROBOT,
    STANDING,
    STATE,
    STATE_OF,
    TOOL,
    VALUE_OF,
    Reader,
)

# Each character is a token. The model writes what is between « and ».
SYSTEM = """<|im_start|>system
{"name": "go", "description": "Walk to a room.", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}
{"name": "grab", "description": "Take it.", "parameters": {"type": "object", "properties": {"what": {"type": "string"}, "level": {"type": "integer"}}}}
<|im_end|>
<|im_start|>user
Environment status:
The hall has: shelf, red lamp. The attic has: box, shelves. pip is in the hall. mo is in the attic.<|im_end|>
<|im_start|>assistant
«Noted.<|im_end|>»
"""


def user(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def decided(text):
    return f"«{text}<|im_end|>»\n"


def call(tool, **arguments):
    listed = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in arguments.items())
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {{{listed}}}}}\n</tool_call>'


def result(text):
    return user(f"<tool_response>\n{text}\n</tool_response>")


ARRIVED = result("pip: You are in the attic. On the box: red cup, blue cup. The shelves is closed.")


class Reading(unittest.TestCase):
    def read(self, *parts):
        """Reads SYSTEM and the parts. Returns the text, too."""
        marked = (SYSTEM + "".join(parts)).replace(" ", "Ġ").replace("\n", "Ċ")
        text = marked.replace("«", "").replace("»", "")
        loss, writes = [], False
        for c in marked:
            if c in "«»":
                writes = c == "«"
            else:
                loss.append(writes)
        vocabulary = {c: i for i, c in enumerate(sorted(set(text)))}
        return text, Reader(vocabulary).read(np.array([vocabulary[c] for c in text]), np.array(loss))

    def looks(self, read, kind, token):
        return [at for k, t, at in read.looks if k == KINDS.index(kind) and t == token]

    def check(self, kind, before, wants, *parts):
        """The token before the last occurrence of a text should attend to names, each given with the text before it: to the
        first letter, or to all letters in lists and descriptions."""
        text, read = self.read(*parts)
        written = lambda s: s.replace(" ", "Ġ").replace("\n", "Ċ")
        at = text.rindex(written(before)) - 1
        want = []
        for behind, name in wants:
            self.assertEqual(text.count(written(behind + name)), 1, behind + name)
            begin = text.index(written(behind + name)) + len(behind)
            whole = (
                kind in (TOOL, NEEDED, FOUND, HELD, STATE)
                or kind == HERE
                and "is in" not in behind
                or kind == VALUE_OF
                and "has: " in behind
            )
            want += range(begin, begin + (len(name) if whole else 1))
        self.assertEqual(
            self.looks(read, kind, at), sorted(want), [text[max(0, a - 20) : a + 5] for a in self.looks(read, kind, at)]
        )

    def test_listed_things_descriptions_and_rooms_belong_to_their_owners(self):
        text, read = self.read(user("Wave."), decided(call("go", to="attic", target_robot="pip")), ARRIVED)
        for part, name in (
            ("Take it.", "grab"),
            ("red lamp", "hall"),
            ("shelves. pip", ""),
            ("hall. mo", ""),
            ("attic. On", "pip: You"),
            ("blue cup", "attic. On"),
            ("shelves is closed", "attic. On"),
        ):
            with self.subTest(part):
                at = text.index(part.replace(" ", "Ġ"))
                if name:
                    self.assertEqual(at - read.carry[at], text.rindex(name.replace(" ", "Ġ"), 0, at))
        at = text.index("hall.Ġmo")
        self.assertEqual(at - read.carry[at], text.index("pipĠis"))
        at = text.index("Wave.")
        self.assertEqual(read.carry[at], 0)  # a person's words belong to themselves
        self.assertTrue((read.carry[: text.index("Walk")] == -1).all())

    def test_tool_name_attends_to_descriptions_of_similar_names(self):
        parts = user("Go to the attic."), decided(call("go", to="attic", target_robot="pip"))
        self.check(
            TOOL, 'go", "arguments', [('"description": "', "Walk to a room."), ('"description": "', "Take it.")], *parts
        )

    def test_room_follows_from_the_requested_thing_and_its_place(self):
        parts = user("Open the box, please."), decided(call("go", to="attic", target_robot="pip"))
        self.check(ASKED, 'attic", "target', [("Open the ", "box")], *parts)
        self.check(FOUND, 'attic", "target', [("has: ", "box")], *parts)
        self.check(VALUE_OF, 'attic", "target', [("has: ", "box")], *parts)
        for before in ('<tool_call>\n{"name": "go', 'go", "arg'):
            self.check(ASKED, before, [("Open the ", "box")], *parts)
            self.check(FOUND, before, [("has: ", "box")], *parts)

    def test_named_room_is_copied(self):
        parts = user("Go to the attic."), decided(call("go", to="attic", target_robot="pip"))
        self.check(VALUE_OF, 'attic", "target', [("Go to the ", "attic")], *parts)
        self.check(FOUND, 'attic", "target', [], *parts)

    def test_robot_is_in_the_last_room_it_went_to(self):
        go = user("mo: go to the attic, pip: too"), decided(call("go", to="attic", target_robot="pip"))
        self.check(STANDING, 'go", "arg', [("pip is in the ", "hall")], *go)
        self.check(ROBOT, 'go", "arg', [("attic, ", "pip: too")], *go)
        self.check(VALUE_OF, 'pip"}}', [("attic, ", "pip: too")], *go)
        then = *go, ARRIVED, decided(call("grab", what="red cup", target_robot="pip"))
        self.check(STANDING, 'grab", "arg', [("You are in the ", "attic")], *then)

    def test_request_without_robot_is_for_the_first_listed_one(self):
        listed = user('Go to the attic.\n\nTask attributes: {"known_robots": ["pip", "mo"]}')
        for robot, wants in (("pip", [('robots": ["', "pip")]), ("mo", [])):
            parts = listed, decided(call("go", to="attic", target_robot=robot))
            self.check(ROBOT, 'go", "arg', wants, *parts)
            self.check(ROBOT, f'{robot}"}}}}', wants, *parts)
            self.check(LISTED, f'{robot}"}}}}', wants, *parts)
        named = user('mo, go to the attic.\n\nTask attributes: {"known_robots": ["pip", "mo"]}')
        self.check(ROBOT, 'go", "arg', [], named, decided(call("go", to="attic", target_robot="pip")))

    def test_end_of_a_call_decides_whether_another_follows(self):
        go, grab = call("go", to="attic", target_robot="mo"), call("grab", what="red cup", target_robot="pip")
        parts = user("mo, go to the attic, and pip, take the red lamp."), decided(go + "\n" + grab)
        text, read = self.read(*parts)
        first, last = (
            text.index("</tool_call>", text.index(name))
            for name in ('{"name":Ġ"go",Ġ"arguments', '{"name":Ġ"grab",Ġ"arguments')
        )
        # both begin with a g
        self.assertEqual("".join(text[t] for t in self.looks(read, TOOL, first)), "WalkĠtoĠaĠroom.TakeĠit.")
        self.assertEqual(self.looks(read, ROBOT, first), [text.index("pip,Ġtake")])
        self.assertEqual(self.looks(read, TOOL, last), NOTHING)
        self.assertEqual(self.looks(read, ROBOT, last), [])

    def test_thing_is_found_where_it_was_seen_last(self):
        parts = (
            user("Take the red cup."),
            decided(call("go", to="attic", target_robot="pip")),
            ARRIVED,
            decided(call("grab", what="red cup", target_robot="pip")),
        )
        self.check(FOUND, 'grab", "arg', [("box: ", "red cup")], *parts)
        self.check(VALUE_OF, 'red cup", "tar', [("Take the ", "red cup")], *parts)

    def test_requests_may_use_the_last_word_of_a_name(self):
        parts = (
            user("Take cups: the cup."),
            decided(call("go", to="attic", target_robot="pip")),
            ARRIVED,
            decided(call("grab", what="red cup", target_robot="pip")),
        )
        self.check(ASKED, 'red cup", "tar', [("the ", "cup.")], *parts)
        self.check(VALUE_OF, 'red cup", "tar', [], *parts)  # the request does not have the word red

    def test_every_token_of_a_name_is_copied_from_the_request(self):
        parts = user("Take the red lamp."), decided(call("grab", what="red lamp", target_robot="pip"))
        text, read = self.read(*parts)
        there, here = text.rindex("redĠlamp."), text.rindex('redĠlamp"')
        for i in range(len("red lamp")):
            self.assertEqual(self.looks(read, VALUE_OF, here - 1 + i), [there + i])

    def test_parameter_attends_to_its_declaration(self):
        parts = user("Take the red lamp."), decided(call("grab", what="red lamp", level=3, target_robot="pip"))
        self.check(
            PARAMETER_OF,
            'what": "red',
            [('Take it.", "parameters": {"type": "object", "properties": {"', "what")],
            *parts,
        )
        self.check(PARAMETER_OF, 'level": 3', [('"string"}, "', "level")], *parts)
        text, read = self.read(*parts)
        self.assertEqual(self.looks(read, DECLARED_BY, text.index('level":Ġ{') + 2), [text.index("grab")])
        text, read = self.read(*parts)
        self.assertEqual(self.looks(read, ASKED, text.rindex('"level":Ġ3')), [text.rindex("grab")])

    def test_place_of_a_moved_thing_follows_from_the_calls(self):
        held = result("pip: You hold the red cup.")
        parts = (
            user("Take the red cup."),
            decided(call("go", to="attic", target_robot="pip")),
            ARRIVED,
            decided(call("grab", what="red cup", target_robot="pip")),
            held,
        )
        text, read = self.read(*parts, decided("Done: pip holds the red cup."))
        self.check(FOUND, "Done: pip", [("You hold the ", "red cup")], *parts, decided("Done: pip holds the red cup."))
        at = text.index("holdĠtheĠredĠcup.") + 9
        self.assertEqual(at - read.carry[at], text.index("attic.ĠOn"))
        failed = result("pip: failed: the red cup slipped.")
        self.check(
            FOUND, "Done: pip", [("box: ", "red cup")], *parts[:-1], failed, decided("Done: pip holds the red cup.")
        )

    def nothing(self, kind, before, *parts):
        text, read = self.read(*parts)
        self.assertEqual(self.looks(read, kind, text.rindex(before.replace(" ", "Ġ")) - 1), NOTHING)

    def test_reply_about_an_unknown_thing_needs_no_tool(self):
        parts = user("Take the mug."), decided("Where is the mug?")
        self.nothing(TOOL, "Where is", *parts)
        self.nothing(FOUND, "Where is", *parts)
        # there it copies the name
        self.check(TOOL, "mo is", [], user("Where is mo now?"), decided("mo is in the attic."))
        self.check(FOUND, "Hello", [], user("Take the mug."), decided("Hello"))  # no request names it

    def test_request_needs_the_tool_of_the_last_call(self):
        go, grab = (
            decided(call("go", to="attic", target_robot="pip")),
            decided(call("grab", what="red cup", target_robot="pip")),
        )
        held = result("pip: You hold the red cup.")
        parts = user("Take the red cup."), go, ARRIVED, grab, held, decided("Done: pip holds the red cup.")
        text, read = self.read(*parts)
        for before in ('<tool_call>Ċ{"name":Ġ"go', '<tool_call>Ċ{"name":Ġ"grab'):
            there = self.looks(read, NEEDED, text.index(before) - 1)
            self.assertEqual("".join(text[t] for t in there), "TakeĠit.")
        self.nothing(NEEDED, "Done:", *parts)
        for ends in ((), (held, decided("I can't: it is too heavy."))):  # the last call is unknown
            self.check(NEEDED, '<tool_call>\n{"name": "grab', [], *parts[:4], *ends)
        two = decided(call("go", to="hall", target_robot="mo") + call("go", to="attic", target_robot="pip"))
        text, read = self.read(
            user("mo, go to the hall, and pip, take the red cup."), two, ARRIVED, grab, held, decided("Done.")
        )
        there = self.looks(read, NEEDED, text.index('<tool_call>Ċ{"name":Ġ"go') - 1)
        self.assertEqual("".join(text[t] for t in there), "WalkĠtoĠaĠroom.TakeĠit.")

    def test_requested_thing_is_here_in_the_robots_room(self):
        lamp = user("Put the red lamp into the box."), decided(call("grab", what="red lamp", target_robot="pip"))
        for before in ('<tool_call>\n{"name": "grab', 'grab", "arg'):
            self.check(HERE, before, [("shelf, ", "red lamp")], *lamp)
        self.check(HERE, "Done", [("shelf, ", "red lamp")], lamp[0], decided("Done: pip has it."))
        other = user("mo, take the red lamp."), decided(call("go", to="hall", target_robot="mo"))
        self.nothing(HERE, 'go", "arg', *other)
        self.check(
            HERE,
            "Done",
            [("shelves. pip is in the ", "hall")],
            user("pip, go to the hall."),
            decided("Done: pip is in the hall."),
        )
        self.check(HERE, "Done", [], lamp[0], decided("Done."))  # it is unknown which of two robots

    def test_robot_holds_a_thing_until_it_puts_it_down(self):
        parts = (
            user("pip, bring the red cup to the shelf."),
            decided(call("go", to="attic", target_robot="pip")),
            ARRIVED,
            decided(call("grab", what="red cup", target_robot="pip")),
        )
        self.nothing(HELD, 'grab", "arg', *parts)
        held = *parts, result("pip: You hold the red cup."), decided(call("go", to="hall", target_robot="pip"))
        self.check(HELD, 'go", "arg', [("hold the ", "red cup")], *held)
        # the other thing
        self.nothing(HELD, "Done", *held[:-1], decided("Done."), user("mo, wait."), decided("Done: mo waits."))
        self.nothing(
            HERE,
            "I can",
            *held,
            result("pip: You are in the hall."),
            decided("Done."),
            user("mo, take the red cup."),
            decided("I can not."),
        )
        put = (
            *held[:-1],
            decided(call("drop", what="red cup", on="box", target_robot="pip")),
            result("pip: The red cup is on the box."),
        )
        self.nothing(HELD, "Done", *put, decided("Done: pip is in the attic."))

    def test_last_sentence_about_a_thing_is_its_state(self):
        parts = user("mo, close the shelves."), decided(call("go", to="attic", target_robot="mo")), ARRIVED
        closed = *parts, decided("Done: the shelves is closed.")
        self.check(STATE, "Done", [("The shelves is ", "closed")], *closed)
        text, read = self.read(*closed)
        at = text.index("closed.Ċ")
        self.assertEqual(
            [self.looks(read, STATE_OF, at + i) for i in range(len("closed"))],
            [[text.index("shelvesĠisĠclosed.")]] * len("closed"),
        )
        self.nothing(STATE, 'go", "arg', *parts[:2])
        opened = result("mo: The box is open. In the box: red cup."), decided("Done: the box is open.")
        self.check(
            STATE,
            "Done",
            [("The box is ", "open")],
            user("mo, open the box."),
            decided(call("grab", what="box", target_robot="mo")),
            *opened,
        )
        self.nothing(STATE, "Done", *closed[:-1], user("Take the red lamp."), decided("Done: pip holds it."))

    def test_full_name_selects_between_things_with_one_last_word(self):
        seen = (
            user("Look."),
            decided(call("go", to="attic", target_robot="pip")),
            result("pip: You are in the attic. On the box: blue cup."),
        )
        other = *seen, decided("Done."), user("pip, take the red cup."), decided("Where is the red cup?")
        self.nothing(HERE, "Where", *other)
        self.nothing(STATE, "Where", *other)
        self.check(
            HERE,
            "Where",
            [("box: ", "blue cup")],
            *seen,
            decided("Done."),
            user("pip, take the cup."),
            decided("Where is the red cup?"),
        )
        both = user("Look."), seen[1], ARRIVED, decided("Done."), user("pip, take the red cup."), decided("Done: pip.")
        self.check(HERE, "Done: pip", [("box: ", "red cup")], *both)

    def test_moved_thing_has_no_listed_place(self):
        told = (
            user("The red lamp is on the box in the attic."),
            decided("Noted: the red lamp is on the box in the attic."),
            user("pip, take the red lamp."),
        )
        took = (
            user("pip, take the red lamp."),
            decided(call("grab", what="red lamp", target_robot="pip")),
            result("pip: failed: somebody took the red lamp. It is now on the box in the attic."),
        )
        for parts in (told, took):
            for kind in (HERE, STATE, FOUND):
                self.check(
                    kind, '<tool_call>\n{"name": "go', [], *parts, decided(call("go", to="attic", target_robot="pip"))
                )
        self.check(
            HERE,
            '<tool_call>\n{"name": "go',
            [("shelf, ", "red lamp")],
            told[2],
            decided(call("go", to="attic", target_robot="pip")),
        )

    def test_incomplete_name_is_completed_from_the_lists(self):
        parts = (user("Take the lamp."), decided(call("grab", what="red lamp", target_robot="pip")))
        text, read = self.read(*parts)
        here, there = text.rindex('redĠlamp"'), text.index("redĠlamp.")
        self.assertEqual(
            [self.looks(read, LISTED, here - 1 + i) for i in range(len("red lamp"))],
            [[there + i] for i in range(len("red lamp"))],
        )
        seen = result("pip: You are in the hall. On the shelf: red lamp.")
        text, read = self.read(parts[0], decided(call("go", to="hall", target_robot="pip")), seen, parts[1])
        self.assertEqual(
            self.looks(read, LISTED, text.rindex('redĠlamp"') - 1),
            [text.index("redĠlamp.Ġ"), text.rindex("redĠlamp.Ċ")],
        )
        self.check(LISTED, 'red lamp", "tar', [], user("Take the red lamp."), parts[1])
        self.check(
            LISTED,
            "hall.<",
            [("shelves. pip is in the ", "hall")],
            user("Where is pip?"),
            decided("pip is in the hall."),
        )
        # the room follows from the lamp
        self.check(LISTED, "hall.<", [], user("Where is the lamp?"), decided("The red lamp is in the hall."))

    def test_answer_is_read_with_the_request_before_it(self):
        parts = (
            user("Take the mug."),
            decided("Where is the mug?"),
            user("In the box."),
            decided(call("go", to="attic", target_robot="pip")),
        )
        self.check(FOUND, 'attic", "target', [("has: ", "box")], *parts)
        self.check(VALUE_OF, "mug?", [("Take the ", "mug")], *parts)
        later = *parts[:-1], decided("I see."), user("Take the box."), decided("The mug is here.")
        self.check(VALUE_OF, "mug is here", [], *later)  # the mug belongs to the task before

    def test_reply_copies_the_names_of_the_request(self):
        parts = user("Is the red lamp on?"), decided("The red lamp is in the hall.")
        self.check(VALUE_OF, "red lamp is in", [("Is the ", "red lamp")], *parts)
        self.check(VALUE_OF, "hall.<", [("has: shelf, ", "red lamp")], *parts)
        self.check(ASKED, "The red lamp is in", [("Is the ", "red lamp")], *parts)
        self.check(FOUND, "The red lamp is in", [("has: shelf, ", "red lamp")], *parts)

    def test_reply_about_a_robot_follows_from_its_room(self):
        parts = user("Where is mo now?"), decided("mo is in the attic.")
        self.check(STANDING, "mo is in the attic.<", [("hall. mo is in the ", "attic")], *parts)
        self.check(ROBOT, "mo is in the attic.<", [("Where is ", "mo now")], *parts)

    def test_every_kind_has_heads(self):
        import lookup

        self.assertEqual(set(lookup.LOOKS), set(reading.KINDS))


if __name__ == "__main__":
    unittest.main()
