#!/bin/sh
# Take out of a virtual environment what serving does not need: every lab node loads this image, so each megabyte counts twice or more.
# $1: the environment.
set -eu

site=$1/lib/python3.11/site-packages

# Test suites, headers, static libraries, programs and byte code. Not every `tests` directory: some packages import theirs.
rm -rf \
    "$site"/torch/include "$site"/torch/share "$site"/torch/test \
    "$site"/numpy/*/tests "$site"/numpy/tests "$site"/sympy/*/tests "$site"/sympy/*/*/tests "$site"/networkx/*/tests "$site"/networkx/*/*/tests \
    "$site"/ray/tests "$site"/ray/jars "$site"/ray/cpp "$site"/ray/rllib "$site"/ray/tune "$site"/ray/dashboard/client \
    "$site"/pycountry/locales \
    "$site"/vllm/kernels/helion/configs
# Of PyTorch's programs it looks for this one when it is imported.
find "$site/torch/bin" -type f ! -name torch_shm_manager -delete
find "$site" -name '*.a' -delete
find "$site" -name '*.pyi' -delete
find "$site" -name __pycache__ -type d -prune -exec rm -rf {} +

# Symbol tables. Only of these three: strip breaks the libraries that auditwheel patched (numpy.libs and its like).
find "$site/vllm" "$site/torch/lib" "$site/ray/_raylet.so" "$site/ray/core/src" -type f -size +1M \
    \( -name '*.so' -o -name gcs_server -o -name raylet \) -exec strip --strip-unneeded {} +

# Byte code only of what serving imports: it saves compiling some thousand modules at each start of a container, and the byte code of
# everything would make the image a quarter larger.
"$1/bin/python" -m compileall -q "$site/vllm/v1" "$site/vllm/platforms" "$site/vllm/distributed" "$site/tandem_lab_platform"
for modules in \
    'vllm.entrypoints.openai.api_server, vllm.entrypoints.cli.main, vllm.entrypoints.cli.serve' \
    'vllm.v1.engine.core, vllm.v1.worker.cpu_worker, vllm.v1.executor.multiproc_executor, vllm.v1.attention.backends.cpu_attn' \
    'vllm.model_executor.models.qwen2, transformers.models.qwen2.modeling_qwen2, transformers.models.auto.modeling_auto' \
    'ray, ray.scripts.scripts, ray._private.workers.default_worker, ray.dashboard.agent, ray._private.runtime_env.agent.main'; do
    # Some of these are programs that end at once or complain when imported: only their byte code is wanted.
    "$1/bin/python" -c "import $modules" >/dev/null 2>&1 || true
done
