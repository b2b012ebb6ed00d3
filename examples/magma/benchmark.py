"""Compile presets of magma_scenarios into a benchmark for magma-bench.

    python benchmark.py DIRECTORY [PRESET ...]

MAGMA's official benchmark comes from a hub of data sets. This one has one episode for each preset, as MAGMA's own
serializers write it, so that magma-bench can be tried with the packages alone.
"""

import datetime
import sys
from importlib import metadata
from pathlib import Path

from magma_bench.artifacts import (
    BenchmarkManifest,
    CompiledEpisodeSpec,
    ScenarioManifest,
    SemanticManifest,
    SkeletonManifest,
)
from magma_bench.artifacts.models import EpisodeIndexEntry, EpisodeMetadata
from magma_bench.artifacts.runtime import serialize_task_stages
from magma_bench.dataset import PackageVersions, ReleaseManifest
from magma_core.simulation.randomizer import RuntimeRandomizer
from magma_core.simulation.randomizer.spec_generator import SpecGenerator
from magma_core.simulation.serialization import encode_value, qualified_type_name
from magma_scenarios import load_preset

VERSION = "0.0.1"
PRESETS = ["press_button.ButtonPressOrdered", "make_coffee.ConstrainedPreset"]


def write(file, model):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(model.model_dump_json(indent=1), encoding="utf-8")


def compile_preset(root, preset):
    """Write one preset as a scenario with one episode, and return its line of the index."""
    scenario, name = preset.split(".")
    task = load_preset(preset)()
    task._tools = task.Tools_cls({}, {})  # what a simulator would do first
    randomized = SpecGenerator(seed=1).generate_random_spec(task)
    attributes = RuntimeRandomizer(randomized).get_randomized_attributes(task.get_init_attributes())
    calls = sum(stage.target_tool_calls for stage in task.stages)
    ids = {"scenario_id": scenario, "skeleton_id": "skeleton_000"}
    path = f"{scenario}/skeleton_000/semantic_000/episodes/clean.json"
    write(
        root / scenario / "scenario.json",
        ScenarioManifest(
            scenario_id=scenario,
            name=task.name,
            definition=preset,
            environment_id=task.maniskill_env_id,
            tools_type=qualified_type_name(task.Tools_cls),
            skill_types=[],
        ),
    )
    write(
        root / scenario / "skeleton_000" / "skeleton.json",
        SkeletonManifest(
            **ids,
            track="in_domain",
            conditions=["clean"],
            source_definition=preset,
            generation_seed=1,
            requested_length_bucket="short",
            requested_tool_call_range=[calls, calls],
            initialization=task.get_initialization_spec(),
        ),
    )
    write(
        root / scenario / "skeleton_000" / "semantic_000" / "semantic.json",
        SemanticManifest(
            semantic_id="semantic_000",
            variation_index=0,
            tools=encode_value(randomized.tools),
            visible_attributes=encode_value(attributes),
            tool_equivalence=encode_value(randomized.tool_equivalence),
            attributes_equivalence=randomized.attributes_equivalence,
            reversed_attributes_equivalence=randomized.reversed_attributes_equivalence,
            attribute_keys_order=randomized.attribute_keys_order,
            attribute_values_order=encode_value(randomized.attribute_values_order),
        ),
    )
    episode = CompiledEpisodeSpec(
        **ids,
        episode_id=name,
        condition="clean",
        semantic_id="semantic_000",
        stages=serialize_task_stages(task),
        metadata=EpisodeMetadata(
            clean_oracle_tool_calls=calls,
            episode_oracle_tool_calls=calls,
            length_bucket="short",
            number_of_stages=len(task.stages),
            number_of_interventions=0,
            intervention_lags=[],
            control_episode_id=name,
        ),
    )
    write(root / path, episode)
    return EpisodeIndexEntry(
        **ids,
        episode_id=name,
        track="in_domain",
        semantic_id="semantic_000",
        condition="clean",
        length_bucket="short",
        path=path,
    )


def main(root, presets):
    episodes = [compile_preset(root, preset) for preset in presets]
    write(
        root / "benchmark.json",
        BenchmarkManifest(
            schema_version="1.8",
            benchmark_version=VERSION,
            generated_at=datetime.datetime.now(datetime.UTC).isoformat(),
            semantic_variations=1,
            scenarios=[e.scenario_id for e in episodes],
            total_episodes=len(episodes),
            episodes=episodes,
        ),
    )
    (root / "stats.json").write_text("{}", encoding="utf-8")  # belongs to a benchmark's fingerprint; nothing reads it
    versions = {name: metadata.version(name) for name in ("magma_bench", "magma_core", "magma_scenarios")}
    write(
        root / "manifest.json",
        ReleaseManifest(schema_version="1.0", benchmark_version=VERSION, requirements=PackageVersions(**versions)),
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:] or PRESETS)
