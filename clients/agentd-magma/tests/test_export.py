"""The exporters under magma_gen's own export, on a graph that magma-gen saved of a run with agentd.

Of the graph (graph/) the first situations are kept, with two decisions that a coach corrected; prompts are cut.

    python -m unittest discover tests          # needs magma_core, magma_gen, pydantic, packaging and this package
"""

import argparse
import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from agentd_magma import __version__
from agentd_magma.export import CHAT, COMMANDER, SUMMARIZER, VERSION_VARIABLE, FullHistory, _summarized
from magma_core.dataset_export import completed_export
from magma_core.protocol.agent_coaching import InternalStep
from magma_core.protocol.agent_export import ExportExample, discover_exporters
from magma_gen import launch_export
from magma_gen.storage.reader import SavedGraph

SAVED = Path(__file__).parent / "graph"
COLUMNS = {"tools", "persistent_rules", "memory", "attributes", "history", "output", "instruction", "instruction_role"}


def example(position: int) -> ExportExample:
    """What magma_gen makes of the candidate of the graph's situation at a position."""
    graph = SavedGraph(SAVED)
    situation = graph.situations[position]
    return ExportExample(example_id=f"example {position}", input=situation.input, candidate=situation.candidates[0])


class TestOfTheGraph(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.graph = Path(shutil.copytree(SAVED, self.folder / "run"))
        os.environ.pop(VERSION_VARIABLE, None)
        self.change("config.json", agent_version=__version__)

    def change(self, name: str, **members: object) -> None:
        """Overwrite members of a file of the graph."""
        file = self.graph / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}))

    def export(self, agent: str = "agentd", options: dict | None = None) -> dict[str, list]:
        """magma-gen export; returns the files of rows."""
        path = None
        if options is not None:
            path = self.folder / "options.json"
            path.write_text(json.dumps(options))
        launch_export.main(
            argparse.Namespace(
                folder_name=self.folder,
                agent=agent,
                options=path,
                skip_pre_made=False,
                validation_ratio=0.05,
                split_seed=42,
                shuffle_seed=42,
            )
        )
        written = self.folder / "datasets"
        self.manifest = json.loads((written / "export_manifest.json").read_text())
        return {name: json.loads((written / name).read_text()) for name in self.manifest["files"]}

    def test_the_rows_are_the_decisions_that_led_on(self) -> None:
        files = self.export()
        self.assertEqual(
            set(files), {"hr_data.json", "hr_data_train.json", "hr_data_validation.json", "export_failures.json"}
        )
        self.assertEqual(files["export_failures.json"], [])
        self.assertTrue(completed_export(self.folder / "datasets", self.manifest["signature"]))
        graph, rows = SavedGraph(self.graph), files["hr_data.json"]
        self.assertEqual(len(rows), 2, "the graph has two candidates that were corrected, and that others followed")
        for row, number in zip(rows, (2, 4)):
            asked = graph.situations[number].input
            self.assertEqual(set(row), COLUMNS)
            self.assertTrue(all(isinstance(value, str) for value in row.values()))
            self.assertEqual((row["instruction"], row["instruction_role"]), (asked.instruction.content, "SYSTEM"))
            self.assertEqual(json.loads(row["memory"]), asked.memory)
            self.assertEqual(json.loads(row["history"]), asked.memory["history"])
            self.assertEqual(json.loads(row["attributes"]), asked.attributes)
            self.assertEqual(json.loads(row["persistent_rules"]), [])
            self.assertCountEqual(json.loads(row["tools"]), asked.tools)
            self.assertEqual(
                json.loads(row["output"]),
                {"say": "", "action": {"panda": {"name": "press_button", "arguments": {"id": "sw0"}}}},
            )

    def test_the_option_chat_adds_what_the_model_was_given_and_its_decision(self) -> None:
        files = self.export(options={"chat": True})
        self.assertEqual(len(files["chat_data.json"]), len(files["hr_data.json"]))
        row = files["chat_data.json"][0]
        given = SavedGraph(self.graph).situations[2].candidates[0].internal_steps[0]["input_elements"]
        call = {"name": "press_button", "arguments": {"id": "sw0", "target_robot": "panda"}}
        self.assertEqual(
            row["messages"],
            [
                *given["messages"],
                {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]},
            ],
        )
        self.assertEqual(row["tools"], given["tools"])

    def test_other_options_are_refused_by_name(self) -> None:
        for options in ({"chats": True}, {"chat": "yes"}):
            with self.assertRaisesRegex(ValueError, "chat"):
                self.export(options=options)

    def test_graphs_of_another_version_need_the_variable(self) -> None:
        self.change("config.json", agent_version="7.7")
        with self.assertRaisesRegex(ValueError, "No compatible generation graphs"):
            self.export()
        with mock.patch.dict(os.environ, {VERSION_VARIABLE: "7.7"}):
            self.assertEqual(len(self.export()["hr_data.json"]), 2)

    def test_a_summary_has_a_row_and_is_the_memory_of_the_decision_behind_it(self) -> None:
        situation = json.loads((self.graph / "4.json").read_text())
        step = situation["candidates"][0]["internal_steps"][0]
        asks = {"role": "user", "content": "Write a summary."}
        before = {**step, "component": SUMMARIZER, "origin": "model", "output_raw": " sw0 was pressed.\n<|im_end|>"}
        before["input_elements"] = {
            **step["input_elements"],
            "messages": [*step["input_elements"]["messages"][:-1], asks],
        }
        after = {**step, "id": "step-1", "origin": "model"}
        messages = step["input_elements"]["messages"]
        after["input_elements"] = {
            **step["input_elements"],
            "summary": "sw0 was pressed.",
            "messages": [messages[0], *messages[-3:]],
        }
        situation["candidates"][0]["internal_steps"] = [before, after]
        self.change("4.json", **situation)
        self.change("config.json", agent_id="history-summarized-agent")
        files = self.export("agentd-summarized", {"chat": True})
        self.assertEqual(files["export_failures.json"], [])
        history = situation["input"]["memory"]["history"]
        (summary,), decision = files["summary_data.json"], files["hr_data.json"][-1]
        self.assertEqual(set(summary), COLUMNS)
        self.assertEqual(json.loads(summary["history"]), history)
        self.assertEqual(
            (summary["instruction"], json.loads(summary["output"])),
            ("Write a summary.", {"summary": "sw0 was pressed."}),
        )
        self.assertEqual(json.loads(decision["memory"]), {"history": history[-2:], "summary": "sw0 was pressed."})
        self.assertEqual(json.loads(decision["history"]), history[-2:])
        self.assertEqual(
            files["chat_data.json"][-2]["messages"][-2:], [asks, {"role": "assistant", "content": "sw0 was pressed."}]
        )

    def test_a_result_that_agentd_adds_is_no_entry_of_the_history(self) -> None:
        call, said = {"role": "assistant", "content": ""}, {"role": "user", "content": "Wait."}
        history = [
            {"author": "USER", "content": "Go."},
            {"author": "MODEL", "content": "{}"},
            {"author": "USER", "content": "Wait."},
            {"author": "MODEL", "content": "{}"},
        ]
        for messages, kept in (
            ([said], 0),
            ([call, {"role": "tool", "content": "pending"}, said], 1),
            ([call, {"role": "tool", "content": "pending"}, said, call, {"role": "tool", "content": "done"}], 3),
        ):
            step = InternalStep(
                id="step-1",
                component=COMMANDER,
                full_prompt="",
                output_raw="",
                input_elements={"summary": "S", "messages": [{"role": "system", "content": ""}, *messages]},
            )
            memory = _summarized({"history": history}, step)
            self.assertEqual(memory, {"summary": "S", "history": history[4 - kept :]})
        with self.assertRaisesRegex(ValueError, "newest"):
            _summarized({"history": history[:1]}, step)

    def test_the_agents_have_their_names_in_magma_gens_group(self) -> None:
        self.assertLessEqual({"agentd", "agentd-summarized"}, set(discover_exporters("magma.export.gen")))


class TestOfOneExample(unittest.TestCase):
    def export(self, of: ExportExample, **options: object):
        (result,) = FullHistory().export([of], options=options)
        return result

    def test_a_reply_has_no_action(self) -> None:
        of = example(2)
        of.candidate.output.say, of.candidate.output.tool_calls = "Done.", []
        rows = {record.dataset: record.data for record in self.export(of, chat=True).records}
        self.assertEqual(json.loads(rows[COMMANDER]["output"]), {"say": "Done.", "action": {}})
        self.assertEqual(rows[CHAT]["messages"][-1], {"role": "assistant", "content": "Done."})

    def test_calls_are_by_robot_until_one_has_two(self) -> None:
        of = example(2)
        (call,) = of.candidate.output.tool_calls
        named = {"name": "press_button", "arguments": {"id": "sw0"}}
        for robots, want in (
            (["a", "b"], {"a": named, "b": named}),
            (["a", "b", "a"], [{"a": named}, {"b": named}, {"a": named}]),
        ):
            of.candidate.output.tool_calls = [call.model_copy(update={"target_robot_name": robot}) for robot in robots]
            (record,) = self.export(of).records
            self.assertEqual(json.loads(record.data["output"])["action"], want)

    def test_the_robot_has_the_name_that_the_model_was_shown(self) -> None:
        of = example(2)
        function = of.candidate.internal_steps[0]["input_elements"]["tools"][1]["function"]
        properties = function["parameters"]["properties"]
        properties["executing_robot"] = properties.pop("target_robot")
        _, chat = self.export(of, chat=True).records
        (call,) = chat.data["messages"][-1]["tool_calls"]
        self.assertEqual(call["function"]["arguments"], {"id": "sw0", "executing_robot": "panda"})

    def test_records_have_ids_of_their_own_that_stay(self) -> None:
        ids = [record.record_id for number in (2, 2, 4) for record in self.export(example(number), chat=True).records]
        self.assertEqual(ids[:2], ids[2:4])
        self.assertEqual(len(set(ids)), 4)

    def test_without_a_decision_or_a_step_the_example_is_skipped(self) -> None:
        failed = example(2)
        failed.candidate.output = None
        without = example(2)
        without.candidate.internal_steps = []
        for of in (failed, without):
            result = self.export(of)
            self.assertEqual((result.status, result.records), ("skipped", []))

    def test_what_cannot_be_a_row_is_an_error_that_says_why(self) -> None:
        bad_step = example(2)
        bad_step.candidate.internal_steps[0]["more"] = 1
        of_template = example(2)
        of_template.candidate.internal_steps[0]["input_elements"]["tools"] = of_template.input.tools
        for of, options, reason in ((bad_step, {}, "more"), (of_template, {"chat": True}, "format template")):
            result = self.export(of, **options)
            self.assertEqual(result.status, "error")
            self.assertIn(reason, result.reason)


if __name__ == "__main__":
    unittest.main()
