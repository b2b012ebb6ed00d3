"""The items of BFCL v4, its translation of tools for OpenAI's API, and its checker, all as bfcl-eval has them."""

import importlib
import os
import sys
import tempfile
import types

SINGLE = ["simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance", "live_simple", "live_multiple"]
TURNS = "multi_turn_base"
# Categories whose right answers may have several calls.
SEVERAL = {"parallel", "parallel_multiple", TURNS}
# The name under which the checker finds our settings.
ENTRY = "measured"


def load() -> types.SimpleNamespace:
    """Imports what is used of bfcl-eval.

    Its table of models imports the clients of all vendors, and two parsers for Java and JavaScript need compilers. A
    table with one entry and parsers that refuse stand in for them. The entry says that dots in names are underscores.
    """
    # It makes folders for results when it is imported.
    os.environ.setdefault("BFCL_PROJECT_ROOT", tempfile.mkdtemp(prefix="bfcl-"))

    def stand_in(name: str, **members) -> None:
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)

    def refuse(*_):
        raise NotImplementedError("only calls in JSON are measured")

    entry = types.SimpleNamespace(underscore_to_dot=True)
    stand_in("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING={ENTRY: entry})
    stand_in("bfcl_eval.model_handler.parser.java_parser", parse_java_function_call=refuse)
    stand_in("bfcl_eval.model_handler.parser.js_parser", parse_javascript_function_call=refuse)

    def get(path: str):
        module, _, member = path.rpartition(".")
        return getattr(importlib.import_module(f"bfcl_eval.{module}"), member)

    turns = "eval_checker.multi_turn_eval."
    return types.SimpleNamespace(
        entries=get("utils.load_dataset_entry"),
        answers=get("utils.load_ground_truth_entry"),
        convert=get("model_handler.utils.convert_to_tool"),
        style=get("constants.enums.ModelStyle").OPENAI_COMPLETIONS,
        types=get("constants.type_mappings.GORILLA_TO_OPENAPI"),
        check=get("eval_checker.ast_eval.ast_checker.ast_checker"),
        python=get("constants.enums.Language").PYTHON,
        execute=get(turns + "multi_turn_utils.execute_multi_turn_func_call"),
        check_turns=get(turns + "multi_turn_checker.multi_turn_checker"),
    )


class Benchmark:
    def __init__(self):
        self.bfcl = load()

    def items(self, category: str, skip: int, count: int) -> list[dict]:
        """Items with what is expected of them: nothing for irrelevance, where no call is right."""
        entries = self.bfcl.entries(category)
        answers = [] if category == "irrelevance" else [a["ground_truth"] for a in self.bfcl.answers(category)]
        if answers and len(answers) != len(entries):
            raise SystemExit(f"{category} has {len(entries)} questions and {len(answers)} answers")
        for i, entry in enumerate(entries):
            entry["expected"] = answers[i] if answers else []
        return entries[skip : skip + count]

    def tools(self, item: dict) -> list[dict]:
        """Functions with JSON Schemas. What a function returns is not part of OpenAI's API."""
        tools = [t["function"] for t in self.bfcl.convert(item["function"], self.bfcl.types, self.bfcl.style)]
        for tool in tools:
            tool.pop("response", None)
        return tools

    def is_right(self, category: str, item: dict, calls: list[dict]) -> tuple[bool, str]:
        """Whether the calls are right, and what the checker says against them."""
        if category == "irrelevance":
            return not calls, "a call where none of the tools is of use" if calls else ""
        if not calls:
            return False, "no call"
        found = self.bfcl.check(item["function"], calls, item["expected"], self.bfcl.python, category, ENTRY)
        return found["valid"], "" if found["valid"] else f"{found['error_type']}: {found['error']}"
