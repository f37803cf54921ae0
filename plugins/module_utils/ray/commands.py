# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines that ask Ray inside a container, and what their answers are."""

from __future__ import annotations

import json
from typing import Any

# Ray's clients ignore Ctrl-C while they wait for a GCS, and may wait for 40 s: they are killed.
KILL_AFTER = 2
# `ray list nodes` shows 100 nodes unless told otherwise.
MOST_NODES = 10000
# Before the answer of LOOK, as Ray logs to the same stream.
MARK = "tandem-ray-look "

# Asks the GCS itself for its table of nodes: `ray list nodes` asks the dashboard, which is off. The ways to it have
# other names in other releases. Prints one line of JSON: ray_version and python_version of this container, cluster
# (the same of the head, where the release keeps them), nodes, error.
LOOK = """
import json, os, platform
out = {"python_version": platform.python_version()}
try:
    import ray
    out["ray_version"] = ray.__version__
    from ray._private import services
    from ray._private.state import GlobalState
    from ray._raylet import GcsClientOptions
    address = services.canonicalize_bootstrap_address_or_die(os.environ.get("RAY_ADDRESS") or None)
    create = getattr(GcsClientOptions, "create", None)
    options = create(address, None, True, False) if create else GcsClientOptions.from_gcs_address(address)
    state = GlobalState()
    state._initialize_global_state(options)
    out["nodes"] = state.node_table()
    try:
        try:
            from ray._common.usage import usage_lib
        except ImportError:
            from ray._private.usage import usage_lib
        from ray._raylet import GcsClient
        out["cluster"] = usage_lib.get_cluster_metadata(GcsClient(address=address))
    except Exception:
        pass
except Exception as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
print("MARK" + json.dumps(out, default=str), flush=True)
os._exit(0)
""".replace("MARK", MARK)


def _inside(container: str, address: str | None, seconds: int, argv: list[str]) -> list[str]:
    environment = ["--env", f"RAY_ADDRESS={address}"] if address else []
    # The limit is inside: killing `docker exec` leaves the command running in the container.
    return ["docker", "exec", *environment, container, "timeout", "-k", str(KILL_AFTER), str(seconds), *argv]


def status(container: str, address: str | None, seconds: int) -> list[str]:
    """`ray status -v`, for so many seconds at most; without an address Ray finds the one of its own node."""
    where = ["--address", address] if address else []
    return _inside(container, address, seconds, ["ray", "status", "-v", *where])


def look(container: str, address: str | None, seconds: int) -> list[str]:
    """The nodes as the GCS has them, and versions; the answer is read by `looked`."""
    return _inside(container, address, seconds, ["python3", "-c", LOOK])


def list_nodes(container: str, address: str | None, seconds: int) -> list[str]:
    """`ray list nodes`, which needs the dashboard."""
    argv = ["ray", "list", "nodes", "--format", "json", "--limit", str(MOST_NODES)]
    return _inside(container, address, seconds, argv)


def looked(output: str) -> dict[str, Any]:
    """The answer of `look`; {"error": …} where it printed none."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            answer: dict[str, Any] = json.loads(line[len(MARK) :])
            return answer
    lines = output.strip().splitlines()
    return {"error": lines[-1] if lines else "no answer"}
