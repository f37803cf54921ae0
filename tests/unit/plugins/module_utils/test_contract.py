# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract: right ones give the exact placement, each wrong one gives exactly its problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.api_keys import key_state, key_states
from ansible_collections.tandem.vllm.plugins.module_utils.contract import Contract, read_contract
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Limits,
    Model,
    Node,
    Placement,
    Replica,
    Service,
)
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.contracts import (
    DIGEST,
    LAB,
    SECRETS,
    SITE,
    Change,
    drop,
    found,
    put,
    replicas,
    set_,
)


def extra(key: Any, value: Any) -> Change:
    return put("services.0.engine.extra_args", {key: value})


def two_services(first: dict[str, Any], second: dict[str, Any]) -> Change:
    """A second service beside the first, each with changes."""

    def change(contract: Contract) -> Contract:
        service = contract.services[0]
        model = {**service["model"], "served_name": "other"}
        return replace(contract, services=[{**service, **first}, {**service, "model": model, **second}])

    return change


# What is allowed, and what to do.
ADDRESS = "must be the IPv4 address that the other machines reach this host by"
CLIENT_KEY = "must list at least one client key {name, key}"
COUNT = "must be a whole number above zero"
ENGINE_KEYS = (
    "block_size, chat_template, cpu_offload_gb, dtype, enable_auto_tool_choice, enable_chunked_prefill, "
    "enable_expert_parallel, enable_prefix_caching, enforce_eager, extra_args, gpu_memory_utilization, hf_overrides, "
    "kv_cache_dtype, kv_cache_memory_bytes, limit_mm_per_prompt, load_format, max_model_len, max_num_batched_tokens, "
    "max_num_seqs, quantization, reasoning_parser, runner, seed, tool_call_parser, trust_remote_code"
)
ENGINE_MAPPING = "must be a mapping with the keys " + ENGINE_KEYS
ENGINE_UNKNOWN = "unknown key; allowed are " + ENGINE_KEYS
FLAG = "must be named like a flag of 'vllm serve'; a value stands behind the colon"
FRACTION = "must be a number above 0 and at most 1"
GPU_IDS = "must be a list of different GPU indices or UUIDs"
GPUS_OF_TWO = "needs tensor_parallel × pipeline_parallel = 2 different GPUs of gpu1, which has 0, 1, 2, 3"
KEY = "must be 16 to 512 characters of A-Z a-z 0-9 . _ ~ + / = -"
KEYS_OF_SERVICE = "engine, environment, limits, model, name, port, replicas, task"
SERVICE_MAPPING = "must be a mapping with the keys " + KEYS_OF_SERVICE
SERVICE_UNKNOWN = "unknown key; allowed are " + KEYS_OF_SERVICE
MAPPING = "must be a mapping"
NAME = "must be 1 to 40 lower-case letters, digits and hyphens, not starting or ending with a hyphen"
NO_KEY = "is required: nothing is served without a key"
PATH = "must be an absolute path of a directory on the nodes, without '..' and ':'"
PINNED = "must be pinned by digest (name@sha256:…) or image id (sha256:…); tags move"
PORT = "must be a TCP port from 1 to 65535"
POSITIVE = "must be a number above zero"
PLACED = "cannot be set here: it follows from the placement"
SCALAR = "must be a text or a number"
SIZE = "must be a size above zero such as 512m or 16g"

CORRECT = "Correct the value in the inventory"
HOST_ADDRESS = "Set tandem_address in host_vars to the private address"
INSPECT = "On a machine that has the image, 'docker image inspect %s --format {{.Id}}' prints its id"
LOWER = "Lower the parallel size or name GPUs that are there"
MAKE_KEY = "Make one with 'openssl rand -hex 24' and keep it in ansible-vault"
OWN_NAME = "Give each replica a name of its own"
SET_IT = "Set it in the inventory"
WRITE_FLAG = "Write it as name: value"

S = "tandem_services[0]."
# A value of the lab's contract -> what is allowed there.
VALUES: list[tuple[str, Any, str]] = [
    ("api_keys.1.name", "Bob B", NAME),
    ("services.0.name", "chat_1", NAME),
    ("services.0.name", "chat-", NAME),
    ("services.0.name", "c" * 41, NAME),
    ("services.0.name", 7, NAME),
    ("services.0.port", 65536, PORT),
    ("services.0.port", True, PORT),
    ("services.0.model.path", "models/tiny", PATH),
    ("services.0.model.path", "/models/../etc", PATH),
    ("services.0.model.path", "/", PATH),
    ("services.0.model.path", "/models/a:b", PATH),
    ("services.0.limits.memory", "-4g", SIZE),
    ("services.0.limits.memory", "0g", SIZE),
    ("services.0.limits.memory", "4 GiB", SIZE),
    ("services.0.limits.shm_size", -1, SIZE),
    ("services.0.limits.cpus", 0, POSITIVE),
    ("services.0.limits.cpus", True, POSITIVE),
    ("services.0.limits.cpus", "2", POSITIVE),
    ("services.0.engine.max_model_len", "2048", COUNT),
    ("services.0.engine.max_model_len", 0, COUNT),
    ("services.0.engine.gpu_memory_utilization", 1.5, FRACTION),
    ("services.0.engine.gpu_memory_utilization", 90, FRACTION),
    ("services.0.engine.max_num_seqs", True, COUNT),
    ("services.0.engine.limit_mm_per_prompt", "image=1", MAPPING),
    ("services.0.engine.extra_args", ["--seed=1"], MAPPING),
    ("services.0.environment", ["A=1"], MAPPING),
]
CASES: list[Any] = [
    pytest.param(
        LAB,
        replicas({"nodes": ["nod1"]}),
        Problem(
            S + "replicas[0].nodes",
            "'nod1'",
            "is no host of this inventory; nodes are node1, node2",
            "Correct the name",
        ),
        id="unknown node",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["gateway"]}),
        Problem(
            S + "replicas[0].nodes",
            "'gateway'",
            "is not in the group tandem_nodes (node1, node2)",
            "Add it to the group, or choose another",
        ),
        id="node of another group",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["backup"], "tensor_parallel": 4}),
        Problem(
            S + "replicas[0].nodes",
            "'backup'",
            "is not in the group tandem_nodes (gpu1, gpu2)",
            "Add it to the group, or choose another",
        ),
        id="node of no group",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": "node1"}),
        Problem(S + "replicas[0].nodes", "'node1'", "must be a list of node names", "Write nodes: [node1]"),
        id="nodes is text",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": []}),
        Problem(S + "replicas[0].nodes", "[]", "must be a list of node names", "Write nodes: [<name of a node>]"),
        id="nodes is empty",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": [{"node1": None}]}),
        Problem(
            S + "replicas[0].nodes",
            "{'node1': None}",
            "is no host of this inventory; nodes are node1, node2",
            "Correct the name",
        ),
        id="node is no name",
    ),
    pytest.param(
        LAB,
        put("services.0.replicas", []),
        Problem(S + "replicas", "[]", "must list at least one replica {nodes: […]}", "Leave it out for the default"),
        id="replicas empty",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "tensor_paralel": 2}),
        Problem(
            S + "replicas[0].tensor_paralel",
            "2",
            "unknown key; allowed are executor, gpus, name, nodes, pipeline_parallel, port, tensor_parallel",
            "Did you mean 'tensor_parallel'?",
        ),
        id="replica misspelled",
    ),
    pytest.param(
        LAB,
        replicas({"name": "a"}),
        Problem(S + "replicas[0].nodes", "not set", "is required", SET_IT),
        id="replica without nodes",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "name": "Chat_1"}),
        Problem(S + "replicas[0].name", "'Chat_1'", NAME, CORRECT),
        id="replica bad name",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "name": "a"}, {"nodes": ["node2"], "name": "a"}),
        Problem("tandem_services[].replicas[].name", "'a'", "is there twice", OWN_NAME),
        id="replica names twice",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"]}, {"nodes": ["node1"], "port": 8001}),
        Problem("tandem_services[].replicas[].name", "'chat-node1'", "is there twice", OWN_NAME),
        id="replica default names twice",
    ),
    pytest.param(
        LAB,
        two_services(
            {"replicas": [{"nodes": ["node1"], "name": "a"}]},
            {"name": "other", "replicas": [{"nodes": ["node1"], "name": "a", "port": 8001}]},
        ),
        Problem("tandem_services[].replicas[].name", "'a'", "is there twice", OWN_NAME),
        id="replica names twice over services",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "name": "a"}, {"nodes": ["node1"], "name": "b"}),
        Problem(
            "tandem_services[].port",
            "8000",
            "is used twice on node1: by replica a and by replica b",
            "Give one of them another port",
        ),
        id="two replicas on a port",
    ),
    pytest.param(
        SITE,
        put("services.0.port", 8080),
        Problem(
            "tandem_services[].port",
            "8080",
            "is used twice on gpu1: by the gateway gpu1 and by replica chat-gpu1",
            "Give one of them another port",
        ),
        id="gateway and replica on a port",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "executor": "slurm"}),
        Problem(S + "replicas[0].executor", "'slurm'", "must be one of mp, ray", "Correct it in the inventory"),
        id="executor",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "tensor_parallel": 0}),
        Problem(S + "replicas[0].tensor_parallel", "0", COUNT, CORRECT),
        id="tensor parallel zero",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "port": 70000}),
        Problem(S + "replicas[0].port", "70000", PORT, CORRECT),
        id="replica port",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 8}),
        Problem(
            S + "replicas[0].gpus",
            "['0', '1', '2', '3']",
            "needs tensor_parallel × pipeline_parallel = 8 different GPUs of gpu1, which has 0, 1, 2, 3",
            LOWER,
        ),
        id="wrong GPU count",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 2, "gpus": [0]}),
        Problem(S + "replicas[0].gpus", "['0']", GPUS_OF_TWO, LOWER),
        id="too few gpus named",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 2, "gpus": [3, 4]}),
        Problem(S + "replicas[0].gpus", "['3', '4']", GPUS_OF_TWO, LOWER),
        id="gpu that is not there",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 2, "gpus": [1, 1]}),
        Problem(S + "replicas[0].gpus", "['1', '1']", GPUS_OF_TWO, LOWER),
        id="one gpu twice in a replica",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 2, "gpus": 2}),
        Problem(
            S + "replicas[0].gpus", "2", "must be a list of GPU indices or UUIDs of the node", "Write it as [0, 1]"
        ),
        id="gpus no list",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1"], "gpus": [0]}),
        Problem(
            S + "replicas[0].gpus",
            "['0']",
            "needs tensor_parallel × pipeline_parallel = 1 different GPUs of node1, which has none",
            LOWER,
        ),
        id="gpus on a CPU node",
    ),
    pytest.param(
        SITE,
        replicas(
            {"nodes": ["gpu1"], "name": "a", "tensor_parallel": 2},
            {"nodes": ["gpu1"], "name": "b", "tensor_parallel": 1, "gpus": [1], "port": 8001},
        ),
        Problem(
            "tandem_services[].replicas[].gpus",
            "'1'",
            "GPU 1 of gpu1 is given to a and to b",
            "Give each replica its own with replicas[].gpus",
        ),
        id="gpu given twice",
    ),
    pytest.param(
        SITE,
        put("image.ref", "vllm/vllm-openai:latest"),
        Problem(
            "tandem_image.ref",
            "'vllm/vllm-openai:latest'",
            "'latest' is refused: " + PINNED,
            INSPECT % "vllm/vllm-openai:latest",
        ),
        id="latest",
    ),
    pytest.param(
        SITE,
        put("image.ref", "registry:5000/vllm-openai"),
        Problem(
            "tandem_image.ref",
            "'registry:5000/vllm-openai'",
            "'latest' is refused: " + PINNED,
            INSPECT % "registry:5000/vllm-openai",
        ),
        id="untagged",
    ),
    pytest.param(
        SITE,
        put("image.ref", "vllm/vllm-openai:v0.25.1"),
        Problem(
            "tandem_image.ref",
            "'vllm/vllm-openai:v0.25.1'",
            PINNED,
            INSPECT % "vllm/vllm-openai:v0.25.1",
        ),
        id="tag",
    ),
    pytest.param(
        SITE,
        put("image.ref", "vllm@sha256:abc"),
        Problem(
            "tandem_image.ref",
            "'vllm@sha256:abc'",
            PINNED,
            INSPECT % "vllm@sha256:abc",
        ),
        id="short digest",
    ),
    pytest.param(
        LAB,
        put("image.ref", "vllm openai:1"),
        Problem("tandem_image.ref", "'vllm openai:1'", "must be an image reference", "Name the vLLM image by digest"),
        id="image with space",
    ),
    pytest.param(
        LAB,
        set_(image="vllm:1"),
        Problem("tandem_image", "'vllm:1'", "must be a mapping with the keys archive, ref", "Write it as key: value"),
        id="image no mapping",
    ),
    pytest.param(
        LAB,
        set_(image=None),
        Problem("tandem_image", "not set", "must be a mapping with the keys archive, ref", "Write it as key: value"),
        id="image missing",
    ),
    pytest.param(
        LAB,
        set_(image={"archive": "/srv/vllm.tar"}),
        Problem("tandem_image.ref", "not set", "is required", SET_IT),
        id="image without ref",
    ),
    pytest.param(
        SITE,
        put("image.archiv", "/x"),
        Problem("tandem_image.archiv", "'/x'", "unknown key; allowed are archive, ref", "Did you mean 'archive'?"),
        id="image misspelled",
    ),
    pytest.param(
        SITE,
        set_(archive_exists=False),
        Problem(
            "tandem_image.archive",
            "'/srv/vllm.tar'",
            "must be a file on the control node",
            "Correct the path, or 'docker save' it",
        ),
        id="archive missing",
    ),
    pytest.param(
        LAB, set_(api_keys=key_states([])), Problem("tandem_api_keys", "not set", CLIENT_KEY, MAKE_KEY), id="no API key"
    ),
    pytest.param(
        LAB,
        set_(api_keys=key_states(None)),
        Problem("tandem_api_keys", "not set", CLIENT_KEY, MAKE_KEY),
        id="API keys not set",
    ),
    pytest.param(
        LAB,
        set_(api_keys=key_states(SECRETS[0])),
        Problem("tandem_api_keys", "(hidden)", CLIENT_KEY, MAKE_KEY),
        id="API keys no list",
    ),
    pytest.param(
        LAB,
        set_(api_keys=key_states([SECRETS[0]])),
        Problem(
            "tandem_api_keys[0]", "(hidden)", "must have exactly the keys name and key", "Write {name: alice, key: …}"
        ),
        id="API key entry is text",
    ),
    pytest.param(
        LAB,
        set_(api_keys=key_states([{"name": "alice", "kye": SECRETS[0]}])),
        Problem(
            "tandem_api_keys[0]", "(hidden)", "must have exactly the keys name and key", "Write {name: alice, key: …}"
        ),
        id="API key misspelled",
    ),
    pytest.param(
        LAB,
        set_(api_keys=key_states([{"name": "alice", "key": ""}])),
        Problem("tandem_api_keys[0].key", "not set", NO_KEY, MAKE_KEY),
        id="API key empty",
    ),
    pytest.param(
        LAB,
        set_(api_keys=key_states([{"name": SECRETS[0], "key": SECRETS[1]}])),
        Problem("tandem_api_keys[0].name", "(hidden)", NAME, CORRECT),
        id="API key name and key mixed up",
    ),
    pytest.param(
        LAB,
        set_(engine_api_key=key_state(None)),
        Problem("tandem_engine_api_key", "not set", NO_KEY, MAKE_KEY),
        id="no engine key",
    ),
    pytest.param(
        LAB,
        set_(engine_api_key=key_state("")),
        Problem("tandem_engine_api_key", "not set", NO_KEY, MAKE_KEY),
        id="empty engine key",
    ),
    pytest.param(
        LAB,
        set_(engine_api_key=key_state(SECRETS[3])),
        Problem("tandem_engine_api_key", "(hidden)", KEY, MAKE_KEY),
        id="short engine key",
    ),
    pytest.param(
        LAB,
        set_(engine_api_key=key_state(1234567890123456789)),
        Problem("tandem_engine_api_key", "(hidden)", KEY, MAKE_KEY),
        id="engine key is a number",
    ),
    pytest.param(
        LAB,
        put("api_keys.1.key", key_state(SECRETS[3])),
        Problem("tandem_api_keys[1].key", "(hidden)", KEY, MAKE_KEY),
        id="short API key",
    ),
    pytest.param(
        LAB,
        put("api_keys.1.key", key_state(SECRETS[0] + " x")),
        Problem("tandem_api_keys[1].key", "(hidden)", KEY, MAKE_KEY),
        id="key with a space",
    ),
    pytest.param(
        LAB,
        put("api_keys.1.key", key_state(SECRETS[0])),
        Problem("tandem_api_keys[1].key", "(hidden)", "is there twice", "Give each client its own"),
        id="duplicate key",
    ),
    pytest.param(
        LAB,
        put("api_keys.1.name", "alice"),
        Problem("tandem_api_keys[1].name", "'alice'", "is there twice", "Give each client its own"),
        id="duplicate key name",
    ),
    pytest.param(
        LAB,
        set_(nodes=[]),
        Problem("group tandem_nodes", "'empty'", "must hold at least one GPU machine", "Add hosts to the inventory"),
        id="empty nodes",
    ),
    pytest.param(
        LAB,
        set_(gateways=[]),
        Problem(
            "group tandem_gateway",
            "'empty'",
            "must hold at least one host that runs nginx",
            "Add a host; a GPU machine may be the gateway too",
        ),
        id="empty gateway",
    ),
    pytest.param(
        SITE,
        drop("nodes.1.gpus"),
        Problem(
            "gpu2: tandem_gpus",
            "not set",
            "is required outside the lab",
            "Set {count: N}, or {ids: […]} with the indices or UUIDs that 'nvidia-smi -L' prints",
        ),
        id="gpus missing outside the lab",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"count": 1, "ids": [0]}),
        Problem("gpu2: tandem_gpus", "{'count': 1, 'ids': [0]}", "must have either count or ids", "Set one of them"),
        id="gpus count and ids",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {}),
        Problem("gpu2: tandem_gpus", "{}", "must have either count or ids", "Set one of them"),
        id="gpus neither",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"ids": None}),
        Problem("gpu2: tandem_gpus", "{'ids': None}", "must have either count or ids", "Set one of them"),
        id="gpus ids without value",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"count": "4"}),
        Problem("gpu2: tandem_gpus.count", "'4'", COUNT, CORRECT),
        id="gpus count text",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"count": 0}),
        Problem("gpu2: tandem_gpus.count", "0", COUNT, CORRECT),
        id="gpus count zero",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", 4),
        Problem(
            "gpu2: tandem_gpus",
            "4",
            "must be a mapping with the keys access, count, ids, memory_gib, model",
            "Write it as key: value",
        ),
        id="gpus a number",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"cuont": 4}),
        Problem(
            "gpu2: tandem_gpus.cuont",
            "4",
            "unknown key; allowed are access, count, ids, memory_gib, model",
            "Did you mean 'count'?",
        ),
        id="gpus misspelled",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"count": 4, "model": 80}),
        Problem(
            "gpu2: tandem_gpus.model",
            "80",
            "must be a non-empty text",
            "Write a part of the name that 'nvidia-smi -L' prints",
        ),
        id="gpus model a number",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"count": 4, "memory_gib": "80G"}),
        Problem(
            "gpu2: tandem_gpus.memory_gib",
            "'80G'",
            "must be a number above zero",
            "Write the nominal size, as 80",
        ),
        id="gpus memory a text",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"count": 4, "access": "runtime"}),
        Problem(
            "gpu2: tandem_gpus.access",
            "'runtime'",
            "must be one of nvidia, cdi",
            "Correct it in the inventory",
        ),
        id="gpus access unknown",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"ids": [0, "0"]}),
        Problem("gpu2: tandem_gpus.ids", "[0, '0']", GPU_IDS, "See nvidia-smi -L"),
        id="gpus the same id twice",
    ),
    pytest.param(
        SITE,
        put("nodes.1.gpus", {"ids": "0,1"}),
        Problem("gpu2: tandem_gpus.ids", "'0,1'", GPU_IDS, "See nvidia-smi -L"),
        id="gpus ids text",
    ),
    pytest.param(
        LAB,
        drop("nodes.0.address"),
        Problem("node1: tandem_address", "not set", ADDRESS, HOST_ADDRESS),
        id="address missing",
    ),
    pytest.param(
        LAB,
        put("nodes.0.address", "node1.example"),
        Problem("node1: tandem_address", "'node1.example'", ADDRESS, HOST_ADDRESS),
        id="address is a name",
    ),
    pytest.param(
        LAB,
        put("nodes.0.address", "fd00::1"),
        Problem("node1: tandem_address", "'fd00::1'", ADDRESS, HOST_ADDRESS),
        id="address is IPv6",
    ),
    pytest.param(
        LAB,
        put("nodes.0.address", "127.0.0.1"),
        Problem("node1: tandem_address", "'127.0.0.1'", ADDRESS, HOST_ADDRESS),
        id="address is loopback",
    ),
    pytest.param(
        LAB,
        put("nodes.0.address", "0.0.0.0"),  # noqa: S104 - refused here
        Problem("node1: tandem_address", "'0.0.0.0'", ADDRESS, HOST_ADDRESS),
        id="address is any",
    ),
    pytest.param(
        LAB,
        put("nodes.1.address", "10.89.70.11"),
        Problem(
            "node2: tandem_address",
            "'10.89.70.11'",
            "must differ from host to host; node1 has it too",
            "Correct it in host_vars",
        ),
        id="address twice",
    ),
    pytest.param(
        LAB,
        put("gateways.0.address", "10.89.70"),
        Problem("gateway: tandem_address", "'10.89.70'", ADDRESS, HOST_ADDRESS),
        id="gateway address",
    ),
    pytest.param(
        LAB, put("gateways.0.port", 0), Problem("gateway: tandem_gateway_port", "0", PORT, CORRECT), id="gateway port"
    ),
    pytest.param(
        LAB,
        put("gateways.0.port", "8080"),
        Problem("gateway: tandem_gateway_port", "'8080'", PORT, CORRECT),
        id="gateway port text",
    ),
    pytest.param(
        LAB, set_(environment=None), Problem("tandem_environment", "not set", NAME, CORRECT), id="environment missing"
    ),
    pytest.param(
        LAB,
        set_(environment="My Lab"),
        Problem("tandem_environment", "'My Lab'", NAME, CORRECT),
        id="environment bad name",
    ),
    pytest.param(
        SITE, set_(lab="yes"), Problem("tandem_lab", "'yes'", "must be true or false", CORRECT), id="lab is text"
    ),
    pytest.param(
        LAB,
        set_(services=[]),
        Problem(
            "tandem_services", "[]", "must list at least one service", "See inventories/two_node_a100 for an example"
        ),
        id="no services",
    ),
    pytest.param(
        LAB,
        set_(services={"chat": {}}),
        Problem(
            "tandem_services",
            "{'chat': {}}",
            "must list at least one service",
            "See inventories/two_node_a100 for an example",
        ),
        id="services no list",
    ),
    pytest.param(
        LAB,
        two_services({}, {"name": "embed"}),
        Problem(
            "tandem_services",
            "['chat', 'embed']",
            "dual-replica places exactly one service on all GPUs of each node",
            "Leave one, or give each its replicas",
        ),
        id="two services without replicas",
    ),
    pytest.param(
        LAB,
        two_services({"replicas": [{"nodes": ["node1"]}]}, {"replicas": [{"nodes": ["node2"]}]}),
        Problem("tandem_services[].name", "'chat'", "is there twice", "Give each service its own"),
        id="two services of one name",
    ),
    pytest.param(
        LAB,
        two_services(
            {"replicas": [{"nodes": ["node1"]}]},
            {
                "name": "b",
                "model": {"path": "/models/b", "served_name": "tiny-chat"},
                "replicas": [{"nodes": ["node2"]}],
            },
        ),
        Problem("tandem_services[].served_name", "'tiny-chat'", "is there twice", "Give each service its own"),
        id="two services of one served name",
    ),
    pytest.param(
        LAB,
        two_services(
            {"replicas": [{"nodes": ["node1"]}]},
            {
                "name": "b",
                "model": {"path": "/models/b", "served_name": "b"},
                "replicas": [{"nodes": ["node2"]}],
            },
        ),
        Problem(
            "tandem_services",
            "['chat', 'b']",
            "must be one service: the gateway does not route by model yet",
            "Leave one, or use an inventory for each",
        ),
        id="two services behind one gateway",
    ),
    pytest.param(
        LAB,
        put("services.0.modle", {}),
        Problem(S + "modle", "{}", SERVICE_UNKNOWN, "Did you mean 'model'?"),
        id="service misspelled",
    ),
    pytest.param(
        LAB,
        put("services.0.zzz", 1),
        Problem(S + "zzz", "1", SERVICE_UNKNOWN, "Remove it"),
        id="service misspelled beyond guess",
    ),
    pytest.param(
        LAB,
        set_(services=["chat"]),
        Problem("tandem_services[0]", "'chat'", SERVICE_MAPPING, "Write it as key: value"),
        id="service is text",
    ),
    pytest.param(
        LAB,
        drop("services.0.model"),
        Problem(S + "model", "not set", "is required", SET_IT),
        id="service without model",
    ),
    pytest.param(
        LAB,
        put("services.0.task", "chat"),
        Problem(S + "task", "'chat'", "must be one of generate, embed, score", "Correct it in the inventory"),
        id="task",
    ),
    pytest.param(
        LAB,
        put("services.0.model.served_nam", "x"),
        Problem(
            S + "model.served_nam",
            "'x'",
            "unknown key; allowed are manifest, path, revision, served_name",
            "Did you mean 'served_name'?",
        ),
        id="model misspelled",
    ),
    pytest.param(
        LAB,
        put("services.0.model.served_name", "tiny chat"),
        Problem(
            S + "model.served_name",
            "'tiny chat'",
            "must be a model name of letters, digits and . _ : / -",
            "Clients send it as 'model'",
        ),
        id="served name",
    ),
    pytest.param(
        LAB,
        put("services.0.model.served_name", ""),
        Problem(S + "model.served_name", "not set", "is required", SET_IT),
        id="served name empty",
    ),
    pytest.param(
        SITE,
        drop("services.0.model.revision"),
        Problem(
            S + "model.revision",
            "not set",
            "is required outside the lab: it is how a release says which weights it ran",
            "Set the commit of the model's repository",
        ),
        id="missing revision outside the lab",
    ),
    pytest.param(
        LAB,
        put("services.0.limits.mem", "4g"),
        Problem(S + "limits.mem", "'4g'", "unknown key; allowed are cpus, memory, shm_size", "Did you mean 'memory'?"),
        id="limits misspelled",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.max_model_length", 4096),
        Problem(S + "engine.max_model_length", "4096", ENGINE_UNKNOWN, "Did you mean 'max_model_len'?"),
        id="engine misspelled",
    ),
    pytest.param(
        LAB,
        put("services.0.engine", "max_model_len=4096"),
        Problem(S + "engine", "'max_model_len=4096'", ENGINE_MAPPING, "Write it as key: value"),
        id="engine no mapping",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.enforce_eager", 1),
        Problem(S + "engine.enforce_eager", "1", "must be true or false", CORRECT),
        id="number where a boolean is wanted",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.seed", 0.5),
        Problem(S + "engine.seed", "0.5", "must be a whole number", CORRECT),
        id="seed fraction",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.dtype", 16),
        Problem(S + "engine.dtype", "16", "must be a non-empty text", CORRECT),
        id="dtype number",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.tensor_parallel_size", 2),
        Problem(S + "engine.tensor_parallel_size", "(hidden)", PLACED, "Remove it"),
        id="owned in engine",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.--tensor-parallel-size", 2),
        Problem(S + "engine.--tensor-parallel-size", "(hidden)", PLACED, "Remove it"),
        id="owned in engine hyphens",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.tp", 2),
        Problem(S + "engine.tp", "(hidden)", PLACED, "Remove it"),
        id="owned in engine short",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.tensor_parallel", 2),
        Problem(S + "engine.tensor_parallel", "(hidden)", PLACED, "Remove it"),
        id="owned in engine beginning",
    ),
    pytest.param(
        LAB,
        put("services.0.engine.api_key", SECRETS[2]),
        Problem(
            S + "engine.api_key", "(hidden)", "cannot be set here: it follows from tandem_engine_api_key", "Remove it"
        ),
        id="owned secret in engine",
    ),
    pytest.param(
        LAB,
        extra("max_model_len", 4096),
        Problem(
            S + "engine.extra_args.max_model_len", "4096", "is a setting of its own", "Write it as engine.max_model_len"
        ),
        id="engine setting inside extra_args",
    ),
    pytest.param(
        LAB,
        extra("--no-enforce-eager", True),
        Problem(
            S + "engine.extra_args.--no-enforce-eager",
            "True",
            "is a setting of its own",
            "Write it as engine.enforce_eager",
        ),
        id="engine setting inside extra_args as a flag",
    ),
    pytest.param(
        LAB,
        extra("port=9", None),
        Problem(S + "engine.extra_args.port=9", "(hidden)", FLAG, WRITE_FLAG),
        id="extra_args with a value in its key",
    ),
    pytest.param(
        LAB,
        extra("--foo --port", 9),
        Problem(S + "engine.extra_args.--foo --port", "(hidden)", FLAG, WRITE_FLAG),
        id="extra_args with two words",
    ),
    pytest.param(
        LAB,
        extra(1, 2),
        Problem(S + "engine.extra_args.1", "(hidden)", FLAG, WRITE_FLAG),
        id="extra_args number as key",
    ),
    pytest.param(
        LAB,
        put("services.0.environment.VLLM_API_KEY", SECRETS[2]),
        Problem(
            S + "environment.VLLM_API_KEY",
            "(hidden)",
            "cannot be set here: it follows from tandem_engine_api_key",
            "Remove it",
        ),
        id="owned environment",
    ),
    pytest.param(
        LAB,
        put("services.0.environment.CUDA_VISIBLE_DEVICES", "0"),
        Problem(
            S + "environment.CUDA_VISIBLE_DEVICES",
            "(hidden)",
            "cannot be set here: it follows from tandem_gpus",
            "Remove it",
        ),
        id="owned environment CUDA",
    ),
    pytest.param(
        LAB,
        put("services.0.environment.MY-VAR", "1"),
        Problem(S + "environment.MY-VAR", "'1'", "must be named like an environment variable", "Rename it"),
        id="environment bad key",
    ),
    pytest.param(
        LAB,
        put("services.0.environment.MY_VAR", True),
        Problem(S + "environment.MY_VAR", "True", SCALAR, "Put it in quotes"),
        id="environment true",
    ),
    pytest.param(
        LAB,
        put("services.0.environment.MY_VAR", None),
        Problem(S + "environment.MY_VAR", "not set", SCALAR, "Put it in quotes"),
        id="environment null",
    ),
    pytest.param(
        LAB,
        put("services.0.environment.MY_VAR", [1]),
        Problem(S + "environment.MY_VAR", "[1]", SCALAR, "Put it in quotes"),
        id="environment list",
    ),
]


@pytest.mark.parametrize(("base", "change", "problem"), CASES)
def test_wrong_contract(base: Contract, change: Change, problem: Problem) -> None:
    assert found(change(base)) == [problem]


@pytest.mark.parametrize(("path", "value", "wanted"), VALUES)
def test_wrong_value(path: str, value: Any, wanted: str) -> None:
    variable = "tandem_" + path.replace(".0", "[0]").replace(".1", "[1]")
    assert found(put(path, value)(LAB)) == [Problem(variable, repr(value), wanted, CORRECT)]


BUNDLE = "Name the folder that playbooks/bundle.yml wrote"


@pytest.mark.parametrize(
    ("stated", "problems"),
    [
        ({"bundle": "/srv/bundle", "bundle_exists": True}, []),
        # The playbook that makes the bundle.
        ({"bundle": "/srv/bundle", "bundle_exists": None}, []),
        (
            {"bundle": "/srv/bundle", "bundle_exists": False},
            [
                Problem(
                    "tandem_bundle",
                    "'/srv/bundle'",
                    "must be a folder on the control node that holds a manifest.json",
                    BUNDLE,
                )
            ],
        ),
        ({"bundle": 7}, [Problem("tandem_bundle", "7", "must be a non-empty text", BUNDLE)]),
        ({"bundle": "/b", "bundle_exists": True, "ray": {"version": "2.54.0", "extras": ["default", "cgraph"]}}, []),
        (
            {"bundle": "/b", "bundle_exists": True, "ray": {"version": 2.54}},
            [Problem("tandem_ray.version", "2.54", "must be one exact version", "Write it as '2.54.0', in quotes")],
        ),
        (
            {"bundle": "/b", "bundle_exists": True, "ray": {"version": ">=2.54"}},
            [Problem("tandem_ray.version", "'>=2.54'", "must be one exact version", "Write it as '2.54.0', in quotes")],
        ),
        (
            {"bundle": "/b", "bundle_exists": True, "ray": {"version": "2.54.0", "extras": "default"}},
            [Problem("tandem_ray.extras", "'default'", "must be a list of Ray's extras", "Write it as [default]")],
        ),
        (
            {"ray": {"version": "2.54.0"}},
            [
                Problem(
                    "tandem_bundle",
                    "not set",
                    "is required with tandem_ray: its wheels come from there",
                    "Make a bundle with playbooks/bundle.yml, or leave out tandem_ray",
                )
            ],
        ),
        ({"bundle": "/b", "bundle_exists": True, "bundle_gateway_packages": True}, []),
        (
            {"bundle": "/b", "bundle_exists": True, "bundle_gateway_packages": "yes"},
            [Problem("tandem_bundle_gateway_packages", "'yes'", "must be true or false", CORRECT)],
        ),
        (
            {"bundle_gateway_packages": True},
            [
                Problem(
                    "tandem_bundle",
                    "not set",
                    "is required with tandem_bundle_gateway_packages: the packages come from there",
                    "Make a bundle with playbooks/bundle.yml, or leave out tandem_bundle_gateway_packages",
                )
            ],
        ),
    ],
)
def test_bundle_and_ray(stated: dict[str, Any], problems: list[Problem]) -> None:
    assert found(replace(SITE, **stated)) == problems


def spellings(flag: str) -> list[str]:
    dashed = flag.replace("_", "-")
    return [flag, dashed, "--" + flag, "--" + dashed, "no-" + dashed, "--no-" + dashed, "no_" + flag]


OWNED = {
    "api_key": "tandem_engine_api_key",
    "config": "tandem_services[].engine",
    "data_parallel_size": "the placement",
    "distributed_executor_backend": "the placement",
    "headless": "the placement",
    "host": "the node's tandem_address",
    "master_addr": "the placement",
    "master_port": "the placement",
    "model": "tandem_services[].model.path",
    "nnodes": "the placement",
    "node_rank": "the placement",
    "pipeline_parallel_size": "the placement",
    "port": "tandem_services[].port",
    "revision": "tandem_services[].model.revision",
    "served_model_name": "tandem_services[].model.served_name",
    "ssl_certfile": "the gateway",
    "ssl_keyfile": "the gateway",
    "tensor_parallel_size": "the placement",
    "uds": "the node's tandem_address",
}
# vLLM's short forms, and beginnings that its parser takes for the flag.
SHORT = {
    "tp": "the placement",
    "-tp": "the placement",
    "-pp": "the placement",
    "-dp": "the placement",
    "-n": "the placement",
    "-r": "the placement",
    "--tensor-parallel": "the placement",
    "tensor_parallel": "the placement",
    "data_parallel": "the placement",
    "hos": "the node's tandem_address",
    "--api-k": "tandem_engine_api_key",
    "served_model": "tandem_services[].model.served_name",
}
WAYS = [(way, owner) for flag, owner in OWNED.items() for way in spellings(flag)] + list(SHORT.items())


@pytest.mark.parametrize("where", ["engine", "engine.extra_args"])
@pytest.mark.parametrize(("key", "owner"), WAYS)
def test_what_tandem_owns_cannot_be_given(where: str, key: str, owner: str) -> None:
    change = put("services.0." + where, {key: SECRETS[0]})
    wanted = "cannot be set here: it follows from " + owner
    assert found(change(LAB)) == [Problem(f"{S}{where}.{key}", "(hidden)", wanted, "Remove it")]


@pytest.mark.parametrize(
    "extra_args",
    [
        {"model_impl": "transformers", "ssl_ca_certs": "/x", "hf_config_path": "/y"},
        {"--api-server-count": 2, "no-enable-log-requests": True, "O": 3, "hf-overrides.x": 1},
        None,
        {},
    ],
)
def test_other_flags_are_passed_on(extra_args: Any) -> None:
    placement, problems = read_contract(put("services.0.engine.extra_args", extra_args)(LAB))
    assert [str(p) for p in problems.found] == []
    assert placement
    assert placement.services[0].extra_args == (extra_args or {})


def test_all_problems_are_told_at_once() -> None:
    contract = replace(LAB, lab=False, environment="My Lab", gateways=[], api_keys=None)
    placement, problems = read_contract(contract)
    assert placement is None
    assert [p.variable for p in problems.found] == [
        "tandem_environment",
        "tandem_image.ref",
        "tandem_api_keys",
        "node1: tandem_gpus",
        "node2: tandem_gpus",
        "group tandem_gateway",
        "tandem_services[0].model.revision",
    ]
    head, *lines = problems.message("Does not fit").split("\n")
    assert (head, len(lines)) == ("Does not fit:", 7)
    assert lines[1].startswith("- tandem_image.ref = 'tandem-lab/vllm:0.32.0': must be pinned by digest")


def test_several_wrong_values_of_one_service() -> None:
    service = {"name": "Chat", "modle": {}, "model": {"path": "x", "served_name": "y"}, "port": 0}
    assert [p.variable for p in found(replace(LAB, services=[service]))] == [S + "modle"]
    del service["modle"]
    assert [p.variable for p in found(replace(LAB, services=[service]))] == [S + "name", S + "port", S + "model.path"]


def test_one_problem_is_told_in_one_line() -> None:
    _placement, problems = read_contract(replace(LAB, engine_api_key=None))
    said = problems.message("Does not fit")
    assert said == f"Does not fit: tandem_engine_api_key = not set: {NO_KEY}. {MAKE_KEY}."


def test_question_as_remedy_ends_as_a_question() -> None:
    said = str(found(put("image.archiv", "/x")(LAB))[0])
    assert said == "tandem_image.archiv = '/x': unknown key; allowed are archive, ref. Did you mean 'archive'?"


def lab_replica(node: str) -> Replica:
    return Replica("chat-" + node, (node,), 1, 1, "mp", 8000, ())


def test_placement_of_the_lab() -> None:
    service = Service(
        name="chat",
        model=Model("/models/tandem-tiny-chat", "tiny-chat", None, None),
        replicas=(lab_replica("node1"), lab_replica("node2")),
        task="generate",
        engine={"max_model_len": 2048, "enforce_eager": True},
        extra_args={"disable_log_stats": False},
        limits=Limits("1g", "4g", 1.0),
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
    )
    nodes = {"node1": Node("10.89.70.11"), "node2": Node("10.89.70.12")}
    assert read_contract(LAB)[0] == Placement("lab", nodes, (service,), True)


def test_placement_of_two_a100_nodes() -> None:
    gpus = ("0", "1", "2", "3")
    service = Service(
        name="chat",
        model=Model("/models/Qwen2.5-32B-Instruct", "qwen2.5-32b", "5ede1c97", None),
        replicas=(
            Replica("chat-gpu1", ("gpu1",), 4, 1, "mp", 8000, gpus),
            Replica("chat-gpu2", ("gpu2",), 4, 1, "mp", 8000, gpus),
        ),
        engine={"max_model_len": 8192, "gpu_memory_utilization": 0.9},
        limits=Limits("16g", "200g", None),
    )
    nodes = {"gpu1": Node("192.168.1.11", gpus), "gpu2": Node("192.168.1.12", gpus)}
    assert read_contract(SITE)[0] == Placement("two-node-a100", nodes, (service,), False)


def test_three_nodes_make_three_replicas() -> None:
    placement, _problems = read_contract(replace(LAB, nodes=[*LAB.nodes, {"name": "node3", "address": "10.89.70.13"}]))
    assert placement
    assert placement.services[0].replicas == tuple(lab_replica(node) for node in ("node1", "node2", "node3"))


def test_gpus_by_id_and_the_service_port() -> None:
    contract = put("services.0.port", 9000)(put("nodes.1.gpus", {"ids": ["GPU-a", "GPU-b"]})(SITE))
    placement, _problems = read_contract(contract)
    assert placement
    assert placement.services[0].replicas[1] == Replica("chat-gpu2", ("gpu2",), 2, 1, "mp", 9000, ("GPU-a", "GPU-b"))


def test_gpus_described() -> None:
    stated = {"count": 2, "model": "A100", "memory_gib": 80, "access": "cdi"}
    placement, _problems = read_contract(put("nodes.1.gpus", stated)(SITE))
    assert placement
    assert placement.nodes["gpu2"] == Node("192.168.1.12", ("0", "1"), "A100", 80, "cdi")


def test_replicas_as_written() -> None:
    entries = [
        {"nodes": ["gpu1"], "name": "front", "tensor_parallel": 2, "pipeline_parallel": 1, "gpus": [2, 3]},
        {"nodes": ["gpu1"], "tensor_parallel": 2, "executor": "mp", "port": 8001},
        {"nodes": ["gpu2"], "tensor_parallel": 2, "pipeline_parallel": 2},
    ]
    placement, problems = read_contract(replicas(*entries)(SITE))
    assert problems.found == []
    assert placement
    assert placement.services[0].replicas == (
        Replica("front", ("gpu1",), 2, 1, "mp", 8000, ("2", "3")),
        Replica("chat-gpu1", ("gpu1",), 2, 1, "mp", 8001, ("0", "1")),
        Replica("chat-gpu2", ("gpu2",), 2, 2, "mp", 8000, ("0", "1", "2", "3")),
    )


@pytest.mark.parametrize("ref", ["vllm/vllm-openai@" + DIGEST, DIGEST])
def test_pinned_images(ref: str) -> None:
    assert found(put("image.ref", ref)(SITE)) == []


@pytest.mark.parametrize("ref", ["vllm:latest", "vllm", "vllm:1"])
def test_a_lab_takes_any_image(ref: str) -> None:
    assert found(put("image.ref", ref)(LAB)) == []


def test_what_may_be_left_out() -> None:
    service = {"name": "chat", "model": {"path": "/m", "served_name": "m"}}
    for key in ("engine", "limits", "environment", "replicas"):
        service[key] = None
    assert found(replace(LAB, services=[service])) == []


def test_a_list_carries_no_flag() -> None:
    change = put("services.0.engine.extra_args", {"allowed-origins": ["a", "--port", 9]})
    assert found(change(LAB)) == [
        Problem(
            "tandem_services[0].engine.extra_args.allowed-origins",
            "(hidden)",
            "a list must hold plain values that do not begin with '-'",
            "Write each flag as an entry of its own",
        )
    ]


def test_a_client_that_has_the_engines_key() -> None:
    contract = replace(LAB, engine_api_key=LAB.api_keys[0]["key"])
    _placement, problems = read_contract(contract)
    assert [(p.variable, p.value) for p in problems.found] == [("tandem_engine_api_key", "(hidden)")]
