# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an environment needs of a bundle, and whether the bundle's manifest has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import vocabulary
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import packages
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    BundledModel,
    Image,
    Manifest,
    Wheelhouse,
)
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import canonical_name
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Service

THERE, MISSING, OTHER = "there", "missing", "other version"
CONTROL_NODE = "control node"
# What the control node needs: a name for people, how its files' paths begin and end.
CONTROLLER_PARTS = (
    ("wheels for the control node", "controller/wheels/", ".whl"),
    ("collections for the control node", "controller/collections/", ".tar.gz"),
    ("the control node's pinned requirements", "controller/requirements", ".txt"),
)
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?\s*(?:==\s*([^\s;,]+))?")


def needs(
    manifest: Manifest,
    placement: Placement,
    image: str | None = None,
    ray: Mapping[str, Any] | None = None,
    gateways: Sequence[str] = (),
    controller: bool = True,
) -> list[dict[str, Any]]:
    """What the placement needs: {what, for, state, detail} each. for: host names; state: one of THERE, MISSING, OTHER.

    image: what the contract names it by, None when it is not to be looked for. ray: {version, extras: list} that nodes
    get from wheels, or None. gateways: hosts that get their distribution packages from the bundle.
    """
    nodes = sorted({node for service in placement.services for replica in service.replicas for node in replica.nodes})
    rows = []
    bundled = _image(manifest, image) if image else None
    if image:
        rows.append(_image_row(manifest, image, bundled, nodes))
    if ray:
        image_id = bundled.id if bundled else (image if image and image.startswith("sha256:") else None)
        rows.append(_ray_row(manifest, str(ray["version"]), ray.get("extras") or (), image_id, nodes))
    rows += [_model_row(manifest, service) for service in placement.services]
    if controller:
        rows += [_controller_row(manifest, *part) for part in CONTROLLER_PARTS]
    rows += [_package_row(manifest, gateway) for gateway in gateways]
    return rows


def lacking(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of `needs` that the bundle does not satisfy."""
    return [row for row in rows if row["state"] != THERE]


def _row(what: str, hosts: Iterable[str], state: str, detail: str) -> dict[str, Any]:
    return {"what": what, "for": list(hosts), "state": state, "detail": detail}


def _image(manifest: Manifest, ref: str) -> Image | None:
    """The image that `ref` means: as it is written, or by the id in it."""
    digest = ref.rpartition("@")[2]
    by_ref = next((image for image in manifest.images if image.ref == ref), None)
    return by_ref or next((image for image in manifest.images if image.id == digest), None)


def _image_row(manifest: Manifest, ref: str, bundled: Image | None, nodes: list[str]) -> dict[str, Any]:
    what = f"image {ref}"
    if bundled:
        return _row(what, nodes, THERE, f"{bundled.file}, id {bundled.id[:19]}")
    if not manifest.images:
        return _row(what, nodes, MISSING, "the bundle holds no image")
    held = ", ".join(f"{image.ref} (id {image.id[:19]})" for image in manifest.images)
    same = [image for image in manifest.images if _repository(image.ref) == _repository(ref)]
    return _row(what, nodes, OTHER if same and _repository(ref) else MISSING, f"the bundle holds {held}")


def _repository(ref: str) -> str:
    """The name of an image without tag and digest; empty for an id alone."""
    if ref.startswith("sha256:"):
        return ""
    name = ref.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return head + slash + tail.partition(":")[0]


def _ray_row(
    manifest: Manifest, version: str, extras: Iterable[str], image_id: str | None, nodes: list[str]
) -> dict[str, Any]:
    asked = {canonical_name(str(extra)) for extra in extras}
    what = f"ray[{','.join(sorted(asked))}]=={version}" if asked else f"ray=={version}"
    if not manifest.wheelhouses:
        return _row(what, nodes, MISSING, "the bundle holds no wheels for nodes")
    # A wheelhouse for a stated target, of no image, may be meant for any.
    usable = [w for w in manifest.wheelhouses if w.image_id in (None, image_id)]
    if not usable:
        held = ", ".join(sorted({str(w.image_id)[:19] for w in manifest.wheelhouses}))
        wanted = f"the image's id is {image_id[:19]}" if image_id else "the id of the contract's image is not known"
        return _row(what, nodes, MISSING, f"the bundle's wheels are for image {held}; {wanted}")
    verdicts = [_ray_in(w, version, asked) for w in sorted(usable, key=lambda w: w.image_id is None)]
    order = (THERE, OTHER, MISSING)
    state, detail = min(verdicts, key=lambda verdict: order.index(verdict[0]))
    return _row(what, nodes, state, detail)


def _ray_in(wheelhouse: Wheelhouse, version: str, extras: set[str]) -> tuple[str, str]:
    """Whether a wheelhouse has what is asked for: state and detail."""
    found = [
        (wheel.version, wheelhouse.path(wheel)) for wheel in wheelhouse.wheels if canonical_name(wheel.name) == "ray"
    ]
    found += [(p.version, "the image has it already") for p in wheelhouse.in_target if canonical_name(p.name) == "ray"]
    if not found:
        return MISSING, f"no ray among the wheels of {wheelhouse.folder}"
    if version not in [held for held, _where in found]:
        return OTHER, f"{wheelhouse.folder} has ray {', '.join(held for held, _where in found)}"
    built_for = {extra for requirement in wheelhouse.requirements for extra in _extras_of_ray(requirement)}
    if extras - built_for:
        asked = ", ".join(wheelhouse.requirements)
        return (
            MISSING,
            f"{wheelhouse.folder} was made for {asked}: without what [{','.join(sorted(extras - built_for))}] needs",
        )
    where = next(where for held, where in found if held == version)
    stated = "" if wheelhouse.image_id else f"; for a stated target: {wheelhouse.target.words}"
    return THERE, f"{where}, {len(wheelhouse.wheels)} wheels in {wheelhouse.folder}{stated}"


def _extras_of_ray(requirement: str) -> set[str]:
    found = _REQUIREMENT.match(requirement)
    if not found or canonical_name(found[1]) != "ray":
        return set()
    return {canonical_name(extra.strip()) for extra in (found[2] or "").split(",") if extra.strip()}


def _model_row(manifest: Manifest, service: Service) -> dict[str, Any]:
    wanted = service.model
    what = f"model {wanted.path}" + (f" at {wanted.revision}" if wanted.revision else "")
    nodes = sorted({node for replica in service.replicas for node in replica.nodes})
    bundled = next((model for model in manifest.models if model.path.rstrip("/") == wanted.path.rstrip("/")), None)
    if bundled is None:
        held = ", ".join(model.path for model in manifest.models)
        return _row(what, nodes, MISSING, f"the bundle's models: {held}" if held else "the bundle holds no model")
    # A contract without a revision (a lab's) takes any.
    if wanted.revision and wanted.revision != bundled.revision:
        held = f"is of revision {bundled.revision}" if bundled.revision else "states no revision"
        return _row(what, nodes, OTHER, f"{bundled.manifest} {held}")
    return _row(what, nodes, THERE, _model_detail(manifest, bundled, wanted.revision))


def _model_detail(manifest: Manifest, bundled: BundledModel, revision: str | None) -> str:
    # Vocabulary files are in the bundle without the model's others too.
    folder = bundled.manifest.rpartition(".json")[0] + f"/{vocabulary.FOLDER}/"
    some = any(file.path.startswith(folder) for file in manifest.files)
    only = "manifest and vocabulary only: its other files" if some else "manifest only: its files"
    files = "with its files" if bundled.has_files else f"{only} have to be on the nodes already"
    compared = "" if revision else "; the contract states no revision: not compared"
    return f"{bundled.manifest}, {files}{compared}"


def _controller_row(manifest: Manifest, what: str, start: str, end: str) -> dict[str, Any]:
    paths = [file.path for file in manifest.files if file.path.startswith(start) and file.path.endswith(end)]
    if not paths:
        return _row(what, [CONTROL_NODE], MISSING, f"no {start}*{end}")
    return _row(what, [CONTROL_NODE], THERE, paths[0] if len(paths) == 1 else f"{len(paths)} files, {start}*{end}")


def _package_row(manifest: Manifest, gateway: str) -> dict[str, Any]:
    """nginx and what it depends on, for one gateway; the manifest's `needs` says which, when it knows the host.

    Which release a gateway runs is compared when it is deployed: no host is asked here.
    """
    paths = [file.path for file in manifest.of_kind("package")]
    if manifest.needs and gateway in manifest.needs:
        paths = [path for path in paths if path in manifest.needs[gateway]]
    held = sorted({path.rpartition("/")[0] for path in paths})
    folders = packages.whole(paths)
    what = "packages of nginx"
    if not folders:
        detail = f"no {packages.GATEWAY_PACKAGE} with an index" + (f" in {', '.join(held)}" if held else "")
        return _row(what, [gateway], MISSING, detail)
    count = sum(path.endswith(".deb") and path.rpartition("/")[0] in folders for path in paths)
    return _row(what, [gateway], THERE, f"{', '.join(folders)}: {count} packages")
