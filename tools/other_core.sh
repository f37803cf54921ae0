#!/usr/bin/env bash
# Makes a virtual environment with the supported ansible-core that .venv does not have, and prints its folder.
# Takes a Python that the machine has, else gets one (Debian package when root, then uv), else fails: the tests are never skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

have=$(.venv/bin/python -c 'from ansible.release import __version__; print(*__version__.split(".")[:2], sep=".")')
case $have in
    2.19) core=2.21 from=3.12 to=3.14 marker='>=' ;;
    2.21) core=2.19 from=3.11 to=3.13 marker='<' ;;
    *) printf 'error: .venv has ansible-core %s, which is neither 2.19 nor 2.21\n' "$have" >&2; exit 1 ;;
esac

find_it() { tools/find_python.sh "$from" "$to"; }
if ! python=$(find_it 2>/dev/null); then
    printf '[%(%H:%M:%S)T] no Python %s to %s here for ansible-core %s: getting one\n' -1 "$from" "$to" "$core" >&2
    if [ "$(id -u)" = 0 ] && apt-cache show "python$from-venv" >/dev/null 2>&1; then
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$from" "python$from-venv" >&2
    else
        .venv/bin/python -m pip install -qq --disable-pip-version-check --upgrade --target .cache/uv uv >&2
        .cache/uv/bin/uv python install --no-bin --install-dir .cache/python "$from" >&2 || true # find_it says what is missing
    fi
    python=$(find_it)
fi

# requirements.txt chooses by the version of Python; here the choice is made by name.
sed -E "s/; python_version $marker \"3\.12\"//; /; python_version/d" requirements.txt >".cache/requirements-$core.txt"
tools/venv.sh ".venv-$core" "$python" ".cache/requirements-$core.txt" requirements-units.txt
echo ".venv-$core"
