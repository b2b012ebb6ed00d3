"""Run magma-bench or magma-gen on a machine without a device that renders.

    python headless.py bench run ...
    python headless.py gen run ...
    python headless.py gen batch ...

SAPIEN computes physics on the CPU, but it needs a Vulkan device as soon as anything gets a color. ManiSkill leaves
out visuals when it is told that there is no device to render with. This program tells it so in every environment, and
puts placeholders where the environments make materials and textures. Physics, tasks and goals stay what they are.
"""

import importlib
import sys

import sapien
import sapien.wrapper.urdf_loader
from mani_skill.envs.sapien_env import BaseEnv


class Unseen:
    """Stands for a material or a texture: takes any argument and any attribute, and shows nothing."""

    def __init__(self, *_args, **_options):
        pass


def leave_out_visuals():
    for module in (sapien.render, sapien.pysapien.render, sapien.wrapper.urdf_loader):
        module.RenderMaterial = module.RenderTexture2D = Unseen
    construct = BaseEnv.__init__

    def without_device(env, *args, **options):
        construct(env, *args, **{**options, "render_backend": "none", "render_mode": None})

    BaseEnv.__init__ = without_device


def run_batches_headless():
    """magma-gen batch starts a program for each run, and that has to be this one."""
    batch = importlib.import_module("magma_gen.launch_many")
    command = batch.build_launch_command

    def headless(*args, **options):
        python, _, _, *arguments = command(*args, **options)  # python -m magma_gen.launch ...
        return [python, __file__, "gen", "run", *arguments]

    batch.build_launch_command = headless


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("bench", "gen"):
        sys.exit(__doc__)
    leave_out_visuals()
    tool = "magma_" + sys.argv.pop(1)
    if tool == "magma_gen" and sys.argv[1:2] == ["batch"]:
        run_batches_headless()
    sys.exit(importlib.import_module(tool + ".command_line").main())
