"""Finds in a conversation the tokens from which each decision follows.

The tool follows from its description, and the room from where the requested thing was seen. A model does not learn that
from its mistakes alone: it takes several heads that are useless one by one. So this file names the tokens behind each
decision, and lookup.py teaches heads to attend to them. It knows the sentences of a house and of the people in it
(talk.go, tasks.go, ask.go). It ignores sentences that it does not know.
"""

import re
from dataclasses import dataclass, field

import numpy as np

# Tokens as the vocabulary writes them: a character for each byte, Ġ for a space and Ċ for a newline.
DECLARED = re.compile(r'"name":Ġ"([^"]+)",Ġ"description":Ġ"((?:[^"\\]|\\.)+)",Ġ"parameters"')
CALL = re.compile(r'<tool_call>Ċ\{"name":Ġ"([^"]+)",Ġ"arguments":Ġ\{(.*?)\}\}Ċ')
ARGUMENT = re.compile(r'"([^"]+)":Ġ(?:"([^"]*)"|[^",}]+)')
PARAMETER = re.compile(r'"([^"]+)":Ġ\{"type"')
USER, END = "<|im_start|>userĊ", "<|im_end|>"
MESSAGE = re.compile(re.escape(USER) + "(.*?)" + re.escape(END))
ASKED_BACK = re.compile(r"<\|im_start\|>assistantĊ(?:Where|Which)[^<]*<\|im_end\|>Ċ$")
ROOM = re.compile(r"TheĠ([^.:,ĊĠ]+)Ġhas:Ġ([^.Ċ]*)\.")
STANDS = re.compile(r"(?<=[.ĠĊ])([^.:,ĊĠ]+)ĠisĠinĠtheĠ([^.ĊĠ]+)\.")
RESULT = re.compile(r"Ċ([^.:,ĊĠ]+):Ġ(?!failed)([^Ċ]*)")
# Reports in other forms (reports.go) are not read: what they say about the house is unknown from there on.
READ = re.compile(r"<tool_response>(?:Ċ[^.:,ĊĠ]+:Ġ(?:failed:|You|The|On|In)Ġ[^Ċ]*)+Ċ</tool_response>")
ARRIVED = re.compile(r"YouĠareĠinĠtheĠ([^.ĊĠ]+)\.")
FACT = re.compile(
    r"(?:On|In)ĠtheĠ([^.:Ċ]+):Ġ([^.Ċ]*)\.|(?:YouĠholdĠtheĠ([^.Ċ]+)\.|TheĠ([^.:ĊĠ]+(?:Ġ[^.:ĊĠ]+)?)Ġ(?:is|are)Ġ)"
)
# Things that a sentence says were moved or taken: earlier lists of them are wrong from then on.
MOVED = re.compile(
    r"Noted:ĠtheĠ([^.]+?)Ġ(?:is|are)Ġ|somebodyĠtookĠtheĠ([^.]+)\.|failed:ĠtheĠ([^.]+?)Ġ(?:is|are)ĠnotĠhere"
)
ROBOTS = re.compile(r'(?:"target_robot":Ġ\{[^}]*"enum"|"known_robots"):Ġ\["([^\]]+)"\]')
UNKNOWN = re.compile("Where|IĠ(?:can't:ĠIĠ)?don'tĠknow")
NAMED = re.compile(r"[tT]heĠ([^.:,?ĊĠ]+(?:Ġ[^.:,?ĊĠ]+)?)(?=Ġ(?:is|are|or|in|on)(?![a-z])|[.?:])")

# The kinds of tokens to which a token should attend. NOTHING, the first token, stands for none: a head must attend
# somewhere, and another token would look like a find.
TOOL = "tool"  # before a tool's name and at the start of a decision: the tool's description, or NOTHING for a reply
# at the start of a decision: the descriptions of the tools of each robot's last call before the next reply, which is the
# goal of all earlier calls
NEEDED = "needed"
PARAMETER_OF = "parameter"  # before a parameter's name: its declaration in the tool
DECLARED_BY = "declared"  # at a declared parameter: its tool's name
ASKED = "asked"  # where the request names the object of the decision
ROBOT = "robot"  # where the request names the robot, else the list of robots: its first one acts if none is named
STANDING = "standing"  # the robot's last room
FOUND = "found"  # where lists show the object of the decision
HELD = "held"  # where lists show what the robot holds
STATE = "state"  # the last known state of the object: open, closed, on, a number, or its place
STATE_OF = "state of"  # at a state: the name of the thing
HERE = "here"  # the object in the robot's room, and the room itself if it was named
VALUE_OF = "value"  # the token from which a name in an argument or a reply is copied
# before each token of a name that no request has in full: a thing's token in a list, or the room to which a robot went
LISTED = "listed"
KINDS = (
    TOOL,
    NEEDED,
    PARAMETER_OF,
    DECLARED_BY,
    ASKED,
    ROBOT,
    STANDING,
    FOUND,
    HERE,
    HELD,
    STATE,
    STATE_OF,
    VALUE_OF,
    LISTED,
)
NOTHING = [0]


@dataclass
class Read:
    """What Reader finds in a conversation."""

    # for each token, the distance back to the name to which it belongs, as a thing to its room; -1: none
    carry: np.ndarray
    # index in KINDS, token, a token to which it should attend
    looks: list[tuple[int, int, int]] = field(default_factory=list)

    def look(self, kind: str, token: int, at: list[int]) -> None:
        self.looks += [(KINDS.index(kind), token, a) for a in sorted(set(at))]


class Reader:
    def __init__(self, vocabulary: dict[str, int]):
        self.texts = sorted(vocabulary, key=vocabulary.get)

    def read(self, tokens: np.ndarray, loss: np.ndarray) -> Read:
        """Reads a whole conversation. loss says for each token whether the model writes it."""
        conversation = Conversation([self.texts[t] for t in tokens])
        begins = np.flatnonzero(loss & ~np.concatenate(([False], loss[:-1])))
        ends = np.flatnonzero(loss & ~np.concatenate((loss[1:], [False])))
        conversation.decide([(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)])
        return conversation.result


@dataclass
class Listed:
    """A place or a thing in a list of a room, or in a sentence that says where it is now."""

    name: str
    begin: int  # in characters
    room: str
    holder: str = ""  # the robot that holds the thing
    state: tuple[int, int] | None = None  # its state in the text, in characters
    moved: bool = False  # the text names its room later or never, so no head finds it there

    @property
    def end(self) -> int:
        return self.begin + len(self.name)


class Conversation:
    def __init__(self, texts: list[str]):
        self.text = "".join(texts)
        self.ends = np.cumsum([len(text) for text in texts])
        self.texts = texts
        self.result = Read(np.full(len(texts), -1))
        self.tools: dict[str, list[int]] = {}  # tokens of each tool's description
        self.listed: list[Listed] = []
        self.rooms: set[str] = set()
        # the rooms of each robot in the order of the text, and where their names begin
        self.robots: dict[str, list[tuple[str, int]]] = {}
        self.messages: list[tuple[int, int]] = []
        self.unread = len(self.text)  # where the first report begins that is not read
        self.parameters: dict[tuple[str, str], int] = {}
        declared = list(DECLARED.finditer(self.text))
        for m, following in zip(declared, [*declared[1:], None]):
            self.belongs(m.span(2), m.start(1))
            self.tools[m[1]] = self.tokens(*m.span(2))
            for p in PARAMETER.finditer(
                self.text, m.end(), following.start() if following else self.text.find("Ċ", m.end())
            ):
                self.parameters[m[1], p[1]] = self.token(p.start(1))
                for token in self.tokens(*p.span(1)):
                    self.result.carry[token] = 0
                    self.result.look(DECLARED_BY, token, [self.token(m.start(1))])
        for m in ROOM.finditer(self.text):
            self.rooms.add(m[1])
            self.belongs(m.span(2), m.start(1))
            self.enlist(m[2], m.start(2), m[1])
        for m in MESSAGE.finditer(self.text):
            self.message(*m.span(1))
        self.listed += [Listed(m[m.lastindex], m.start(m.lastindex), "", moved=True) for m in MOVED.finditer(self.text)]
        self.listed.sort(key=lambda x: x.begin)
        lists = list(ROBOTS.finditer(self.text))
        self.team = lists[0][1].split('",Ġ"') if lists else []
        self.teams = [self.token(m.start(1)) for m in lists]  # where the text lists the robots

    def token(self, char: int) -> int:
        """The token that holds a character."""
        return int(np.searchsorted(self.ends, char, side="right"))

    def tokens(self, begin: int, end: int) -> list[int]:
        return list(range(self.token(begin), self.token(end - 1) + 1)) if begin < end else []

    def belongs(self, span: tuple[int, int], name: int) -> None:
        for token in self.tokens(*span):
            self.result.carry[token] = token - self.token(name)

    def carried(self, token: int) -> str | None:
        """The first token of the name to which a token belongs."""
        return self.texts[token - self.result.carry[token]] if self.result.carry[token] >= 0 else None

    def enlist(self, names: str, begin: int, room: str) -> None:
        for name in names.split(",Ġ"):
            if name and name != "nothing":
                self.listed.append(Listed(name, begin, room))
            begin += len(name) + len(",Ġ")

    def message(self, begin: int, end: int) -> None:
        if self.text.startswith("<tool_response>", begin):
            if not READ.fullmatch(self.text, begin, end):
                self.unread = min(self.unread, begin)
            for m in RESULT.finditer(self.text, begin, end):
                if arrived := ARRIVED.match(self.text, *m.span(2)):
                    self.stands(m[1], m.start(1), arrived[1], arrived.start(1))
                if m[1] not in self.robots:
                    continue
                room, at = self.robots[m[1]][-1]
                body = arrived.end() if arrived else m.start(2), m.end(2)
                self.belongs(body, at)
                for f in FACT.finditer(self.text, *body):
                    which = next(i for i in (1, 3, 4) if f[i])
                    thing = Listed(f[which], f.start(which), room, m[1] if which == 3 else "")
                    if which == 1:  # "The box is open. In the box: …"
                        thing.state = next(
                            (x.state for x in reversed(self.listed) if x.name == thing.name and x.begin > body[0]), None
                        )
                    if which == 4:
                        thing.state = f.end(), self.text.find(".", f.end(), m.end(2))
                        for token in self.tokens(*thing.state):
                            self.result.look(STATE_OF, token, [self.token(thing.begin)])
                    self.listed.append(thing)
                    self.enlist(f[2] or "", f.start(2), room)
        elif ROOM.search(self.text, begin, end):
            for m in STANDS.finditer(self.text, begin, end):
                self.stands(m[1], m.start(1), m[2], m.start(2))
        else:
            if (attributes := self.text.find("ĊĊTaskĠattributes:", begin, end)) >= 0:
                end = attributes  # the attributes name all robots
            self.messages.append((begin, end))
            self.result.carry[self.tokens(begin, end)] = 0

    def stands(self, robot: str, robot_begin: int, room: str, room_begin: int) -> None:
        self.rooms.add(room)
        self.robots.setdefault(robot, []).append((room, room_begin))
        self.belongs((room_begin, room_begin + len(room)), robot_begin)

    def decide(self, spans: list[tuple[int, int]]) -> None:
        """Reads the decisions within a range of tokens and records to which tokens they should attend."""
        # for each robot the description of its last call; None: its run ends in another way
        last: dict[str, list[int]] | None = None
        for begin, end in reversed(spans):
            start, stop = int(self.ends[begin - 1]), int(self.ends[end])
            if start > self.unread:
                last = None
                continue
            decision = Decision(self, start)
            calls = list(CALL.finditer(self.text, start, stop))
            # after each call the model decides whether another one follows
            closed = [self.token(call.end()) for call in calls]
            for call, deciding in zip(calls, [begin - 1, *closed]):
                decision.call(call, deciding)
                if last is not None:
                    last.setdefault(robot_of(call), self.tools.get(call[1], []))
            for token in closed[-1:]:
                self.result.look(TOOL, token, NOTHING)
            if not calls:
                decision.reply(begin - 1, stop)
                # The last call cannot be known before a call that fails.
                last = None if "IĠcan't" in self.text[start:stop] else {}
                self.result.look(NEEDED, begin - 1, NOTHING)
            elif last:
                self.result.look(NEEDED, begin - 1, [t for described in last.values() for t in described])


class Decision:
    def __init__(self, conversation: Conversation, start: int):
        self.c = conversation
        self.start = start
        self.latest = {x.name: x for x in conversation.listed if x.end <= start}
        said = [span for span in conversation.messages if span[1] <= start]
        self.heard = said[-1:]  # with the request before it if this one answers a question
        while len(self.heard) < len(said) and ASKED_BACK.search(
            conversation.text, said[-len(self.heard) - 1][1], self.heard[0][0] - len(USER)
        ):
            self.heard = said[-len(self.heard) - 1 :]

    def mentions(self, name: str) -> list[int]:
        """The first tokens of a name in the requests, or of its last word after "the", unless that word is another named thing's."""
        last = name.split("Ġ")[-1]
        if (said := self.said(name)) or last == name:
            return said
        if any(other != name and other.endswith("Ġ" + last) and self.said(other) for other in self.latest):
            return []  # the request means the other thing
        return [
            self.c.token(at)
            for span in self.heard
            for at in occurrences(self.c.text, last, *span)
            if self.c.text.endswith("theĠ", 0, at)
        ]

    def said(self, name: str) -> list[int]:
        return [self.c.token(at) for span in self.heard for at in occurrences(self.c.text, name, *span)]

    def around(self, room: str) -> tuple[list[int], list[int]]:
        """The requests' mentions of the things in a room, and their places in the lists."""
        heard, lists = [], []
        for x in self.latest.values():
            if x.room == room and not x.holder and (mentions := self.mentions(x.name)):
                heard += mentions
                lists += self.c.tokens(x.begin, x.end)
        return heard, lists

    def call(self, m: re.Match, deciding: int) -> None:
        c, look = self.c, self.c.result.look
        name = c.token(m.start(1))
        deciding = [deciding, name - 1]
        # Tools whose names start with the same tokens cannot be distinguished yet.
        described = [t for of in c.tools.values() if c.carried(of[0]) == c.texts[name] for t in of]
        heard, lists = [], []
        for argument in ARGUMENT.finditer(c.text, *m.span(2)):
            key = c.token(argument.start(1)) - 1
            look(ASKED, key, [name])
            look(PARAMETER_OF, key, [at for at in [c.parameters.get((m[1], argument[1]))] if at is not None])
            if argument[1] == "target_robot":
                self.robot(deciding, argument[2])
                self.robot([c.token(argument.start(2)) - 1], argument[2], standing=False)
                self.copied(argument.start(2), argument[2], self.mentions(argument[2]))
                self.taken(argument.start(2), argument[2], self.unnamed(argument[2]))
            elif argument[2]:
                asked, there = self.name(argument.start(2), argument[2])
                heard, lists = heard + asked, lists + there
        for token in deciding:
            look(TOOL, token, described)
        self.what(deciding, heard, lists)
        self.here(deciding, robot_of(m))

    def stood(self, name: str) -> tuple[str, int] | None:
        """A robot's last room, and the token that says so."""
        return next(
            ((room, self.c.token(at)) for room, at in reversed(self.c.robots.get(name, [])) if at < self.start), None
        )

    def unnamed(self, name: str) -> list[int]:
        """The token in the list of robots of the one that acts if no robot is named."""
        if self.c.team[:1] != [name] or any(map(self.said, self.c.team)):
            return []
        return [at for at in self.c.teams if at < self.c.token(self.start)]

    def robot(self, deciding: list[int], name: str, standing: bool = True) -> None:
        stood = self.stood(name)
        for token in deciding:
            self.c.result.look(ROBOT, token, self.mentions(name) or self.unnamed(name))
            if stood and standing:
                self.c.result.look(STANDING, token, [stood[1]])

    def here(self, deciding: list[int], robot: str) -> None:
        """The requests' mentions of things in a robot's room and of what it holds."""
        stood = self.stood(robot)
        if stood is None:
            return
        room, at = stood
        there = self.around(room)[1] + ([at] if self.mentions(room) else [])
        held = [t for x in self.latest.values() if x.holder == robot for t in self.c.tokens(x.begin, x.end)]
        for token in deciding:
            self.c.result.look(HERE, token, [] if self.moved() else there or NOTHING)
            self.c.result.look(HELD, token, held or NOTHING)

    def moved(self) -> bool:
        """Whether a requested thing is no longer where a list shows it."""
        return any(x.moved and self.mentions(x.name) for x in self.latest.values())

    def what(self, deciding: list[int], heard: list[int], lists: list[int]) -> None:
        states = [t for x in self.latest.values() if x.state and self.mentions(x.name) for t in self.c.tokens(*x.state)]
        for token in deciding:
            self.c.result.look(STATE, token, [] if self.moved() else states or NOTHING)
            self.c.result.look(ASKED, token, heard)
            self.c.result.look(FOUND, token, lists)

    def name(self, begin: int, name: str) -> tuple[list[int], list[int]]:
        """Records to which tokens the token before a name should attend. Returns the request behind it, and its places in lists."""
        before, heard, lists = self.c.token(begin) - 1, self.mentions(name), []
        if name in self.c.rooms:
            near, lists = self.around(name)
            self.c.result.look(FOUND, before, lists)
            self.copied(begin, name, heard + lists)
            if not heard + near:
                self.taken(
                    begin, name, [at for room, at in filter(None, map(self.stood, self.c.robots)) if room == name]
                )
            heard = heard + near
        else:
            self.copied(begin, name, heard)
            if name in self.latest:
                listed = self.latest[name]
                lists = self.c.tokens(listed.begin, listed.end) if heard and not listed.moved else []
                if not self.said(name):
                    self.taken(
                        begin,
                        name,
                        [self.c.token(x.begin) for x in self.c.listed if x.name == name and x.end <= self.start],
                    )
        self.c.result.look(ASKED, before, heard)
        return heard, lists

    def copied(self, begin: int, name: str, sources: list[int]) -> None:
        """Records for each token of a name from which token it is copied. The first one may also be copied from the owner of a token."""
        c = self.c
        first, *rest = c.tokens(begin, begin + len(name))
        sources = [at for at in sources if c.carried(at) == c.texts[first]]
        c.result.look(VALUE_OF, first - 1, sources)
        for i, token in enumerate(rest, 1):
            c.result.look(
                VALUE_OF,
                token - 1,
                [at + i for at in sources if c.result.carry[at] == 0 and c.texts[at + i] == c.texts[token]],
            )

    def taken(self, begin: int, name: str, sources: list[int]) -> None:
        """Records for each token of a name that no request has the same token in the lists."""
        c = self.c
        for i, token in enumerate(c.tokens(begin, begin + len(name))):
            c.result.look(LISTED, token - 1, [at + i for at in sources if c.texts[at + i] == c.texts[token]])

    def reply(self, deciding: int, stop: int) -> None:
        names = {m[1] for m in NAMED.finditer(self.c.text, self.start, stop)}
        heard, lists, robots, begins = [], [], [], False
        for name in sorted(names | set(self.latest) | self.c.rooms | set(self.c.robots)):
            for at in occurrences(self.c.text, name, self.start, stop):
                asked, there = self.name(at, name)
                begins = begins or bool(asked) and self.c.token(at) == deciding + 1
                if name in self.c.robots:
                    self.robot([deciding], name)
                    robots.append(name)
                elif name not in self.c.rooms:
                    heard, lists = heard + asked, lists + there
        if not begins:  # the head should copy the name
            self.c.result.look(TOOL, deciding, NOTHING)
        self.what([deciding], heard, lists or (NOTHING if UNKNOWN.match(self.c.text, self.start) else []))
        team = self.c.team or [name for name in self.c.robots if self.stood(name)]
        for of in ([name for name in team if self.said(name)], robots, team):
            if of:
                if len(set(of)) == 1:
                    self.here([deciding], of[0])
                break


def robot_of(call: re.Match) -> str:
    return next(
        (
            argument[2] or ""
            for argument in ARGUMENT.finditer(call.string, *call.span(2))
            if argument[1] == "target_robot"
        ),
        "",
    )


def occurrences(text: str, name: str, begin: int, end: int) -> list[int]:
    """The places where a name is a whole word."""
    inside = lambda i: begin <= i < end and (text[i].isalnum() and text[i] not in "ĠĊ" or text[i] == "_")
    return [
        m.start()
        for m in re.compile(re.escape(name)).finditer(text, begin, end)
        if not inside(m.start() - 1) and not inside(m.end())
    ]
