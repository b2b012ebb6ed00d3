"""Sampled rollouts by agentd_client.Rollouts: rollouts.py COUNT URL... prints a dot for each and then JSON."""

import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from agentd_client import Rollout, Rollouts

GRAMMAR = 'root ::= "{\\"say\\": \\"" [a-zA-Z ,.]{20,60} "\\", \\"tool_calls\\": [" ("1" | "2") "]}"'
THREADS = 12


def main() -> None:
    count, urls = int(sys.argv[1]), sys.argv[2:]
    with Rollouts(urls, token=os.environ["AGENTD_TOKEN"], patience=120) as client, ThreadPoolExecutor(THREADS) as pool:

        def one(i: int) -> Rollout:
            free = {"max_tokens": 40 + i % 30, "temperature": 1.2, "top_p": 0.9}
            bound = {"max_tokens": 90, "structured_outputs": {"grammar": GRAMMAR}, "return_sampling_mask": i % 4 == 0}
            done = client.complete(
                f"rover, bring cup {i % 17} to shelf {i % 5}.", seed=i, **(bound if i % 2 == 0 else free)
            )
            sys.stdout.write(".\n")
            sys.stdout.flush()
            return done

        all_of_them = list(pool.map(one, range(count)))
    parts = [asdict(done) for done in all_of_them]
    resumed = sum(part.pop("resumed") for part in parts)
    tokens = sum(len(part["token_ids"]) for part in parts)
    text = json.dumps(parts, sort_keys=True).encode()
    print(json.dumps({"hash": hashlib.sha256(text).hexdigest(), "resumed": resumed, "tokens": tokens}))


main()
