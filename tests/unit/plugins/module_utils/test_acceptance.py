# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on answers as vLLM 0.32 and nginx give them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import acceptance as a
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model as PlacedModel
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Node as PlacedNode
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Replica, Service

REPLICAS = (
    a.Endpoint("chat-node1", "http://10.0.0.11:8000", "node1", "tandem-chat-node1"),
    a.Endpoint("chat-node2", "http://10.0.0.12:8000", "node2", "tandem-chat-node2"),
)
CHAT = a.Target("chat", "tiny-chat", "generate", 2048, REPLICAS)
EMBED = a.Target("embed", "minilm", "embed", None, (a.Endpoint("embed-node1", "http://10.0.0.11:8001"),))
SCORE = a.Target("rerank", "reranker", "score", None, ())

# As vLLM 0.32 answered on CPU.
MODELS = (
    '{"object":"list","data":[{"id":"tiny-chat","object":"model","created":1795975141,"owned_by":"vllm",'
    '"root":"/models/tandem-tiny-chat","parent":null,"max_model_len":2048,"permission":[]}]}'
)
COMPLETION = (
    '{"id":"cmpl-bb032d3fe847e78e","object":"text_completion","created":1795975141,"model":"tiny-chat","choices":'
    '[{"index":0,"text":"@ no@ningW arrisk arr","logprobs":null,"finish_reason":"length","stop_reason":null,'
    '"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"service_tier":null,'
    '"system_fingerprint":"vllm-0.32.0-3bf5fb09","usage":{"prompt_tokens":9,"total_tokens":17,"completion_tokens":8,'
    '"prompt_tokens_details":null,"completion_tokens_details":null},"kv_transfer_params":null,"metrics":null}'
)
CHUNK = (
    '{"id":"cmpl-a4bbea8c998b143e","object":"text_completion","created":1795975141,"model":"tiny-chat","choices":'
    '[{"index":0,"text":" no","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null}]}'
)
UNKNOWN = (
    '{"error":{"message":"The model `nope` does not exist. Valid aliases: tiny-chat.","type":"NotFoundError",'
    '"param":"model","code":404}}'
)
UNAUTHORIZED = '{"error":"Unauthorized"}'
NO_ROUTE = '{"detail":"Not Found"}'
KEY_ERROR = (
    '{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,'
    '"code":"invalid_api_key"}}'
)
BAD_GATEWAY = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>"
METRICS = "# HELP python_gc_objects_collected_total Objects collected during gc\n"


def seen(status: int, body: str) -> a.Observation:
    return a.Observation(status=status, body=body, seconds=0.05)


def changed(answer: str, **values: Any) -> str:
    return json.dumps({**json.loads(answer), **values})


def stream(times: list[float], done: bool = True, **values: Any) -> a.Observation:
    observed = a.Observation(
        status=200,
        headers={"content-type": "text/event-stream; charset=utf-8"},
        chunks=tuple((at_s, CHUNK) for at_s in times),
        done=done,
    )
    return replace(observed, **values)


STEADY = [0.026 + 0.0035 * number for number in range(16)]

CASES = [
    # check, what came back, outcome, what the detail says
    ("models", seen(200, MODELS), "passed", "listed: tiny-chat"),
    ("models", seen(200, '{"object":"list","data":[]}'), "failed", "not listed: tiny-chat; listed: none"),
    ("models", seen(200, MODELS.replace("tiny-chat", "big")), "failed", "not listed: tiny-chat; listed: big"),
    ("models", seen(200, MODELS.replace("2048", "1024")), "failed", "max_model_len 1024, wanted 2048"),
    ("models", seen(502, BAD_GATEWAY), "failed", "got HTTP 502: <html> <head><title>502 Bad Gateway"),
    ("models", seen(200, "[]"), "failed", "wanted HTTP 200 and a list of models"),
    ("completion", seen(200, COMPLETION), "passed", '9 tokens in, 8 out: "@ no@ningW arrisk arr"'),
    ("completion", seen(200, COMPLETION.replace("@ no@ningW arrisk arr", "")), "failed", "holds no text"),
    ("completion", seen(200, changed(COMPLETION, choices=[])), "failed", "holds no text"),
    ("completion", seen(200, changed(COMPLETION, usage=None)), "failed", "no counts of its tokens"),
    ("completion", seen(200, COMPLETION.replace('_tokens":8', '_tokens":0')), "failed", "no counts of its tokens"),
    ("completion", seen(200, changed(COMPLETION, model="other")), "failed", "answered by model 'other'"),
    ("completion", seen(200, BAD_GATEWAY), "failed", "wanted HTTP 200 and JSON"),
    ("completion", seen(500, ""), "failed", "got HTTP 500, no body"),
    ("completion", a.Observation(error="cannot connect"), "failed", "cannot connect"),
    ("completion", a.Observation(not_asked="no api_key was given"), "not_run", "no api_key was given"),
    ("streamed", stream(STEADY), "passed", "16 chunks at 16 moments, first after 0.026 s, last after 0.079 s"),
    # Chunks that came together now and then are no buffering: the machine was busy for a moment.
    ("streamed", stream([*STEADY[:8], *[STEADY[10]] * 8]), "passed", "16 chunks at 9 moments"),
    ("streamed", stream([0.4] * 16), "failed", "held back and came together (buffered on the way?)"),
    ("streamed", stream([0.1 + 0.00005 * number for number in range(16)]), "failed", "16 chunks at 1 moments"),
    ("streamed", stream([0.1 + 0.04 * (number // 8) for number in range(64)]), "passed", "64 chunks at 8 moments"),
    # A proxy with buffers of 4 KiB: one full buffer after the other, then the rest.
    ("streamed", stream([0.1 + 0.04 * (number // 16) for number in range(64)]), "failed", "64 chunks at 4 moments"),
    # A very busy engine makes few chunks of many tokens.
    ("streamed", stream([0.1, 0.2, 0.3]), "passed", "3 chunks at 3 moments"),
    ("streamed", stream(STEADY[:1]), "failed", "wanted several chunks of text, got 1"),
    ("streamed", stream([]), "failed", "wanted several chunks of text, got 0"),
    ("streamed", stream(STEADY, done=False), "failed", "ended without [DONE] after 16 chunks"),
    ("streamed", stream([], chunks=((0.1, '{"error":{"message":"dead"}}'),)), "failed", "the stream holds an error"),
    ("streamed", stream([], chunks=((0.1, "<html>"),)), "failed", "a chunk is no JSON"),
    ("streamed", stream(STEADY, headers={"content-type": "application/json"}), "failed", "got application/json"),
    ("streamed", stream([], status=504, headers={}, body=""), "failed", "got no content type, HTTP 504"),
    ("wrong_key", seen(401, KEY_ERROR), "passed", 'HTTP 401: "Incorrect API key provided."'),
    ("wrong_key", seen(401, UNAUTHORIZED), "failed", "not in OpenAI's error shape"),
    ("wrong_key", seen(401, BAD_GATEWAY), "failed", "not in OpenAI's error shape"),
    ("wrong_key", seen(200, COMPLETION), "failed", "wanted HTTP 401, got HTTP 200"),
    ("wrong_key", a.Observation(error="cannot connect"), "not_run", "cannot connect"),
    ("missing_key", seen(401, KEY_ERROR), "passed", "HTTP 401"),
    ("missing_key", seen(200, COMPLETION), "failed", "wanted HTTP 401, got HTTP 200"),
    ("unknown_model", seen(404, UNKNOWN), "passed", "The model `nope` does not exist"),
    ("unknown_model", seen(404, NO_ROUTE), "failed", "not in OpenAI's error shape"),
    ("unknown_model", seen(200, COMPLETION), "failed", "wanted HTTP 404, got HTTP 200"),
    ("closed_path", seen(404, ""), "passed", "/metrics: HTTP 404"),
    ("closed_path", seen(403, ""), "passed", "/metrics: HTTP 403"),
    ("closed_path", seen(200, METRICS), "failed", "wanted /metrics refused with HTTP 403, 404 or 405, got HTTP 200"),
    # A gateway that is broken refuses nothing.
    ("closed_path", seen(502, BAD_GATEWAY), "failed", "got HTTP 502"),
    ("closed_path", a.Observation(error="cannot connect"), "not_run", "cannot connect"),
    ("replica_completion", seen(200, COMPLETION), "passed", "9 tokens in, 8 out"),
    ("replica_completion", seen(401, UNAUTHORIZED), "failed", 'got HTTP 401: {"error":"Unauthorized"}'),
    ("replica_missing_key", seen(401, UNAUTHORIZED), "passed", "HTTP 401"),
    ("replica_missing_key", seen(200, COMPLETION), "failed", "wanted HTTP 401, got HTTP 200"),
    ("replica_missing_key", a.Observation(error="cannot connect"), "not_run", "cannot connect"),
]


def planned(check: str, *targets: a.Target) -> a.Planned:
    return next(p for p in a.plan("http://gw:8080", targets or (CHAT,)) if p.check.id == check)


@pytest.mark.parametrize(("check", "observed", "outcome", "said"), CASES)
def test_verdicts(check: str, observed: a.Observation, outcome: str, said: str) -> None:
    result = a.judge(planned(check), observed)
    assert (result.outcome, said in result.detail) == (outcome, True), result.detail
    assert "\n" not in result.detail


def test_each_check_is_seen_to_pass_and_to_fail() -> None:
    for outcome in ("passed", "failed"):
        assert {check for check, _seen, seen_outcome, _said in CASES if seen_outcome == outcome} == {
            check.id for check in a.CHECKS
        }


@pytest.mark.parametrize(
    ("target", "body", "outcome", "said"),
    [
        (EMBED, {"model": "minilm", "data": [{"embedding": [0.6, -0.8]}]}, "passed", "2 values, length 1.000"),
        (EMBED, {"model": "minilm", "data": [{"embedding": [0, 0]}]}, "failed", "all zero"),
        (EMBED, {"model": "minilm", "data": [{"embedding": []}]}, "failed", "no embedding"),
        (EMBED, {"model": "minilm", "data": [{"embedding": [float("nan")]}]}, "failed", "no embedding"),
        (EMBED, {"model": "minilm", "data": []}, "failed", "no embedding"),
        (SCORE, {"model": "reranker", "data": [{"score": 0.97}]}, "passed", "score 0.9700"),
        (SCORE, {"model": "reranker", "data": [{"score": None}]}, "failed", "no score"),
    ],
)
def test_work_of_the_other_tasks(target: a.Target, body: dict[str, Any], outcome: str, said: str) -> None:
    result = a.judge(planned("completion", target), seen(200, json.dumps(body)))
    assert (result.outcome, said in result.detail) == (outcome, True), result.detail


def test_plan_covers_gateway_services_and_replicas() -> None:
    plan = a.plan("http://gw:8080/", (CHAT, EMBED))
    asked = [(p.check.id, p.service, p.target, p.url, p.request.path) for p in plan]
    gateway = "http://gw:8080"
    assert asked == [
        ("models", None, "gateway", gateway, "/v1/models"),
        ("completion", "chat", "gateway", gateway, "/v1/completions"),
        ("completion", "embed", "gateway", gateway, "/v1/embeddings"),
        ("streamed", "chat", "gateway", gateway, "/v1/completions"),
        ("wrong_key", "chat", "gateway", gateway, "/v1/completions"),
        ("wrong_key", "embed", "gateway", gateway, "/v1/embeddings"),
        ("missing_key", "chat", "gateway", gateway, "/v1/completions"),
        ("missing_key", "embed", "gateway", gateway, "/v1/embeddings"),
        ("unknown_model", "chat", "gateway", gateway, "/v1/completions"),
        ("unknown_model", "embed", "gateway", gateway, "/v1/embeddings"),
        ("closed_path", None, "gateway", gateway, "/metrics"),
        ("replica_completion", "chat", "replica chat-node1", "http://10.0.0.11:8000", "/v1/completions"),
        ("replica_completion", "chat", "replica chat-node2", "http://10.0.0.12:8000", "/v1/completions"),
        ("replica_completion", "embed", "replica embed-node1", "http://10.0.0.11:8001", "/v1/embeddings"),
        ("replica_missing_key", "chat", "replica chat-node1", "http://10.0.0.11:8000", "/v1/completions"),
        ("replica_missing_key", "chat", "replica chat-node2", "http://10.0.0.12:8000", "/v1/completions"),
        ("replica_missing_key", "embed", "replica embed-node1", "http://10.0.0.11:8001", "/v1/embeddings"),
    ]


def test_keys_that_the_checks_carry() -> None:
    keys = {p.check.id: p.request.key for p in a.plan("http://gw", (CHAT,))}
    assert [check for check, key in keys.items() if key == a.NO_KEY] == ["missing_key", "replica_missing_key"]
    assert [check for check, key in keys.items() if key == a.WRONG_KEY] == ["wrong_key"]
    assert [check for check, key in keys.items() if key == a.ENGINE_KEY] == ["replica_completion"]


def test_a_service_missing_from_the_list_is_named() -> None:
    result = a.judge(planned("models", CHAT, EMBED), seen(200, MODELS))
    assert result.detail == "not listed: minilm; listed: tiny-chat"


@pytest.mark.parametrize("key", ["sk-Abc", "ABC", "0123", "ß1"])
def test_wrong_key_is_another_key(key: str) -> None:
    assert a.wrong_key_for(key) != key


def results(**observed: a.Observation) -> list[a.Result]:
    good = {
        "models": seen(200, MODELS),
        "completion": seen(200, COMPLETION),
        "streamed": stream(STEADY),
        "wrong_key": seen(401, KEY_ERROR),
        "missing_key": seen(401, KEY_ERROR),
        "unknown_model": seen(404, UNKNOWN),
        "closed_path": seen(404, ""),
        "replica_completion": seen(200, COMPLETION),
        "replica_missing_key": seen(401, UNAUTHORIZED),
    }
    return [a.judge(p, {**good, **observed}[p.check.id]) for p in a.plan("http://gw", (CHAT,))]


def test_all_passed() -> None:
    assert a.all_passed(results())
    assert a.summary(results()) == "acceptance: all 11 checks passed"


def test_nothing_checked_is_no_pass() -> None:
    assert not a.all_passed([])


def test_not_run_is_no_pass() -> None:
    left_out = results(replica_completion=a.Observation(not_asked="no engine_api_key was given"))
    assert not a.all_passed(left_out)
    assert a.summary(left_out).splitlines() == [
        "acceptance: of 11 checks 0 failed, 2 could not run, 9 passed",
        "- replica_completion (replica chat-node1 on node1): not run: no engine_api_key was given",
        "- replica_completion (replica chat-node2 on node2): not run: no engine_api_key was given",
    ]


def test_summary_names_every_failure_and_the_gateways_log() -> None:
    assert a.summary(results(wrong_key=seen(200, COMPLETION), closed_path=seen(502, ""))).splitlines() == [
        "acceptance: of 11 checks 2 failed, 0 could not run, 9 passed",
        f"- wrong_key (chat): wanted HTTP 401, got HTTP 200: {COMPLETION[:160]}…",
        "- closed_path (gateway): wanted /metrics refused with HTTP 403, 404 or 405, got HTTP 502, no body",
        "Next: journalctl -u tandem-gateway.service -n 50 --no-pager   (on the gateway host)",
    ]


def test_failed_replicas_are_what_to_look_at() -> None:
    dead = a.Observation(error="cannot connect to http://10.0.0.11:8000: Connection refused")
    failed = results(replica_completion=dead, completion=seen(502, ""))
    assert a.next_commands(failed) == [
        "docker logs --tail 50 tandem-chat-node1   (on node1)",
        "docker logs --tail 50 tandem-chat-node2   (on node2)",
    ]


def evidence(given: list[a.Result], **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"started_at": "2026-01-02T03:04:05+00:00", "seconds": 1.23456, "subject": {}, **changes}
    return a.evidence(given, "http://gw", (CHAT,), **options)


def test_evidence_is_plain_json() -> None:
    record = evidence(results(), subject={"image": "x@sha256:1", "lab": True})
    assert json.loads(json.dumps(record)) == json.loads(json.dumps(record, default=str))
    assert record["passed"] is True
    assert record["counts"] == {"passed": 11, "failed": 0, "not_run": 0}
    assert record["started_at"] == "2026-01-02T03:04:05+00:00"
    assert record["seconds"] == 1.235
    assert record["services"][0]["replicas"][1]["node"] == "node2"
    assert [c["outcome"] for c in record["checks"]] == ["passed"] * 11
    assert record["not_covered"] == ["GPUs: the lab runs its engines on CPU, so nothing about GPUs was checked"]


def test_evidence_outside_the_lab_leaves_nothing_out() -> None:
    assert evidence(results())["not_covered"] == []


def test_kept_evidence_is_compared_by_what_it_says() -> None:
    def as_module_returns(record: dict[str, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(record))
        return plain

    new = as_module_returns(evidence(results(), started_at="later", seconds=9.0))
    assert a.says_the_same(json.dumps(evidence(results())), new)
    assert not a.says_the_same(json.dumps(evidence(results(closed_path=seen(200, METRICS)))), new)
    assert not a.says_the_same(json.dumps(evidence(results(), subject={"image": "old"})), new)
    for damaged in ("", "{", "[]", "{}", '{"checks": 1}'):
        assert not a.says_the_same(damaged, new)


def test_services_of_a_placement() -> None:
    placement = Placement(
        "lab",
        {"node1": PlacedNode("10.0.0.11"), "node2": PlacedNode("fd00::2")},
        (
            Service(
                "chat",
                PlacedModel("/models/tiny", "tiny-chat"),
                (Replica("chat-node1", ("node1",)), Replica("chat-node2", ("node2",), port=8001)),
                engine={"max_model_len": 2048},
            ),
        ),
    )
    services = a.services_of(placement.to_dict())
    assert services == [
        {
            "name": "chat",
            "served_name": "tiny-chat",
            "task": "generate",
            "max_model_len": 2048,
            "replicas": [
                {
                    "name": "chat-node1",
                    "url": "http://10.0.0.11:8000",
                    "node": "node1",
                    "container": "tandem-chat-node1",
                },
                {
                    "name": "chat-node2",
                    "url": "http://[fd00::2]:8001",
                    "node": "node2",
                    "container": "tandem-chat-node2",
                },
            ],
        }
    ]
    assert a.Target.from_dict(services[0]).replicas[0] == REPLICAS[0]
