"""A motion planner with the two routes that MAGMA asks for, POST /init and POST /plan, for the Panda arm.

    python planner.py [PORT]

It plans with mplib, which ManiSkill depends on, and moves straight where that is possible. It stands in for MAGMA's own
planner service, which is not in a package registry, and knows nothing of obstacles.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import mani_skill
import mplib
import numpy as np

ROBOTS = Path(mani_skill.PACKAGE_ASSET_DIR) / "robots"


class Planner:
    arm = step = None

    def init(self, request):
        """Load the arm as the simulator names its links and joints."""
        options, robot = request["options"], ROBOTS / "panda" / request["options"]["robot"]
        self.step = request["control_timesteps"]
        self.arm = mplib.Planner(
            urdf=f"{robot}.urdf",
            srdf=f"{robot}.srdf",
            user_link_names=request["link_names"],
            user_joint_names=request["joint_names"],
            move_group=request.get("move_group", "panda_hand_tcp"),
            joint_vel_limits=np.full(7, options["joint_vel_limit"]),
            joint_acc_limits=np.full(7, options["joint_acc_limit"]),
        )
        return "OK"

    def plan(self, request):
        """The arm's joints, one row for each step of control. Poses are in the world, as SAPIEN's: position, then w, x, y, z."""
        self.arm.set_base_pose(np.array(request["base_pose"]))
        start = np.array([*request["robot_qpos"], 0.04, 0.04])
        for way in (self.arm.plan_screw, self.arm.plan_qpos_to_pose):
            result = way(np.array(request["pose"]), start, time_step=self.step)
            if result["status"] == "Success":
                return {"status": "Success", "position": result["position"][:, :7].tolist()}
        return {"status": "Failure", "position": None}


class Handler(BaseHTTPRequestHandler):
    planner = Planner()

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        work = {"/init": self.planner.init, "/plan": self.planner.plan}.get(self.path)
        body = json.dumps(work(request) if work else {"detail": "there are /init and /plan"}).encode()
        self.send_response(200 if work else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: there is a request for each waypoint."""


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler).serve_forever()
