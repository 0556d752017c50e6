"""schemathesis over the OpenAPI description: no server error, no answer that the description does not know."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .conftest import picture

schemathesis = pytest.importorskip("schemathesis", reason="needs the dev extra (schemathesis)")

OPERATIONS = [
    *(("POST", path) for path in ("/v1/upscale", "/v1/attention")),
    *(("GET", path) for path in ("/v1/models", "/v1/limits", "/v1/problems", "/healthz", "/readyz", "/metrics")),
    *(("GET", f"/v1/jobs/{{job_id}}{rest}") for rest in ("", "/events", "/result", "/before", "/preview")),
    ("DELETE", "/v1/jobs/{job_id}"),
]
PHASES = (Phase.explicit, Phase.generate)  # shrinking a failure may take minutes
EXAMPLES = 25


@pytest.fixture(scope="module")
def api(server):
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


CASES = [(*operation, "positive") for operation in OPERATIONS]
CASES += [
    ("POST", path, "negative") for path in ("/v1/upscale", "/v1/attention")
]  # the others have nothing to get wrong


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_no_server_error_and_nothing_undescribed(api, method, path, mode):
    operation = api[path][method]

    @settings(
        max_examples=EXAMPLES, deadline=None, phases=PHASES, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def check(case):
        # Whether bytes are a picture, and a point lies in it, no schema can say: those refusals are right.
        case.call_and_validate(excluded_checks=[schemathesis.checks.positive_data_acceptance])

    check()


def test_events_and_results_match_their_description(server):
    """Paths with a job's id, which schemathesis can only guess."""
    description = server.client.get("/openapi.json").json()
    job = server.client.post("/v1/upscale?respond=job&compare=true", content=picture(9)).json()
    server.client.get(f"/v1/jobs/{job['id']}/events")
    for name in ("result", "before", "preview", "events"):
        answer = server.client.get(f"/v1/jobs/{job['id']}/{name}")
        described = description["paths"][f"/v1/jobs/{{job_id}}/{name}"]["get"]["responses"]["200"]["content"]
        assert answer.headers["content-type"].partition(";")[0] in described


def test_every_operation_is_described(server):
    description = server.client.get("/openapi.json").json()
    assert set(description["paths"]) == {
        *("/v1/upscale", "/v1/attention", "/v1/models", "/v1/limits", "/v1/problems"),
        *(f"/v1/jobs/{{job_id}}{rest}" for rest in ("", "/events", "/result", "/before", "/preview")),
        *("/healthz", "/readyz", "/metrics"),
    }
    for path in description["paths"].values():
        for operation in path.values():
            assert operation["description"]
            for status, response in operation["responses"].items():
                assert response["description"]
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]
