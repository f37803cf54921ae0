# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image asks of its host, out of `docker image inspect` or the JSON files of an archive.

An archive is one that `docker save` or a like tool wrote: manifest.json with the images' tags, or the OCI layout with
index.json, or both, as Docker writes it from version 25 on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

MIB = 2**20
# First bytes of a compressed file, and what compressed it.
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# Annotations of OCI manifests that name the image.
NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


@dataclass(frozen=True)
class Member:
    """A file of an archive. size: bytes; head: all of a small JSON file, the start of others; link: where it leads."""

    size: int
    head: bytes
    link: str | None = None


@dataclass(frozen=True)
class ArchivedImage:
    """An image of an archive.

    digests: hex digests it goes by (configuration, manifest, index); names: its tags; layers: names of its files.
    """

    digests: tuple[str, ...]
    names: tuple[str, ...]
    config: Mapping[str, Any]
    layers: tuple[str, ...]


def compression(head: bytes) -> str | None:
    """What a file that starts with these bytes is compressed with; None when it is not."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def requirement(environment: Iterable[Any]) -> dict[str, Any]:
    """{cuda_requirement, cuda_version: str or None; requirement_disabled: bool} of an image's environment.

    environment: its entries, NAME=value.
    """
    values = dict(str(entry).partition("=")[::2] for entry in environment)
    return {
        "cuda_requirement": values.get("NVIDIA_REQUIRE_CUDA") or None,
        "cuda_version": values.get("CUDA_VERSION") or None,
        # The values that NVIDIA's toolkit takes for true.
        "requirement_disabled": values.get("NVIDIA_DISABLE_REQUIRE") in ("1", "t", "T", "true", "TRUE", "True"),
    }


def of_inspect(text: str) -> dict[str, Any] | None:
    """What `docker image inspect --format '{{json .}}'` says of an image; None when the text is not that."""
    found = _mapping(_parsed(text.encode()))
    if "Id" not in found:
        return None
    size = found.get("Size")
    return {
        "image_id": _with_algorithm(str(found["Id"])),
        **requirement(_list(_mapping(found.get("Config")).get("Env"))),
        "size_mib": _mib(size) if isinstance(size, int) else None,
        # With containerd's image store the engine counts the compressed layers; only then it tells a descriptor.
        "size_exact": isinstance(size, int) and not found.get("Descriptor"),
    }


def images(members: Mapping[str, Member]) -> list[ArchivedImage]:
    """The images of an archive, by the names of its files. What cannot be read is left out."""
    merged: dict[str, ArchivedImage] = {}
    for image in _by_manifest(members) + _by_index(members):
        first = merged.setdefault(image.digests[0], image)
        digests = tuple(dict.fromkeys(first.digests + image.digests))
        names = tuple(dict.fromkeys(first.names + image.names))
        merged[image.digests[0]] = replace(first, digests=digests, names=names)
    return list(merged.values())


def _by_manifest(members: Mapping[str, Member]) -> list[ArchivedImage]:
    """The images that manifest.json names."""
    found = []
    for entry in map(_mapping, _list(_json(members, "manifest.json"))):
        name = str(entry.get("Config"))
        config = _json(members, name)
        if isinstance(config, dict):
            digest = name.rpartition("/")[2]
            digest = digest[:-5] if digest.endswith(".json") else digest
            tags = tuple(str(tag) for tag in _list(entry.get("RepoTags")))
            layers = tuple(str(layer) for layer in _list(entry.get("Layers")))
            found.append(ArchivedImage((digest,), tags, config, layers))
    return found


def _by_index(members: Mapping[str, Member]) -> list[ArchivedImage]:
    """The images that index.json leads to, over an index of platforms where there is one."""
    found = []
    top = _list(_mapping(_json(members, "index.json")).get("manifests"))
    # Descriptors, each with the digests and the names of the indexes above it.
    pending: list[tuple[Any, tuple[str, ...], tuple[str, ...]]] = [(entry, (), ()) for entry in top]
    seen: set[str] = set()
    for entry, digests, names in pending:  # grows while it is walked
        descriptor = _mapping(entry)
        digest = _hex(descriptor.get("digest"))
        annotations = _mapping(descriptor.get("annotations"))
        called = names + tuple(str(annotations[key]) for key in NAME_ANNOTATIONS if key in annotations)
        document = _mapping(_json(members, _blob(digest)))
        if "manifests" in document and digest not in seen:
            seen.add(digest)
            pending += [(below, (digest, *digests), called) for below in _list(document["manifests"])]
        config_digest = _hex(_mapping(document.get("config")).get("digest"))
        config = _json(members, _blob(config_digest))
        # An attestation has a manifest and a configuration as well, but of no operating system.
        if isinstance(config, dict) and config.get("os") not in (None, "", "unknown"):
            layers = tuple(_blob(_hex(_mapping(layer).get("digest"))) for layer in _list(document.get("layers")))
            found.append(ArchivedImage((config_digest, digest, *digests), called, config, layers))
    return found


def find(archived: Iterable[ArchivedImage], ref: str) -> ArchivedImage | None:
    """The image that `ref` means: an id (sha256:…), a name with a digest, or a tag."""
    digest = ref.rpartition("@")[2]
    for image in archived:
        if digest.startswith("sha256:"):
            if _hex(digest) in image.digests:
                return image
        elif _full_name(ref) in [_full_name(other) for other in image.names]:
            return image
    return None


def of_archive(image: ArchivedImage, members: Mapping[str, Member]) -> dict[str, Any]:
    """What an archived image asks of its host. size_exact: false where layers are compressed or not in the archive."""
    layers = [_member(members, layer) for layer in image.layers]
    there = [layer for layer in layers if layer is not None]
    return {
        "image_id": _with_algorithm(image.digests[0]),
        **requirement(_list(_mapping(image.config.get("config")).get("Env"))),
        "size_mib": _mib(sum(layer.size for layer in there)) if there else None,
        "size_exact": bool(there) and len(there) == len(layers) and not any(compression(layer.head) for layer in there),
    }


def why_not(archived: Iterable[ArchivedImage], ref: str) -> str:
    """Why the image is not among those of the archive."""
    held = ["sha256:%s (%s)" % (image.digests[0][:12], ", ".join(image.names) or "no tag") for image in archived]
    if not held:
        return "it is no image archive: it has neither manifest.json nor index.json that leads to an image"
    reason = f"it does not hold {ref}, but {'; '.join(held)}"
    if "@" in ref:
        reason += ". docker save does not keep an image's digest in the registry: name the image by its id"
    return reason


def _full_name(name: str) -> str:
    """A name as Docker completes it: docker.io/library/debian and the tag latest, of debian."""
    head, slash, tail = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ("." in head or ":" in head or head == "localhost"):
        name = f"docker.io/{name}"
    elif head == "docker.io" and "/" not in tail:
        name = f"docker.io/library/{tail}"
    return name if ":" in name.rpartition("/")[2] else name + ":latest"


def _member(members: Mapping[str, Member], name: str) -> Member | None:
    """A file of the archive, links followed; older Docker writes a layer once and links to it from other images."""
    for _hop in range(8):
        member = members.get(name)
        if member is None or member.link is None:
            return member
        name = member.link
    return None


def _json(members: Mapping[str, Member], name: str) -> Any:
    member = _member(members, name)
    return _parsed(member.head) if member is not None and member.size == len(member.head) else None


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _hex(digest: Any) -> str:
    return str(digest).rpartition(":")[2]


def _with_algorithm(digest: str) -> str:
    """An image id with its algorithm, which Podman leaves out."""
    return digest if ":" in digest else f"sha256:{digest}"


def _mib(size: int) -> int:
    """Bytes as MiB, rounded up: what is needed at least."""
    return -(-size // MIB)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
