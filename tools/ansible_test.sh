#!/usr/bin/env bash
# Runs ansible-test on a copy of this checkout: it wants a real folder ansible_collections/tandem/vllm and refuses links.
#   tools/ansible_test.sh sanity|units [ARGUMENTS OF ansible-test...]
# The copy holds the files that git tracks or has staged, as they are in the work tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
checkout=$PWD
command=$1
shift

copy=$checkout/.cache/ansible-test/ansible_collections/tandem/vllm
mkdir -p "$copy"
exec 9>"$checkout/.cache/ansible-test.lock"
flock 9
# What ansible-test itself left (tests/output, with its virtual environments) stays for the next run.
find "$copy" -mindepth 1 -maxdepth 1 ! -name tests -exec rm -rf {} +
[ ! -d "$copy/tests" ] || find "$copy/tests" -mindepth 1 -maxdepth 1 ! -name output -exec rm -rf {} +
git ls-files -z --cached --deduplicate | while IFS= read -r -d '' file; do
    [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar --null --files-from=- -cf - | tar -C "$copy" -xf -
git -C "$copy" init -q # else ansible-test finds this checkout above, which ignores its .cache

# ansible-test finds Pythons as pythonX.Y on PATH. pyenv's shims are there for every version but run only the chosen ones, so the
# real interpreters go in front.
bins=$checkout/.venv/bin
for folder in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin "$checkout"/.cache/python/*/bin; do
    [ ! -d "$folder" ] || bins+=:$folder
done
path=$(printf %s "$PATH" | tr : '\n' | grep -v -e /shims -e "^$checkout/.venv/bin" | paste -sd:)
export PATH=$bins:$path

# ansible-test bootstraps its virtual environments with a get-pip.py that it downloads from a site of its own. Python's ensurepip does
# the same with what is on the machine, so a stand-in goes where it looks for the cached download: in a home folder of its own, outside
# the checkout, as scripts in a virtual environment cannot start where the path is long.
export XDG_CONFIG_HOME=${XDG_CONFIG_HOME:-$HOME/.config} # pip's settings
export HOME=${XDG_CACHE_HOME:-$HOME/.cache}/tandem-ansible-test
mkdir -p "$HOME/.ansible/test/cache"
for version in $(python - <<'PY'
from types import SimpleNamespace
from ansible_test._internal.python_requirements import get_venv_packages
print(*{get_venv_packages(SimpleNamespace(version=f"3.{minor}"))["pip"] for minor in range(8, 15)})
PY
); do
    printf 'import ensurepip\nensurepip.bootstrap(upgrade=True, default_pip=True)\n' \
        >"$HOME/.ansible/test/cache/get_pip_${version//./_}.py"
done
export LC_ALL=C.UTF-8
if [ "$command" = units ]; then
    # On the oldest Python there is, in a virtual environment of ansible-test's own. `make units` runs them on two newer ones.
    versions=()
    for version in $(python - <<'PY'
import yaml
from ansible_test._util.target.common.constants import CONTROLLER_PYTHON_VERSIONS, REMOTE_ONLY_PYTHON_VERSIONS
from packaging.specifiers import SpecifierSet
with open("tests/config.yml") as file:
    supported = SpecifierSet(yaml.safe_load(file)["modules"]["python_requires"])
print(*supported.filter([*REMOTE_ONLY_PYTHON_VERSIONS, *CONTROLLER_PYTHON_VERSIONS]))
PY
    ); do
        if "python$version" -c 'import ensurepip, venv' 2>/dev/null; then
            versions+=("$version")
        else
            echo "Python $version is not on this machine (or has no venv): not tested on it"
        fi
    done
    set -- --requirements --target-python "venv/${versions[0]}" "$@"
fi
cd "$copy"
exec ansible-test "$command" --color no "$@"
