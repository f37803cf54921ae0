# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of model_download: shows how much has arrived, where the model is fetched on this machine."""

from __future__ import annotations

import os
import threading
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

MODULE = "tandem.vllm.model_download"
EVERY = 15.0
GIB = 2**30


class ActionModule(ActionBase):
    """Runs the module, and looks at the folder meanwhile."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args, done = dict(self._task.args), threading.Event()
        watch = threading.Thread(target=self._watch, args=(args, done), daemon=True)
        # Elsewhere there is no folder to look at.
        if self._connection.transport == "local":
            watch.start()
        try:
            result.update(self._execute_module(MODULE, module_args=args, task_vars=task_vars))
        finally:
            done.set()
        return result

    def _watch(self, args: dict[str, Any], done: threading.Event) -> None:
        folder, waited = str(args.get("path", "")).rstrip("/") + ".fetching", 0.0
        while not done.wait(EVERY):
            waited += EVERY
            said = f"{args.get('repository')}: {size_of(folder) / GIB:.2f} GiB have arrived ({waited:.0f} s)"
            Display().display(said)


def size_of(folder: str) -> int:
    """Bytes of all files below a folder; those that go away meanwhile do not count."""
    total = 0
    for place, _folders, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
    return total
