# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a rank group in the lab comes back from whatever dies, with nobody running anything.

    ansible-playbook playbooks/lab_up.yml -i inventories/lab && ansible-playbook ray-tp.yml -i inventories/lab
    .venv/bin/python bench/recovery.py --rounds 3 --check

A client asks the gateway twice a second. Told: seconds from the fault until it is answered 503. Back: seconds until it
is served again. The start time is that of the same group, stopped and started by its keeper. Targets: told within 5 s;
back within the start time and 30 s (and, where the network is cut, the time that it is cut).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.tandem.vllm.tests.e2e import faults  # noqa: E402
from ansible_collections.tandem.vllm.tests.e2e.lab import on  # noqa: E402

TOLD_S = 5
BACK_S = 30


def start_time() -> float:
    """Seconds from a stop of the whole group until it serves."""
    began = time.monotonic()
    done = on("node1", "systemctl", "restart", f"tandem-rank-group@{faults.GROUP}")
    if done.status != 0:
        raise SystemExit(f"no group to measure: {done.output}")
    faults.wait_for("serving")
    return time.monotonic() - began


def row(fault: str, seen: list[faults.Outage], start_s: float) -> dict[str, Any]:
    told, back = [o.told_s for o in seen], [o.back_s for o in seen]
    allowed = start_s + BACK_S + (faults.CUT_S if "cut" in fault else 0)
    if fault in faults.HARMLESS:
        met = all(t is None for t in told)
    else:
        met = all(t is not None and t <= TOLD_S for t in told) and all(b is not None and b <= allowed for b in back)
    return {"fault": fault, "told_s": told, "back_s": back, "allowed_s": round(allowed, 1), "met": met}


def figures(values: list[float | None]) -> str:
    return ", ".join("-" if value is None else f"{value:.1f}" for value in values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fault", action="append", default=[], help="a part of a fault's name; all by default")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--check", action="store_true", help="end 1 when a target is missed")
    given = parser.parse_args()
    chosen = [f for f in faults.FAULTS if not given.fault or any(part in f for part in given.fault)]
    starts = [start_time() for _number in range(given.rounds)]
    print(f"starts: {figures(list(starts))} s", file=sys.stderr, flush=True)
    seen: dict[str, list[faults.Outage]] = {fault: [] for fault in chosen}
    for number in range(given.rounds):
        for fault in chosen:
            faults.wait_for("serving")
            with faults.Client.of_lab() as client:
                if client.first(lambda a: a.status == 200, 60) is None:
                    raise SystemExit("the group does not serve")
                found = faults.outage(client, fault)
            seen[fault].append(found)
            print(f"round {number + 1}: {asdict(found)}", file=sys.stderr, flush=True)
    start_s = statistics.median(starts)
    rows = [row(fault, found, start_s) for fault, found in seen.items()]
    print(
        f"start time {start_s:.1f} s\n\n"
        "| what happens | 503 after (s) | served after (s) | at most | met |\n|---|---|---|---|---|"
    )
    for r in rows:
        met = "yes" if r["met"] else "NO"
        print(f"| {r['fault']} | {figures(r['told_s'])} | {figures(r['back_s'])} | {r['allowed_s']} | {met} |")
    if given.json:
        given.json.write_text(json.dumps({"start_s": starts, "rows": rows}, indent=2) + "\n")
    return 0 if all(r["met"] for r in rows) or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
