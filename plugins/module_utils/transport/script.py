# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that runs in the proof's container: all-reduces, timed, and told in lines of JSON."""

from __future__ import annotations

# Before each line that the program tells, as NCCL and PyTorch log to the same stream.
MARK = "tandem-all-reduce "
# Latency is measured with a message that no link needs time for.
SMALL_BYTES = 1024
SMALL_RUNS = 50
# Of each size: one to set up and to check the sum, one to warm up, and these.
RUNS = 7
# Stages that a verdict has words of its own for.
STORE = "reach the first rank"
ROLL_CALL = "wait for all ranks"
CONNECT = "connect the ranks"
FIRST = "first all-reduce"
SUM = "check the sum"

# One argument, the plan in JSON (see launch.plan). It starts a process a GPU, in each of them a timer: a rank that
# hangs in NCCL still tells where, and ends. The store listens at the one address alone, and only while the proof runs.
# NCCL writes by C's buffer, which a pipe makes a block: lines would be lost with a process that is killed.
SCRIPT = f"""
import ctypes, datetime, json, os, signal, socket, statistics, sys, threading, time

plan = json.loads(sys.argv[1])
began = time.monotonic()
world = plan["nodes"] * plan["processes"]
os.environ.pop("NCCL_DEBUG_FILE", None)

def left():
    return plan["seconds"] - (time.monotonic() - began)

def say(**told):
    os.write(1, ("\\n{MARK}" + json.dumps(told) + "\\n").encode())

def sent():
    with open("/proc/net/dev") as table:
        rows = [line.partition(":") for line in table if ":" in line]
    return {{name.strip(): int(values.split()[8]) for name, _, values in rows}}

def enter(state, stage):
    state["stage"] = stage
    tell(state)

def tell(state):
    if state["rank"] % plan["processes"] == 0:
        say(**state)

def absent(store, word):
    return [n for n in range(world) if not store.check(["%s/%d" % (word, n)])]

def connect(number, dist, patience):
    more = {{}}
    if number == 0:
        more["master_listen_fd"] = socket.create_server((plan["address"], plan["port"])).detach()
    return dist.TCPStore(
        plan["address"], plan["port"], world, number == 0, patience, wait_for_workers=False, use_libuv=False, **more
    )

def measure(state, torch, dist, device):
    settle = torch.cuda.synchronize if plan["backend"] == "nccl" else lambda: None

    def timed(tensor):
        settle()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        settle()
        return time.perf_counter() - start

    rows = []
    for size, runs in [({SMALL_BYTES}, {SMALL_RUNS})] + [(size, {RUNS}) for size in plan["sizes"]]:
        enter(state, "all-reduce of %d bytes" % size if rows else "{FIRST}")
        tensor = torch.full((size // 4,), float(state["rank"] + 1), device=device)
        timed(tensor)
        if not bool((tensor == world * (world + 1) / 2).all()):
            state["stage"] = "{SUM}"
            raise ValueError("the sum of %d bytes is wrong" % size)
        tensor.zero_()
        timed(tensor)
        before = sent()
        times = [timed(tensor) for _ in range(runs)]
        grown = {{name: count - before.get(name, 0) for name, count in sent().items()}}
        rows.append({{
            "size_bytes": size,
            "runs": runs,
            "seconds": statistics.median(times),
            "sent": {{name: count for name, count in grown.items() if count >= size}},
        }})
        del tensor
    return rows

def part(store, number):
    try:
        store.set("done/%d" % number, "1")
        until = time.monotonic() + 10
        while absent(store, "done") and time.monotonic() < until:
            time.sleep(0.1)
        if number == 0:
            time.sleep(1)
    except Exception:
        pass

def work(state, local):
    import torch
    import torch.distributed as dist

    number, gpu = state["rank"], plan["backend"] == "nccl"
    patience = datetime.timedelta(seconds=max(left() - 5, 5))
    if gpu:
        enter(state, "open GPU %d" % local)
        torch.cuda.set_device(local)
    enter(state, "{STORE}")
    store = connect(number, dist, patience)
    store.set("here/%d" % number, "1")
    state["stage"] = "{ROLL_CALL}"
    while (missing := absent(store, "here")):
        if missing != state.get("missing"):
            state["missing"] = missing
            tell(state)
        time.sleep(0.2)
    state.pop("missing", None)
    enter(state, "{CONNECT}")
    dist.init_process_group(plan["backend"], store=store, rank=number, world_size=world, timeout=patience)
    rows = measure(state, torch, dist, "cuda:%d" % local if gpu else "cpu")
    if local == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if gpu else None
        named = os.environ.get("GLOO_SOCKET_IFNAME")
        say(rank=number, world_size=world, torch=str(torch.__version__), nccl=nccl, named=named, sizes=rows)
    part(store, number)

def rank(local):
    state = {{"rank": plan["rank"] * plan["processes"] + local, "stage": "import PyTorch"}}

    def give_up():
        say(error="not done within %d s" % plan["seconds"], **state)
        os._exit(1)

    timer = threading.Timer(left(), give_up)
    timer.daemon = True
    timer.start()
    try:
        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)
        work(state, local)
    except BaseException as error:
        say(error=("%s: %s" % (type(error).__name__, error))[:2000], **state)
        os._exit(1)
    os._exit(0)

children = {{}}
for local in range(plan["processes"]):
    pid = os.fork()
    if not pid:
        rank(local)
    children[pid] = local
failed = None
while children:
    pid, status = os.waitpid(-1, os.WNOHANG)
    if pid:
        code, number = os.waitstatus_to_exitcode(status), plan["rank"] * plan["processes"] + children.pop(pid)
        if code not in (0, 1):
            say(rank=number, stage="run", error="the process ended with %d" % code, stopped=failed is not None)
        if code and failed is None:
            failed = time.monotonic()
        continue
    if left() < -5 or (failed is not None and time.monotonic() > failed + 10):
        failed = failed or time.monotonic()
        for pid in children:
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
sys.exit(0 if failed is None else 1)
"""
