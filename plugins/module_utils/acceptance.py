# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be shown before a deployment counts as serving: the checks as data, and the verdict on what was seen.

`CHECKS` is the one list of them. `plan` turns it into the requests to make, `judge` turns what came back into results,
`evidence` puts them into the form that is kept. To add a check, add an entry to `CHECKS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, NamedTuple

from ansible_collections.tandem.vllm.plugins.module_utils.openai_api import completion_request, error_of
from ansible_collections.tandem.vllm.plugins.module_utils.placement import GATEWAY_UNIT, Placement

PASSED = "passed"
FAILED = "failed"
NOT_RUN = "not_run"

GATEWAY = "gateway"
SERVICE = "service"
REPLICA = "replica"

# Which key a request carries.
CLIENT_KEY = "client"
ENGINE_KEY = "engine"
WRONG_KEY = "wrong"
NO_KEY = "none"

COMPLETION_TOKENS = 8
# Long enough that a busy machine, which hands over a few tokens at a time, does not look like a proxy that buffers.
STREAM_TOKENS = 64
# How often a check is made whose failure may have been chance, and the pause before it is made again.
TRIES = 3
PAUSE_S = 0.5
UNKNOWN_MODEL = "tandem-acceptance-no-such-model"
CLOSED_PATH = "/metrics"

# Chunks closer together than this came in one piece (those of one piece have the very same time).
_SAME_MOMENT_S = 0.0005
# A stream counts as one when its last chunk comes at least this long after its first …
_STREAM_SPREAD_S = 0.005
# … and when its chunks came at this many different moments (or a third as many as there are chunks, if that is fewer):
# a proxy that buffers hands over a few big pieces, of 4 KiB or more.
_STREAM_MOMENTS = 8

_ALL_TASKS = ("generate", "embed", "score")


class Verdict(NamedTuple):
    """The outcome of one check and what was seen, in a line fit for users.

    by_chance: a busy machine may have made it look so; what is really wrong looks the same when asked again.
    """

    outcome: str
    detail: str
    by_chance: bool = False


@dataclass(frozen=True)
class Endpoint:
    """One replica's own API: its URL, and where its container is (for the messages)."""

    name: str
    url: str
    node: str | None = None
    container: str | None = None


@dataclass(frozen=True)
class Target:
    """One service under test."""

    name: str
    served_name: str
    task: str
    max_model_len: int | None
    replicas: tuple[Endpoint, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Target:
        """From the module's option `services`."""
        replicas = tuple(Endpoint(r["name"], r["url"], r.get("node"), r.get("container")) for r in data["replicas"])
        return cls(data["name"], data["served_name"], data["task"], data.get("max_model_len"), replicas)


@dataclass(frozen=True)
class Request:
    """What a check sends. key: one of CLIENT_KEY, ENGINE_KEY, WRONG_KEY, NO_KEY."""

    method: str
    path: str
    body: Mapping[str, Any] | None
    key: str
    stream: bool = False


@dataclass(frozen=True)
class Observation:
    """What came back. Either `error` (no whole HTTP answer; in words) or `status` and the rest is set.

    headers: names in lower case. chunks: (seconds since sending, data) of each streamed event but the closing
    [DONE], which sets done. not_asked: the request was not made, and why.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    chunks: tuple[tuple[float, str], ...] = ()
    done: bool = False
    error: str | None = None
    not_asked: str | None = None
    seconds: float = 0.0

    def json(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def brief(self) -> str:
        """The answer in a line, for a message about an answer that was not the wanted one."""
        text = " ".join(self.body.split())
        if len(text) > 160:
            text = text[:160] + "…"
        return f"HTTP {self.status}" + (f": {text}" if text else ", no body")


@dataclass(frozen=True)
class Check:
    """One check. scope: once for the GATEWAY, for each SERVICE through it, or for each REPLICA directly.

    tasks: the check is made for services of these tasks. needs_answer: no answer at all is a failure of what is
    checked; otherwise (something is to be refused) it only means that nothing was shown.
    """

    id: str
    title: str
    proves: str
    scope: str
    request: Callable[[Target], Request]
    verdict: Callable[[Observation, Sequence[Target]], Verdict]
    tasks: tuple[str, ...] = _ALL_TASKS
    needs_answer: bool = True


@dataclass(frozen=True)
class Planned:
    """One check on one target: what to send where, and what it is about."""

    check: Check
    request: Request
    url: str
    targets: tuple[Target, ...]
    replica: Endpoint | None = None

    @property
    def service(self) -> str | None:
        """The service it is about; None for the gateway as a whole."""
        return None if self.check.scope == GATEWAY else self.targets[0].name

    @property
    def target(self) -> str:
        """What is asked, in words: the gateway, or a replica by name."""
        return f"replica {self.replica.name}" if self.replica else "gateway"


@dataclass(frozen=True)
class Result:
    """What one check on one target showed. seconds: how long it took. ask_again: it may have been chance."""

    planned: Planned
    outcome: str
    detail: str
    seconds: float
    ask_again: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The form that the module returns and the evidence keeps."""
        check = self.planned.check
        return {
            "id": check.id,
            "title": check.title,
            "proves": check.proves,
            "service": self.planned.service,
            "target": self.planned.target,
            "url": self.planned.url + self.planned.request.path,
            "outcome": self.outcome,
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
        }


def _list_models(_target: Target) -> Request:
    return Request("GET", "/v1/models", None, CLIENT_KEY)


def _complete(key: str, tokens: int = COMPLETION_TOKENS) -> Callable[[Target], Request]:
    def request(target: Target) -> Request:
        path, body = completion_request(target.served_name, target.task, tokens)
        return Request("POST", path, body, key)

    return request


def _stream(target: Target) -> Request:
    path, body = completion_request(target.served_name, target.task, STREAM_TOKENS)
    return Request("POST", path, {**body, "stream": True}, CLIENT_KEY, stream=True)


def _ask_unknown_model(target: Target) -> Request:
    path, body = completion_request(UNKNOWN_MODEL, target.task, 1)
    return Request("POST", path, body, CLIENT_KEY)


def _ask_closed_path(_target: Target) -> Request:
    return Request("GET", CLOSED_PATH, None, CLIENT_KEY)


def models_listed(seen: Observation, targets: Sequence[Target]) -> Verdict:
    """Every service is listed by its served name, with the context length that was asked for where it is told."""
    answer = seen.json()
    models = answer.get("data") if isinstance(answer, dict) else None
    if seen.status != 200 or not isinstance(models, list):
        return Verdict(FAILED, f"wanted HTTP 200 and a list of models, got {seen.brief()}")
    listed = {m["id"]: m for m in models if isinstance(m, dict) and isinstance(m.get("id"), str)}
    missing = [t.served_name for t in targets if t.served_name not in listed]
    if missing:
        return Verdict(FAILED, f"not listed: {', '.join(missing)}; listed: {', '.join(listed) or 'none'}")
    for target in targets:
        told = listed[target.served_name].get("max_model_len")
        if target.max_model_len and told and told != target.max_model_len:
            return Verdict(
                FAILED, f"{target.served_name}: the engine says max_model_len {told}, wanted {target.max_model_len}"
            )
    return Verdict(PASSED, "listed: " + ", ".join(t.served_name for t in targets))


def real_work_done(seen: Observation, targets: Sequence[Target]) -> Verdict:
    """The model did a small real piece of work of its task: text with its counts, an embedding, or a score."""
    target = targets[0]
    answer = seen.json()
    if seen.status != 200 or not isinstance(answer, dict):
        return Verdict(FAILED, f"wanted HTTP 200 and JSON, got {seen.brief()}")
    if answer.get("model") != target.served_name:
        return Verdict(FAILED, f"answered by model {answer.get('model')!r}, wanted {target.served_name!r}")
    return _WORK[target.task](answer)


def _text_generated(answer: Mapping[str, Any]) -> Verdict:
    choice = _first(answer.get("choices"))
    text = choice.get("text")
    if not isinstance(text, str) or not text:
        return Verdict(FAILED, f"the completion holds no text: {_short(choice)}")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    if not all(isinstance(count, int) and count >= 1 for count in counts):
        return Verdict(FAILED, f"the completion has text but no counts of its tokens: usage {_short(usage)}")
    return Verdict(PASSED, f"{counts[0]} tokens in, {counts[1]} out: {_short(text)}")


def _embedding_made(answer: Mapping[str, Any]) -> Verdict:
    values = _first(answer.get("data")).get("embedding")
    if not isinstance(values, list) or not values or not all(_is_number(value) for value in values):
        return Verdict(FAILED, f"the answer holds no embedding: {_short(answer)}")
    length = math.sqrt(sum(value * value for value in values))
    if length == 0:
        return Verdict(FAILED, f"the embedding's {len(values)} values are all zero")
    return Verdict(PASSED, f"{len(values)} values, length {length:.3f}")


def _score_made(answer: Mapping[str, Any]) -> Verdict:
    score = _first(answer.get("data")).get("score")
    if not _is_number(score):
        return Verdict(FAILED, f"the answer holds no score: {_short(answer)}")
    return Verdict(PASSED, f"score {score:.4f}")


_WORK: Mapping[str, Callable[[Mapping[str, Any]], Verdict]] = {
    "generate": _text_generated,
    "embed": _embedding_made,
    "score": _score_made,
}


def streamed(seen: Observation, _targets: Sequence[Target]) -> Verdict:
    """The answer came in pieces as it was made: chunks of text, the first clearly before the last, then [DONE]."""
    kind = seen.headers.get("content-type", "")
    if seen.status != 200 or not kind.startswith("text/event-stream"):
        return Verdict(
            FAILED, f"wanted HTTP 200 and text/event-stream, got {kind or 'no content type'}, {seen.brief()}"
        )
    times = []
    for at_s, data in seen.chunks:
        try:
            event = json.loads(data)
        except ValueError:
            return Verdict(FAILED, f"a chunk is no JSON: {_short(data)}")
        if isinstance(event, dict) and "error" in event:
            return Verdict(FAILED, f"the stream holds an error: {_short(event['error'])}")
        if isinstance(event, dict) and _first(event.get("choices")).get("text"):
            times.append(at_s)
    if not seen.done:
        return Verdict(FAILED, f"the stream ended without [DONE] after {len(times)} chunks of text")
    if len(times) < 2:
        return Verdict(FAILED, f"wanted several chunks of text, got {len(times)}", by_chance=len(times) == 1)
    moments = 1 + sum(later - earlier >= _SAME_MOMENT_S for earlier, later in zip(times, times[1:]))
    told = f"{len(times)} chunks at {moments} moments, first after {times[0]:.3f} s, last after {times[-1]:.3f} s"
    if times[-1] - times[0] < _STREAM_SPREAD_S or moments < max(2, min(_STREAM_MOMENTS, len(times) / 3)):
        return Verdict(
            FAILED, f"chunks were held back and came together (buffered on the way?): {told}", by_chance=True
        )
    return Verdict(PASSED, told)


def refused_key(seen: Observation, _targets: Sequence[Target]) -> Verdict:
    """401 in OpenAI's error shape."""
    return _openai_error(seen, 401)


def refused_by_engine(seen: Observation, _targets: Sequence[Target]) -> Verdict:
    """401; vLLM's own answer to a missing key is not in OpenAI's shape."""
    if seen.status != 401:
        return Verdict(FAILED, f"wanted HTTP 401, got {seen.brief()}")
    return Verdict(PASSED, "HTTP 401")


def unknown_model(seen: Observation, _targets: Sequence[Target]) -> Verdict:
    """404 in OpenAI's error shape."""
    return _openai_error(seen, 404)


def path_closed(seen: Observation, _targets: Sequence[Target]) -> Verdict:
    """Refused with a status of 403, 404 or 405, also to a client with a key."""
    if seen.status not in (403, 404, 405):
        return Verdict(FAILED, f"wanted {CLOSED_PATH} refused with HTTP 403, 404 or 405, got {seen.brief()}")
    return Verdict(PASSED, f"{CLOSED_PATH}: HTTP {seen.status}")


CHECKS: tuple[Check, ...] = (
    Check(
        "models",
        "Models are listed",
        "the gateway answers and knows every service by the name clients call it",
        GATEWAY,
        _list_models,
        models_listed,
    ),
    Check(
        "completion",
        "Plain request",
        "the model does real work through the gateway",
        SERVICE,
        _complete(CLIENT_KEY),
        real_work_done,
    ),
    Check(
        "streamed",
        "Streamed request",
        "tokens reach the client as they are made; nothing on the way holds them back",
        SERVICE,
        _stream,
        streamed,
        tasks=("generate",),
    ),
    Check(
        "wrong_key",
        "Wrong key",
        "a key that is not exactly a client's opens nothing",
        SERVICE,
        _complete(WRONG_KEY, 1),
        refused_key,
        needs_answer=False,
    ),
    Check(
        "missing_key",
        "Missing key",
        "without a key nothing opens",
        SERVICE,
        _complete(NO_KEY, 1),
        refused_key,
        needs_answer=False,
    ),
    Check(
        "unknown_model",
        "Unknown model",
        "a wrong model name gives a clear error and not another model's answer",
        SERVICE,
        _ask_unknown_model,
        unknown_model,
        needs_answer=False,
    ),
    Check(
        "closed_path",
        "Closed path",
        "paths that are not for clients are closed, with a key too",
        GATEWAY,
        _ask_closed_path,
        path_closed,
        needs_answer=False,
    ),
    Check(
        "replica_completion",
        "Replica directly",
        "each replica does real work itself, not only the ones the gateway happened to choose",
        REPLICA,
        _complete(ENGINE_KEY),
        real_work_done,
    ),
    Check(
        "replica_missing_key",
        "Replica without key",
        "who reaches a replica past the gateway is refused",
        REPLICA,
        _complete(NO_KEY, 1),
        refused_by_engine,
        needs_answer=False,
    ),
)


def plan(endpoint: str, targets: Sequence[Target]) -> list[Planned]:
    """Every request to make, in the order of the report: the gateway and its services first, then the replicas."""
    endpoint = endpoint.rstrip("/")
    planned = []
    for check in CHECKS:
        if check.scope == GATEWAY:
            planned.append(Planned(check, check.request(targets[0]), endpoint, tuple(targets)))
            continue
        for target in targets:
            if target.task not in check.tasks:
                continue
            request = check.request(target)
            if check.scope == SERVICE:
                planned.append(Planned(check, request, endpoint, (target,)))
            else:
                planned.extend(Planned(check, request, r.url.rstrip("/"), (target,), r) for r in target.replicas)
    return planned


def judge(planned: Planned, seen: Observation) -> Result:
    """The result of one check. What was not asked, or got no answer where a refusal was wanted, is no pass."""
    if seen.not_asked is not None:
        verdict = Verdict(NOT_RUN, seen.not_asked)
    elif seen.error is not None:
        verdict = Verdict(FAILED if planned.check.needs_answer else NOT_RUN, seen.error)
    else:
        verdict = planned.check.verdict(seen, planned.targets)
    return Result(planned, verdict.outcome, verdict.detail, seen.seconds, verdict.by_chance)


def wrong_key_for(key: str) -> str:
    """A key that is wrong but near: its letters in the other case, which a sloppy comparison lets through."""
    swapped = key.swapcase()
    return swapped if swapped != key else key + "0"


def all_passed(results: Sequence[Result]) -> bool:
    """Whether everything was shown: no check failed, none was left out."""
    return bool(results) and all(result.outcome == PASSED for result in results)


def count(results: Sequence[Result]) -> dict[str, int]:
    """How many checks had which outcome."""
    return {outcome: sum(r.outcome == outcome for r in results) for outcome in (PASSED, FAILED, NOT_RUN)}


def summary(results: Sequence[Result]) -> str:
    """One line where everything passed; otherwise every check that did not, and what to look at next."""
    counts = count(results)
    if all_passed(results):
        return f"acceptance: all {counts[PASSED]} checks passed"
    lines = [
        f"acceptance: of {len(results)} checks {counts[FAILED]} failed, "
        f"{counts[NOT_RUN]} could not run, {counts[PASSED]} passed"
    ]
    lines += [
        f"- {r.planned.check.id} ({_place(r.planned)}): {'not run: ' if r.outcome == NOT_RUN else ''}{r.detail}"
        for r in results
        if r.outcome != PASSED
    ]
    return "\n".join(lines + [f"Next: {command}" for command in next_commands(results)])


def next_commands(results: Sequence[Result]) -> list[str]:
    """What to type next: the log of each replica that failed itself; the gateway's where only the gateway failed."""
    bad = [r.planned for r in results if r.outcome == FAILED]
    replicas = {p.replica: None for p in bad if p.replica is not None}
    if replicas:
        return [
            f"docker logs --tail 50 {r.container or r.name}" + (f"   (on {r.node})" if r.node else "") for r in replicas
        ]
    if bad:
        return [f"journalctl -u {GATEWAY_UNIT} -n 50 --no-pager   (on the gateway host)"]
    return []


def evidence(
    results: Sequence[Result],
    endpoint: str,
    targets: Sequence[Target],
    started_at: str,
    seconds: float,
    subject: Mapping[str, Any],
) -> dict[str, Any]:
    """What was shown, on what, when: plain data for a JSON file.

    subject: what was deployed (image, release and the like) as the caller knows it; `lab: true` in it says that
    engines run on CPU. seconds: how long the whole took.
    """
    not_covered = []
    if subject.get("lab"):
        not_covered.append("GPUs: the lab runs its engines on CPU, so nothing about GPUs was checked")
    return {
        "kind": "tandem.vllm acceptance",
        "version": 1,
        "started_at": started_at,
        "seconds": round(seconds, 3),
        "endpoint": endpoint,
        "subject": dict(subject),
        "services": [asdict(target) for target in targets],
        "passed": all_passed(results),
        "counts": count(results),
        "not_covered": not_covered,
        "checks": [result.to_dict() for result in results],
    }


def says_the_same(kept: str, new: Mapping[str, Any]) -> bool:
    """Whether the text of a kept evidence file shows the same of the same as new evidence, whatever the times.

    False where the text is no evidence.
    """
    try:
        old = json.loads(kept)
        return isinstance(old, dict) and _said(old) == _said(new)
    except (ValueError, KeyError, TypeError):
        return False


def _said(record: Mapping[str, Any]) -> list[Any]:
    parts = [record[name] for name in ("kind", "version", "endpoint", "subject", "services", "passed", "not_covered")]
    return [*parts, [[check[key] for key in ("id", "service", "target", "outcome")] for check in record["checks"]]]


def services_of(placement: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The module's option `services` from a placement: each service with the URL of each replica's own API.

    Raises KeyError or TypeError when the value is not a placement.
    """
    placed = Placement.from_dict(placement)
    return [
        {
            "name": service.name,
            "served_name": service.model.served_name,
            "task": service.task,
            "max_model_len": service.engine.get("max_model_len"),
            "replicas": [
                {
                    "name": replica.name,
                    "url": f"http://{_in_url(placed.api_address(replica))}:{replica.port}",
                    "node": replica.nodes[0],
                    "container": replica.container,
                }
                for replica in service.replicas
            ],
        }
        for service in placed.services
    ]


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _openai_error(seen: Observation, status: int) -> Verdict:
    if seen.status != status:
        return Verdict(FAILED, f"wanted HTTP {status}, got {seen.brief()}")
    error = error_of(seen.json())
    if error is None:
        return Verdict(FAILED, f"HTTP {status} as wanted, but not in OpenAI's error shape: {seen.brief()}")
    return Verdict(PASSED, f"HTTP {status}: {_short(error['message'])}")


def _place(planned: Planned) -> str:
    if planned.replica is None:
        return planned.service or planned.target
    return planned.target + (f" on {planned.replica.node}" if planned.replica.node else "")


def _first(items: Any) -> Mapping[str, Any]:
    """The first of a list of objects; empty where there is none."""
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:80] + "…"
