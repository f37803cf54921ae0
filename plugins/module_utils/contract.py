# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract: what an inventory must state. From its variables to a placement, or to what is wrong with them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.api_keys import KEY_REMEDY, KEY_WANTED, UNFIT
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    DEFAULT_PORT,
    EXECUTORS,
    GPU_ACCESS,
    TASKS,
    Limits,
    Model,
    Network,
    Node,
    Placement,
    Replica,
    Service,
    Spread,
    dual_replica,
    gpu_names,
    ray_tp,
    ray_tp_pp,
)
from ansible_collections.tandem.vllm.plugins.module_utils.problems import HIDDEN, Problems
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports as rank_ports
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import ENGINE_SETTINGS, flag_name, flag_owner

# What each topology's playbook makes of a service that names no replicas.
TOPOLOGIES: dict[str, Callable[[Service, Mapping[str, Node], Spread], tuple[Replica, ...]]] = {
    "dual_replica": dual_replica,
    "ray_tp": ray_tp,
    "ray_tp_pp": ray_tp_pp,
}

# Those of them that make rank groups.
SPREADING = ("ray_tp", "ray_tp_pp")

SERVICE_KEYS = ("name", "model", "task", "port", "engine", "limits", "environment", "replicas")
MODEL_KEYS = ("path", "served_name", "revision", "manifest")
LIMIT_KEYS = ("shm_size", "memory", "cpus")
REPLICA_KEYS = ("name", "nodes", "tensor_parallel", "pipeline_parallel", "executor", "port", "gpus")
GPU_KEYS = ("count", "ids", "model", "memory_gib", "access")
IMAGE_KEYS = ("ref", "archive")
RAY_KEYS = ("version", "extras")
NETWORK_KEYS = ("gbit", "latency_us", "rdma", "minimum_gbit")
API_KEY_KEYS = ("name", "key")
OWNED_ENVIRONMENT = {
    "VLLM_API_KEY": "tandem_engine_api_key",
    "CUDA_VISIBLE_DEVICES": "tandem_gpus",
    "VLLM_HOST_IP": "the node's tandem_address",
    "VLLM_PORT": "the ports of rank groups",
    "VLLM_RPC_BASE_PATH": "the placement",
    "RAY_ADDRESS": "the placement",
    "NCCL_SOCKET_IFNAME": "the node's tandem_address",
    "GLOO_SOCKET_IFNAME": "the node's tandem_address",
}

EXACT_VERSION = re.compile(r"\d+(\.\d+)+[A-Za-z0-9.+]*")
EXTRA = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PINNED_IMAGE = re.compile(r"(\S+@)?sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Contract:
    """An inventory's statements, unchecked, as read from its groups and variables.

    nodes, gateways: {name, address, gpus | port} per host of tandem_nodes and tandem_gateway.
    inventory_hosts: every host name of the inventory. Keys come as their states (api_keys.py): a contract holds no
    secret. archive_exists: whether image.archive is a file on the control node; None where none is named.
    bundle: folder of the offline bundle, ray: the Ray that its wheels bring into the image; None where there is none.
    bundle_exists: whether that folder has a manifest. bundle_gateway_packages: whether gateways get nginx from there.
    nodes_per_replica, executor: how a topology with rank groups spreads a service; None: its default.
    network: what is stated of the network between the nodes; None: nothing.
    """

    topology: str
    environment: Any
    lab: Any
    image: Any
    services: Any
    nodes: Sequence[Mapping[str, Any]]
    gateways: Sequence[Mapping[str, Any]]
    inventory_hosts: Sequence[str]
    api_keys: Any
    engine_api_key: Any
    archive_exists: bool | None = None
    bundle: Any = None
    ray: Any = None
    bundle_exists: bool | None = None
    bundle_gateway_packages: Any = False
    nodes_per_replica: Any = None
    executor: Any = None
    network: Any = None


def read_contract(contract: Contract) -> tuple[Placement | None, Problems]:
    """The placement a contract stands for; None with at least one problem when it is not fit for use."""
    reader = _Reader(contract)
    placement = reader.read()
    return (None if reader.problems.found else placement), reader.problems


@dataclass
class _Reader:
    contract: Contract
    problems: Problems = field(default_factory=Problems)

    def read(self) -> Placement:
        c, problems = self.contract, self.problems
        problems.kind("tandem_environment", c.environment, "name")
        problems.kind("tandem_lab", c.lab, "boolean")
        self.image()
        self.bundle()
        self.ray()
        self.keys()
        nodes = self.nodes()
        self.gateways()
        spread = self.spread(nodes)
        network = self.network()
        services = self.services(nodes, spread) if nodes else ()
        placement = Placement(str(c.environment), nodes, services, c.lab is True, network)
        if not problems.found:
            self.ports(placement)
            self.gpus(placement)
            self.rank_groups(placement)
            self.one_service(placement)
        return placement

    def one_service(self, placement: Placement) -> None:
        if len(placement.services) > 1:
            names = [s.name for s in placement.services]
            wanted = "must be one service: the gateway does not route by model yet"
            self.problems.add("tandem_services", names, wanted, "Leave one, or use an inventory for each")

    def image(self) -> None:
        image, lab = self.contract.image, self.contract.lab is True
        if not self.problems.mapping("tandem_image", image, IMAGE_KEYS, required=["ref"]):
            return
        ref = image["ref"]
        if not isinstance(ref, str) or re.search(r"\s", ref):
            self.problems.add("tandem_image.ref", ref, "must be an image reference", "Name the vLLM image by digest")
        elif not lab and not PINNED_IMAGE.fullmatch(ref):
            wanted = "must be pinned by digest (name@sha256:…) or image id (sha256:…); tags move"
            if ref.endswith(":latest") or ":" not in ref.rsplit("/", 1)[-1]:
                wanted = "'latest' is refused: " + wanted
            remedy = f"On a machine that has the image, 'docker image inspect {ref} --format {{{{.Id}}}}' prints its id"
            self.problems.add("tandem_image.ref", ref, wanted, remedy)
        if self.contract.archive_exists is False:
            wanted = "must be a file on the control node"
            self.problems.add(
                "tandem_image.archive", image.get("archive"), wanted, "Correct the path, or 'docker save' it"
            )

    def bundle(self) -> None:
        c, problems = self.contract, self.problems
        if c.bundle is not None:
            remedy = "Name the folder that playbooks/bundle.yml wrote"
            if problems.kind("tandem_bundle", c.bundle, "text", remedy) and c.bundle_exists is False:
                wanted = "must be a folder on the control node that holds a manifest.json"
                problems.add("tandem_bundle", c.bundle, wanted, remedy)
        variable = "tandem_bundle_gateway_packages"
        if problems.kind(variable, c.bundle_gateway_packages, "boolean") and c.bundle_gateway_packages and not c.bundle:
            wanted = f"is required with {variable}: the packages come from there"
            remedy = f"Make a bundle with playbooks/bundle.yml, or leave out {variable}"
            problems.add("tandem_bundle", None, wanted, remedy)

    def ray(self) -> None:
        c, problems = self.contract, self.problems
        if c.ray is None or not problems.mapping("tandem_ray", c.ray, RAY_KEYS, required=["version"]):
            return
        version, extras = c.ray["version"], c.ray.get("extras") or []
        if not isinstance(version, str) or not EXACT_VERSION.fullmatch(version):
            problems.add("tandem_ray.version", version, "must be one exact version", "Write it as '2.54.0', in quotes")
        if not isinstance(extras, (list, tuple)) or not all(isinstance(e, str) and EXTRA.fullmatch(e) for e in extras):
            problems.add("tandem_ray.extras", extras, "must be a list of Ray's extras", "Write it as [default]")
        if c.bundle is None:
            wanted = "is required with tandem_ray: its wheels come from there"
            problems.add(
                "tandem_bundle", None, wanted, "Make a bundle with playbooks/bundle.yml, or leave out tandem_ray"
            )

    def keys(self) -> None:
        c, problems = self.contract, self.problems
        if not c.api_keys or not isinstance(c.api_keys, (list, tuple)):
            shown = None if not c.api_keys else HIDDEN
            problems.add("tandem_api_keys", shown, "must list at least one client key {name, key}", KEY_REMEDY)
        else:
            for i, entry in enumerate(c.api_keys):
                path = "tandem_api_keys[%d]" % i
                if not isinstance(entry, Mapping) or sorted(entry) != sorted(API_KEY_KEYS):
                    problems.add(path, HIDDEN, "must have exactly the keys name and key", "Write {name: alice, key: …}")
                    continue
                problems.kind(path + ".name", entry["name"], "name")
                self.secret(path + ".key", entry["key"])
                for what in API_KEY_KEYS:
                    if entry[what] in (None, UNFIT):
                        continue
                    if any(isinstance(e, Mapping) and e.get(what) == entry[what] for e in c.api_keys[:i]):
                        shown = HIDDEN if what == "key" else entry[what]
                        problems.add(f"{path}.{what}", shown, "is there twice", "Give each client its own")
        self.secret("tandem_engine_api_key", c.engine_api_key)
        entries = c.api_keys if isinstance(c.api_keys, (list, tuple)) else []
        if c.engine_api_key not in (None, "", UNFIT) and any(
            isinstance(e, Mapping) and e.get("key") == c.engine_api_key for e in entries
        ):
            wanted = "must be no client's key: a client could then pass by the gateway"
            problems.add("tandem_engine_api_key", HIDDEN, wanted, KEY_REMEDY)

    def secret(self, variable: str, value: Any) -> None:
        if not value:
            self.problems.add(variable, None, "is required: nothing is served without a key", KEY_REMEDY)
        elif value == UNFIT:
            self.problems.add(variable, HIDDEN, KEY_WANTED, KEY_REMEDY)

    def address(self, variable: str, value: Any) -> None:
        try:
            address = ipaddress.IPv4Address(str(value))
            fit = not (address.is_unspecified or address.is_multicast or address.is_loopback)
        except ValueError:
            fit = False
        if not fit:
            wanted = "must be the IPv4 address that the other machines reach this host by"
            self.problems.add(variable, value, wanted, "Set tandem_address in host_vars to the private address")

    def nodes(self) -> dict[str, Node]:
        problems, nodes = self.problems, {}
        if not self.contract.nodes:
            problems.add(
                "group tandem_nodes", "empty", "must hold at least one GPU machine", "Add hosts to the inventory"
            )
        by_address: dict[str, str] = {}
        for entry in self.contract.nodes:
            name, address, gpus = entry["name"], entry.get("address"), entry.get("gpus")
            self.address(f"{name}: tandem_address", address)
            if address in by_address:
                wanted = f"must differ from host to host; {by_address[address]} has it too"
                problems.add(f"{name}: tandem_address", address, wanted, "Correct it in host_vars")
            by_address[str(address)] = name
            nodes[name] = self.node(f"{name}: tandem_gpus", str(address), gpus)
        return nodes

    def node(self, variable: str, address: str, value: Any) -> Node:
        """A node with the GPUs that its `tandem_gpus` names."""
        problems, lab = self.problems, self.contract.lab is True
        if value is None and not lab:
            remedy = "Set {count: N}, or {ids: […]} with the indices or UUIDs that 'nvidia-smi -L' prints"
            problems.add(variable, None, "is required outside the lab", remedy)
        if value is None or not problems.mapping(variable, value, GPU_KEYS):
            return Node(address)
        before = len(problems.found)
        count, ids = value.get("count"), value.get("ids")
        if (count is None) == (ids is None):
            problems.add(variable, dict(value), "must have either count or ids", "Set one of them")
        elif ids is None:
            problems.kind(variable + ".count", count, "positive integer")
        elif not isinstance(ids, (list, tuple)) or not ids or len(set(map(str, ids))) != len(ids):
            problems.add(
                variable + ".ids", ids, "must be a list of different GPU indices or UUIDs", "See nvidia-smi -L"
            )
        model, memory, access = value.get("model"), value.get("memory_gib"), value.get("access", GPU_ACCESS[0])
        if model is not None:
            problems.kind(variable + ".model", model, "text", "Write a part of the name that 'nvidia-smi -L' prints")
        if memory is not None:
            problems.kind(variable + ".memory_gib", memory, "positive number", "Write the nominal size, as 80")
        self.one_of(variable + ".access", access, GPU_ACCESS)
        if len(problems.found) > before:
            return Node(address)
        return Node(address, gpu_names(value), model, memory, access)

    def gateways(self) -> None:
        if not self.contract.gateways:
            wanted = "must hold at least one host that runs nginx"
            self.problems.add(
                "group tandem_gateway", "empty", wanted, "Add a host; a GPU machine may be the gateway too"
            )
        for entry in self.contract.gateways:
            self.address("{}: tandem_address".format(entry["name"]), entry.get("address"))
            self.problems.kind("{}: tandem_gateway_port".format(entry["name"]), entry.get("port"), "port")

    def spread(self, nodes: Mapping[str, Node]) -> Spread:
        """How topologies with rank groups spread a service; the default where what is stated does not fit."""
        c, problems = self.contract, self.problems
        before = len(problems.found)
        if c.executor is not None:
            self.one_of("tandem_executor", c.executor, EXECUTORS)
        size = c.nodes_per_replica
        fits = size is None or (isinstance(size, int) and size >= 2 and len(nodes) % size == 0)
        if not fits:
            wanted = f"must be a whole number, 2 or more, that divides the {len(nodes)} nodes of tandem_nodes"
            remedy = "Correct it, or leave it out and write the replicas by hand (tandem_services[].replicas)"
            problems.add("tandem_nodes_per_replica", size, wanted, remedy)
        if len(problems.found) > before:
            return Spread()
        return Spread(size, c.executor or Spread.executor)

    def network(self) -> Network:
        """What is stated of the network between the nodes; nothing where it does not fit."""
        problems, raw = self.problems, self.contract.network
        if raw is None or not problems.mapping("tandem_network", raw, NETWORK_KEYS):
            return Network()
        given = {key: value for key, value in raw.items() if value is not None}
        kinds = {key: "boolean" if key == "rdma" else "positive number" for key in given}
        fine = [problems.kind(f"tandem_network.{key}", value, kinds[key]) for key, value in given.items()]
        if not all(fine):
            return Network()
        numbers = {key: float(value) for key, value in given.items() if key != "rdma"}
        network = Network(rdma=given.get("rdma"), **numbers)
        if network.gbit is not None and network.minimum_gbit is not None and network.minimum_gbit >= network.gbit:
            wanted = f"must be less than gbit, which is {given['gbit']}: no link reaches its nominal speed"
            remedy = "State what the measured bandwidth has to reach, or leave it out"
            problems.add("tandem_network.minimum_gbit", given["minimum_gbit"], wanted, remedy)
        return network

    def services(self, nodes: Mapping[str, Node], spread: Spread) -> tuple[Service, ...]:
        raw = self.contract.services
        if not isinstance(raw, (list, tuple)) or not raw:
            wanted = "must list at least one service"
            self.problems.add("tandem_services", raw, wanted, "See inventories/two_node_a100 for an example")
            return ()
        if len(raw) > 1 and not all(isinstance(s, Mapping) and s.get("replicas") for s in raw):
            wanted = f"{self.contract.topology.replace('_', '-')} places exactly one service on all GPUs of each node"
            remedy = "Leave one, or give each its replicas"
            self.problems.add("tandem_services", [_label(s) for s in raw], wanted, remedy)
            return ()
        services = [self.service("tandem_services[%d]" % i, s, nodes, spread) for i, s in enumerate(raw)]
        for what in ("name", "served_name"):
            names = [s.name if what == "name" else s.model.served_name for s in services if s]
            for name in sorted({n for n in names if names.count(n) > 1}):
                self.problems.add(f"tandem_services[].{what}", name, "is there twice", "Give each service its own")
        replicas = [r.name for s in services if s for r in s.replicas]
        for name in sorted({n for n in replicas if replicas.count(n) > 1}):
            remedy = "Give each replica a name of its own"
            self.problems.add("tandem_services[].replicas[].name", name, "is there twice", remedy)
        return tuple(s for s in services if s)

    def service(self, path: str, raw: Any, nodes: Mapping[str, Node], spread: Spread) -> Service | None:
        problems = self.problems
        if not problems.mapping(path, raw, SERVICE_KEYS, required=["name", "model"]):
            return None
        before = len(problems.found)
        problems.kind(path + ".name", raw["name"], "name")
        task, port = raw.get("task", "generate"), raw.get("port", DEFAULT_PORT)
        self.one_of(path + ".task", task, TASKS)
        problems.kind(path + ".port", port, "port")
        model, limits = self.model(path + ".model", raw["model"]), self.limits(path + ".limits", raw.get("limits"))
        engine, extra_args = self.engine(path + ".engine", raw.get("engine"))
        environment = self.environment(path + ".environment", raw.get("environment"))
        if len(problems.found) > before or model is None:
            return None
        service = Service(raw["name"], model, (), task, engine, extra_args, limits, environment)
        if raw.get("replicas") is None:
            replicas = self.default_replicas(service, nodes, spread, port)
        else:
            replicas = self.replicas(path + ".replicas", raw["replicas"], service.name, port, nodes)
        return Service(**{**service.__dict__, "replicas": replicas})

    def default_replicas(
        self, service: Service, nodes: Mapping[str, Node], spread: Spread, port: int
    ) -> tuple[Replica, ...]:
        topology = self.contract.topology
        if topology in SPREADING and len(nodes) < 2:
            wanted = f"must hold two machines or more: {topology.replace('_', '-')} spreads a replica over several"
            self.problems.add("group tandem_nodes", ", ".join(nodes), wanted, "Add hosts, or choose dual-replica")
            return ()
        replicas = TOPOLOGIES[topology](service, nodes, spread)
        return tuple(Replica(**{**r.__dict__, "port": port}) for r in replicas)

    def one_of(self, variable: str, value: Any, allowed: Sequence[str]) -> None:
        if value not in allowed:
            self.problems.add(variable, value, "must be one of " + ", ".join(allowed), "Correct it in the inventory")

    def model(self, path: str, raw: Any) -> Model | None:
        if not self.problems.mapping(path, raw, MODEL_KEYS, required=["path", "served_name"]):
            return None
        before = len(self.problems.found)
        self.problems.kind(path + ".path", raw["path"], "absolute path")
        served = raw["served_name"]
        if not isinstance(served, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", served):
            wanted = "must be a model name of letters, digits and . _ : / -"
            self.problems.add(path + ".served_name", served, wanted, "Clients send it as 'model'")
        if raw.get("revision") in (None, "") and self.contract.lab is not True:
            wanted = "is required outside the lab: it is how a release says which weights it ran"
            self.problems.add(path + ".revision", None, wanted, "Set the commit of the model's repository")
        if len(self.problems.found) > before:
            return None
        texts = {k: None if raw.get(k) is None else str(raw[k]) for k in ("revision", "manifest")}
        return Model(raw["path"], served, **texts)

    def limits(self, path: str, raw: Any) -> Limits:
        if raw is None or not self.problems.mapping(path, raw, LIMIT_KEYS):
            return Limits()
        kinds = {"shm_size": "size", "memory": "size", "cpus": "positive number"}
        given = {k: v for k, v in raw.items() if v is not None}
        fine = [self.problems.kind(f"{path}.{k}", v, kinds[k]) for k, v in given.items()]
        if not all(fine):
            return Limits()
        sizes = {k: str(v) for k, v in given.items() if k != "cpus"}
        return Limits(cpus=float(given["cpus"]) if "cpus" in given else None, **sizes)

    def engine(self, path: str, raw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        problems = self.problems
        if raw is None:
            return {}, {}
        if isinstance(raw, Mapping):
            for key in raw:
                self.owned(path, key)
            raw = {k: v for k, v in raw.items() if not flag_owner(str(k))}
        if not problems.mapping(path, raw, [*ENGINE_SETTINGS, "extra_args"]):
            return {}, {}
        settings = {k: v for k, v in raw.items() if k != "extra_args" and v is not None}
        for key, value in settings.items():
            problems.kind(f"{path}.{key}", value, ENGINE_SETTINGS[key])
        extra = raw.get("extra_args") or {}
        if not problems.kind(path + ".extra_args", extra, "mapping"):
            return {}, {}
        for key in extra:
            if not isinstance(key, str) or not re.fullmatch(r"-{0,2}[A-Za-z][A-Za-z0-9_.-]*", key):
                wanted = "must be named like a flag of 'vllm serve'; a value stands behind the colon"
                problems.add(f"{path}.extra_args.{key}", HIDDEN, wanted, "Write it as name: value")
                continue
            self.owned(path + ".extra_args", key)
            values = extra[key] if isinstance(extra[key], (list, tuple)) else []
            if any(isinstance(v, (Mapping, list, tuple)) or str(v).startswith("-") for v in values):
                wanted = "a list must hold plain values that do not begin with '-'"
                problems.add(f"{path}.extra_args.{key}", HIDDEN, wanted, "Write each flag as an entry of its own")
            if flag_name(str(key)) in ENGINE_SETTINGS:
                wanted = "is a setting of its own"
                problems.add(f"{path}.extra_args.{key}", extra[key], wanted, f"Write it as engine.{flag_name(key)}")
        return settings, dict(extra)

    def owned(self, path: str, key: Any) -> None:
        owner = flag_owner(str(key))
        if owner:
            wanted = f"cannot be set here: it follows from {owner}"
            # The value may be a secret (api_key): never shown.
            self.problems.add(f"{path}.{key}", HIDDEN, wanted, "Remove it")

    def environment(self, path: str, raw: Any) -> dict[str, str]:
        if raw is None or not self.problems.kind(path, raw, "mapping"):
            return {}
        owned = self.owned_environment()
        for key, value in raw.items():
            if key in owned:
                wanted = f"cannot be set here: it follows from {owned[key]}"
                self.problems.add(f"{path}.{key}", HIDDEN, wanted, "Remove it")
            elif not isinstance(key, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                self.problems.add(f"{path}.{key}", value, "must be named like an environment variable", "Rename it")
            elif isinstance(value, (bool, Mapping, list)) or value is None:
                self.problems.add(f"{path}.{key}", value, "must be a text or a number", "Put it in quotes")
        return {k: str(v) for k, v in raw.items()}

    def owned_environment(self) -> Mapping[str, str]:
        """What a service may not set: the variable, and what it follows from."""
        network = self.contract.network
        stated = isinstance(network, Mapping) and network.get("rdma") is not None
        return {**OWNED_ENVIRONMENT, "NCCL_IB_DISABLE": "tandem_network.rdma"} if stated else OWNED_ENVIRONMENT

    def replicas(self, path: str, raw: Any, service: str, port: int, nodes: Mapping[str, Node]) -> tuple[Replica, ...]:
        if not isinstance(raw, (list, tuple)) or not raw:
            self.problems.add(path, raw, "must list at least one replica {nodes: […]}", "Leave it out for the default")
            return ()
        replicas = []
        for i, entry in enumerate(raw):
            replica = self.replica("%s[%d]" % (path, i), entry, service, port, nodes)
            if replica:
                replicas.append(replica)
        return tuple(replicas)

    def replica(self, path: str, raw: Any, service: str, port: int, nodes: Mapping[str, Node]) -> Replica | None:
        problems = self.problems
        if not problems.mapping(path, raw, REPLICA_KEYS, required=["nodes"]):
            return None
        before = len(problems.found)
        on = raw["nodes"]
        if not isinstance(on, (list, tuple)) or not on:
            remedy = f"Write nodes: [{on}]" if isinstance(on, str) else "Write nodes: [<name of a node>]"
            problems.add(path + ".nodes", on, "must be a list of node names", remedy)
            return None
        self.known_nodes(path + ".nodes", on, nodes)
        group = len(on) > 1
        sizes = {k: raw.get(k, 1) for k in ("tensor_parallel", "pipeline_parallel")}
        for key, value in sizes.items():
            problems.kind(f"{path}.{key}", value, "positive integer")
        executor, own_port = raw.get("executor", Spread.executor if group else "mp"), raw.get("port", port)
        self.one_of(path + ".executor", executor, EXECUTORS)
        if executor == "ray" and not group:
            wanted = "must be mp on one node: Ray is for replicas over several"
            problems.add(path + ".executor", executor, wanted, "Leave it out, or name more nodes")
        problems.kind(path + ".port", own_port, "port")
        if raw.get("name") is not None:
            problems.kind(path + ".name", raw["name"], "name")
        self.own_gpus(path + ".gpus", raw.get("gpus"), group)
        if len(problems.found) > before:
            return None
        name = raw.get("name") or (f"{service}-{on[0]}-x{len(on)}" if group else f"{service}-{on[0]}")
        if group:
            return Replica(name, tuple(on), sizes["tensor_parallel"], sizes["pipeline_parallel"], executor, own_port)
        world, available = sizes["tensor_parallel"] * sizes["pipeline_parallel"], nodes[on[0]].gpus
        wanted_gpus = raw.get("gpus")
        gpus = tuple(str(g) for g in (available[:world] if wanted_gpus is None else wanted_gpus))
        if (available or gpus) and (len(gpus) != world or len(set(gpus)) != world or not set(gpus) <= set(available)):
            wanted = "needs tensor_parallel × pipeline_parallel = %d different GPUs of %s, which has %s" % (
                world,
                on[0],
                ", ".join(available) or "none",
            )
            problems.add(path + ".gpus", list(gpus), wanted, "Lower the parallel size or name GPUs that are there")
            return None
        return Replica(name, tuple(on), sizes["tensor_parallel"], sizes["pipeline_parallel"], executor, own_port, gpus)

    def own_gpus(self, path: str, value: Any, group: bool) -> None:
        if value is not None and not isinstance(value, (list, tuple)):
            wanted = "must be a list of GPU indices or UUIDs of the node"
            self.problems.add(path, value, wanted, "Write it as [0, 1]")
        elif value is not None and group:
            wanted = "cannot be set for a replica over several nodes: it has all GPUs of each of them"
            self.problems.add(path, value, wanted, "Remove it; tandem_gpus.ids says which GPUs a node has")

    def known_nodes(self, path: str, on: Sequence[Any], nodes: Mapping[str, Node]) -> None:
        for node in on:
            if node not in list(nodes):
                known = ", ".join(nodes)
                if node in self.contract.inventory_hosts:
                    wanted, remedy = (
                        f"is not in the group tandem_nodes ({known})",
                        "Add it to the group, or choose another",
                    )
                else:
                    wanted, remedy = f"is no host of this inventory; nodes are {known}", "Correct the name"
                self.problems.add(path, node, wanted, remedy)
        if len(set(map(str, on))) != len(on):
            self.problems.add(path, list(on), "must be different nodes", "Name each node once")

    def ports(self, placement: Placement) -> None:
        taken: dict[tuple[str, int], str] = {}
        for gateway in self.contract.gateways:
            taken[(str(gateway["address"]), gateway["port"])] = "the gateway {}".format(gateway["name"])
        for service in placement.services:
            for replica in service.replicas:
                where = (placement.api_address(replica), replica.port)
                if where in taken:
                    wanted = f"is used twice on {replica.nodes[0]}: by {taken[where]} and by replica {replica.name}"
                    self.problems.add("tandem_services[].port", replica.port, wanted, "Give one of them another port")
                taken[where] = f"replica {replica.name}"

    def gpus(self, placement: Placement) -> None:
        taken: dict[tuple[str, str], str] = {}
        for service in placement.services:
            for replica in service.replicas:
                for gpu in replica.gpus:
                    other = taken.setdefault((replica.nodes[0], gpu), replica.name)
                    if other != replica.name:
                        wanted = f"GPU {gpu} of {replica.nodes[0]} is given to {other} and to {replica.name}"
                        self.problems.add(
                            "tandem_services[].replicas[].gpus",
                            gpu,
                            wanted,
                            "Give each replica its own with replicas[].gpus",
                        )

    def rank_groups(self, placement: Placement) -> None:
        """Ranks meet on fixed ports and have a node's GPUs to themselves: a rank group has its nodes whole."""
        self.shared_nodes(placement)
        self.ports_of_ranks(placement)
        for service, replica in placement.rank_groups():
            self.world(placement, service, replica)

    def shared_nodes(self, placement: Placement) -> None:
        groups = {replica.name for _service, replica in placement.rank_groups()}
        for node in placement.nodes:
            names = [replica.name for _service, replica in placement.on_node(node)]
            group = next((name for name in names if name in groups), None)
            if group and len(names) > 1:
                other = next(name for name in names if name != group)
                wanted = f"has another replica ({other}), but {group} spans nodes and needs each for itself"
                self.problems.add("tandem_services[].replicas[].nodes", node, wanted, "Give it nodes of its own")

    def ports_of_ranks(self, placement: Placement) -> None:
        """What others are to reach may not be among the ports that a group's nodes keep for one another."""
        wanted = "is among the ports that the nodes of %s keep for one another (%s)"
        kept = ", ".join("%d to %d" % ends for ends in rank_ports.RANGES)
        for _service, replica in placement.rank_groups():
            if rank_ports.is_kept(replica.port):
                said = wanted % (replica.name, kept)
                self.problems.add("tandem_services[].port", replica.port, said, "Choose another port")
            for gateway in self.contract.gateways:
                here = str(gateway["address"]) in [placement.nodes[node].address for node in replica.nodes]
                if here and rank_ports.is_kept(gateway["port"]):
                    variable, said = "{}: tandem_gateway_port".format(gateway["name"]), wanted % (replica.name, kept)
                    self.problems.add(variable, gateway["port"], said, "Choose another port")

    def world(self, placement: Placement, service: Service, replica: Replica) -> None:
        counts = {node: len(placement.nodes[node].gpus) for node in replica.nodes}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{node}: {count}" for node, count in counts.items())
            wanted = f"must be as many on each node of {replica.name}"
            self.problems.add(
                "tandem_gpus", shown, wanted, "Choose the same number with tandem_gpus.ids, or other nodes"
            )
            return
        # In the lab, without GPUs, each node has one rank.
        world = max(1, counts[replica.nodes[0]]) * len(counts)
        if replica.tensor_parallel * replica.pipeline_parallel != world:
            shown = f"{replica.tensor_parallel} × {replica.pipeline_parallel}"
            wanted = f"must make {world}, the GPUs of {', '.join(replica.nodes)}"
            self.problems.add(
                f"tandem_services[{service.name}].replicas[{replica.name}].tensor_parallel × pipeline_parallel",
                shown,
                wanted,
                "Tensor parallel over the GPUs of a node times pipeline parallel over nodes is the usual way",
            )


def _label(service: Any) -> Any:
    return service.get("name") if isinstance(service, Mapping) else service
