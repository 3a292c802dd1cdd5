"""The shipped deployment files say what the program and its image say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from bot.cli import cli
from tests.unit.test_metrics import STANDING, Stands, busy

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "manifests/compose.yaml").read_text(encoding="utf-8"))
CLUSTER: dict[str, Any] = yaml.safe_load((ROOT / "manifests/k8s.yaml").read_text(encoding="utf-8"))
OURS = ["migrate", "serve", "worker"]
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def pods() -> list[dict[str, Any]]:
    return [item["spec"]["template"]["spec"] for item in CLUSTER["items"] if item["kind"] == "Deployment"]


def containers() -> list[dict[str, Any]]:
    return [one for pod in pods() for one in [*pod.get("initContainers", []), *pod["containers"]]]


def test_every_role_runs_a_command_that_exists() -> None:
    """Migration, the doors and the reader of documents, in both files, with options that the program has."""
    known: Any = get_command(cli)
    started = [COMPOSE["services"][name]["command"] for name in OURS] + [one["args"] for one in containers()]
    for name, *options in started:
        taken = {option for parameter in known.commands[name].params for option in parameter.opts}
        assert {option for option in options if option.startswith("--")} <= taken
    assert {name for name, *_ in started} == set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_compose_gives_nothing_away(name: str) -> None:
    """The file system is read-only, no capability is left, the door is this machine's, no secret has a default."""
    service = COMPOSE["services"][name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert service["environment"]["SIGNOFF_DATABASE_URL"].count("${POSTGRES_PASSWORD:?}") == 1


def test_the_cluster_gives_nothing_away() -> None:
    """No container is root, may become it, or may write where it should not; the account is the image's."""
    for pod in pods():
        account = pod["securityContext"]["runAsUser"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert f"--uid {account} " in IMAGE
    for container in containers():
        assert container["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"/data", "/tmp"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_two_doors_are_probed_and_replaced_one_by_one() -> None:
    """Two serving processes in both files; the cluster takes none away before the next is ready."""
    serve = next(item for item in CLUSTER["items"] if item["metadata"]["name"] == "signoff-serve")
    (container,) = serve["spec"]["template"]["spec"]["containers"]
    assert serve["spec"]["replicas"] == COMPOSE["services"]["serve"]["deploy"]["replicas"] == 2
    assert serve["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert f"EXPOSE {container['ports'][0]['containerPort']}" in IMAGE


async def test_what_the_operations_page_watches_is_there() -> None:
    """Every metric that its table, its scrape configuration and its alerts name is one that a process exposes."""
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    scrape, alerts = (yaml.safe_load(block) for block in blocks)
    assert scrape["scrape_configs"][0]["job_name"] == "signoff"
    rules = alerts["groups"][0]["rules"]
    assert len(rules) == 5
    assert all({"alert", "expr", "for", "annotations"} <= rule.keys() for rule in rules)
    body, _ = await busy().exposed(Stands(STANDING))
    exposed = set(re.findall(r"^# TYPE (\w+)", body.decode(), re.MULTILINE))
    named = {name for name in re.findall(r"\bsignoff_[a-z_]*[a-z]\b", text) if name not in ("signoff_jobs",)}
    assert {name.removesuffix("_bucket") for name in named} <= exposed
    assert exposed - {name for name in exposed if name.startswith("process_")} == {
        name.removesuffix("_bucket") for name in named
    }
