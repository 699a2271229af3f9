"""Renders the Helm chart by Helm's own library and validates what comes out against the schemas of Kubernetes.

    python check.py NETFOLD

``NETFOLD`` is the command, which parses the arguments of every container. Nothing is installed anywhere. Needs the packages ``helm-python-sdk``, with Helm's
library, and ``kubernetes-validate``, with the schemas; ends with 77 after a line ``skipped: ...`` where they are missing.
"""

from __future__ import annotations

import copy
import json
import pathlib
import re
import subprocess
import sys
from typing import Any, Dict, List

try:
    import helm_python as helm
    import kubernetes_validate
    import yaml
except ImportError as error:
    print(f"skipped: Helm: {error} (pip install helm-python-sdk kubernetes-validate)")
    sys.exit(77)

CHART = pathlib.Path(__file__).parents[2] / "packaging/helm/netfold"
#: The oldest version of Kubernetes that the chart is for, and a recent one.
VERSIONS = ("1.28", "1.34")
#: Kinds of others than Kubernetes, for which there is no schema here.
FOREIGN = ("ServiceMonitor",)

TOPOLOGY = '[[switch]]\nname = "a"\np4runtime = "10.0.0.1:9559"\n\n[[host]]\nname = "all"\naddresses = ["10.0.0.0/24"]\nswitch = "a"\n'
#: A trial.
TRIAL = {"insecure": True, "controller": {"topology": TOPOLOGY}, "test": {"tenant": "red"}}
#: With everything that is authenticated.
SECURE = {
    "controller": {
        "topology": TOPOLOGY,
        "adminTokens": {"secretName": "tokens", "readers": True},
        "tls": {"secretName": "controller-tls"},
        "switchTls": {"secretName": "controller-client-tls"},
    },
    "switch": {"tls": {"secretName": "switch-tls"}},
    "test": {"tenant": "red", "tokenSecretName": "red", "caConfigMap": "netfold-ca"},
    "metrics": {"serviceMonitor": {"enabled": True, "tokenSecretName": "prometheus"}},
    "networkPolicy": {"enabled": True, "workers": ["10.0.0.0/16"]},
}


def merged(base: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    """``base`` with dotted names set, as ``controller.replicas`` written ``controller__replicas``."""
    values = copy.deepcopy(base)
    for name, value in more.items():
        *path, last = name.split("__")
        at = values
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return values


def render(values: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The objects of a release, each validated."""
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(chart.merge_values(values))
        texts = chart.render(values, name="netfold", namespace="training")
    objects = [found for name, text in texts.items() if name.endswith(".yaml") for found in yaml.safe_load_all(text) if found]
    for found in objects:
        if found["kind"] in FOREIGN:
            continue
        for version in VERSIONS:
            kubernetes_validate.validate(found, version, strict=True)
    names = [(found["kind"], found["metadata"]["name"]) for found in objects]
    assert len(set(names)) == len(names), names
    return objects


def find(objects: List[Dict[str, Any]], kind: str) -> Dict[str, Any]:
    return next(found for found in objects if found["kind"] == kind)


def pod(found: Dict[str, Any]) -> Dict[str, Any]:
    return found["spec"]["template"]["spec"]


def container(found: Dict[str, Any]) -> Dict[str, Any]:
    return pod(found)["containers"][0]


def refused(values: Dict[str, Any], part: str) -> None:
    try:
        render(values)
    except helm.HelmError as error:
        assert part in str(error), f"'{part}' is not in: {error}"
        return
    raise AssertionError(f"not refused, for {part}")


def check_command(netfold: str, objects: List[Dict[str, Any]]) -> None:
    """Every option of a container exists: the command prints its help once it has parsed those before."""
    for found in objects:
        if "template" not in found.get("spec", {}):
            continue
        inner = container(found)
        command, *options = inner["args"]
        text = subprocess.run([netfold, command, "--help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z0-9-]+", text))
        given = {option.split("=")[0] for option in options if option.startswith("--")}
        assert given <= known, f"{command}: {given - known}"
        # What refers to a variable has it, and every file is in a mounted folder.
        names = {variable["name"] for variable in inner.get("env", [])}
        assert set(re.findall(r"\$\(([A-Z_]+)\)", " ".join(options))) <= names, options
        mounts = [mount["mountPath"] for mount in inner.get("volumeMounts", [])]
        files = re.findall(r"=(/(?:etc|var)/\S+)", " ".join(options)) + [v["value"] for v in inner.get("env", []) if str(v.get("value", "")).startswith("/")]
        for file in files:
            assert any(file.startswith(f"{mount}/") for mount in mounts), f"{file} is in none of {mounts}"
        volumes = {volume["name"] for volume in pod(found).get("volumes", [])}
        claims = {claim["metadata"]["name"] for claim in found["spec"].get("volumeClaimTemplates", [])}
        assert {mount["name"] for mount in inner.get("volumeMounts", [])} == volumes | claims


def check_selectors(objects: List[Dict[str, Any]]) -> None:
    """What selects pods selects those of one component."""
    pods = {found["metadata"]["name"]: found["spec"]["template"]["metadata"]["labels"] for found in objects if "template" in found.get("spec", {})}

    def chosen(labels: Dict[str, str]) -> List[str]:
        return [name for name, has in pods.items() if labels.items() <= has.items()]

    for found in objects:
        spec = found.get("spec", {})
        if found["kind"] in ("StatefulSet", "DaemonSet"):
            assert chosen(spec["selector"]["matchLabels"]) == [found["metadata"]["name"]]
        elif found["kind"] == "Service":
            assert chosen(spec["selector"]) == ["netfold-controller"]
            ports = {port["name"] for port in container(find(objects, "StatefulSet"))["ports"]}
            assert {port["targetPort"] for port in spec["ports"]} == ports
        elif found["kind"] == "NetworkPolicy":
            assert chosen(spec["podSelector"]["matchLabels"]) == ["netfold-controller"]


def check_trial(netfold: str) -> None:
    objects = render(TRIAL)
    assert sorted(found["kind"] for found in objects) == ["ConfigMap", "DaemonSet", "Job", "Service", "StatefulSet"]
    assert find(objects, "ConfigMap")["data"]["topology.toml"] == TOPOLOGY
    check_command(netfold, objects)
    check_selectors(objects)
    for kind in ("StatefulSet", "DaemonSet", "Job"):
        found = find(objects, kind)
        security = container(found)["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]} and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"], kind
        assert pod(found)["securityContext"]["runAsNonRoot"] and not pod(found)["automountServiceAccountToken"], kind
    job = find(objects, "Job")["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    env = {variable["name"]: variable.get("value") for variable in container(find(objects, "Job"))["env"]}
    assert env["WORLD_SIZE"] == "2" and "RANK" in env and env["NETFOLD_JOB"] == "netfold-test-1" and "NETFOLD_TOKEN" not in env


def check_secure(netfold: str) -> None:
    objects = render(SECURE)
    check_command(netfold, objects)
    check_selectors(objects)
    controller = container(find(objects, "StatefulSet"))
    assert controller["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert not any("--insecure" in container(found)["args"] for found in objects if "template" in found.get("spec", {}))
    assert find(objects, "NetworkPolicy")["spec"]["ingress"][0]["from"] == [{"ipBlock": {"cidr": "10.0.0.0/16"}}]
    assert find(objects, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"] == "https"
    several = render(merged(SECURE, controller__replicas=3, controller__etcd={"endpoints": ["https://e0:2379", "https://e1:2379"], "tls": {"secretName": "etcd"}}))
    check_command(netfold, several)
    assert "volumeClaimTemplates" not in find(several, "StatefulSet")["spec"] and find(several, "Service")["spec"]["clusterIP"] == "None"
    workers = [f"netfold-controller-{number}.netfold-controller:20041" for number in range(3)]
    assert f"--controller={','.join(workers)}" in container(find(several, "Job"))["args"]


def check_switches(netfold: str) -> None:
    for io, capabilities in (
        ("udp", None),
        ("shm:gpu,uplink=udp", None),
        ("packet-ring:eth0", ["NET_RAW"]),
        ("shm:gpu,uplink=af-packet:eth0", ["NET_RAW"]),
        ("af-xdp:eth0@0-3", ["NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"]),
        ("xdp-kernel:eth0+eth1", ["NET_ADMIN", "BPF"]),
        ("dpdk:net_af_packet0,iface=eth0", None),
    ):
        switch = find(render(merged(TRIAL, switch__io=io)), "DaemonSet")
        assert container(switch)["securityContext"]["capabilities"].get("add") == capabilities, io
        assert pod(switch)["securityContext"].get("runAsUser") == (0 if capabilities else 65532), io
    more = find(render(merged(TRIAL, switch__io="packet-ring:eth0", switch__extraCapabilities=["NET_RAW", "IPC_LOCK"])), "DaemonSet")
    assert container(more)["securityContext"]["capabilities"]["add"] == ["NET_RAW", "IPC_LOCK"]
    huge = container(find(render(merged(TRIAL, switch__io="dpdk:0000:03:00.0", switch__hugepages={"size": "1Gi", "amount": "2Gi"})), "DaemonSet"))
    assert huge["resources"]["limits"]["hugepages-1Gi"] == "2Gi" and "memory" in huge["resources"]["limits"]
    assert {"name": "hugepages", "mountPath": "/dev/hugepages"} in huge["volumeMounts"]
    alone = render({"controller": {"enabled": False}, "test": {"switch": "10.0.0.1:20038"}})
    assert sorted(found["kind"] for found in alone) == ["DaemonSet", "Job"]
    check_command(netfold, alone)
    assert not any("p4runtime" in argument for argument in container(find(alone, "DaemonSet"))["args"])


def check_refusals() -> None:
    refused({}, "controller.topology")
    refused(merged(TRIAL, insecure=False), "controller.adminTokens.secretName")
    refused(merged(TRIAL, controller__replicas=2), "etcd")
    refused(merged(TRIAL, controller__topologyConfigMap="other"), "exclude each other")
    refused(merged(TRIAL, test__tenant=""), "test.tenant")
    refused(merged(SECURE, switch__tls__secretName=""), "switch.tls.secretName")
    refused(merged(SECURE, test__caConfigMap=""), "test.caConfigMap")
    refused(merged(SECURE, metrics__serviceMonitor__tokenSecretName=""), "tokenSecretName")
    refused({"controller": {"enabled": False}}, "test.switch")
    # By the schema, which names the value.
    for name, value in (
        ("switch__io", "carrier-pigeon:eth0"),
        ("switch__port", 70_000),
        ("switch__port", "20038"),
        ("switch__extraCapabilities", ["CAP_NET_RAW"]),
        ("switch__hugepages", {"size": "4Ki"}),
        ("switch__updateStrategy", "Recreate"),
        ("switch__prot", 1),
        ("controller__replicas", 0),
        ("controller__storage__size", "much"),
        ("controller__etcd__endpoints", ["etcd:2379"]),
        ("controller__extraArgs", "--sharing priority"),
        ("networkPolicy__workers", ["10.0.0.0"]),
        ("test__ranks", 33),
        ("test__bytes", "16MB"),
        ("image__pullPolicy", "Sometimes"),
    ):
        refused(merged(TRIAL, **{name: value}), name.split("__")[1])


def check_values() -> None:
    """Helm finds nothing, and every value is described by the schema."""
    found = helm.lint(str(CHART), TRIAL)
    assert not found["errors"] and all(message["severity"] <= 1 for message in found["messages"]), found

    def compare(values: Any, schema: Any, path: str) -> None:
        if not isinstance(values, dict) or "properties" not in schema:
            return
        known = set(schema["properties"]) - {"global"} if not path else set(schema["properties"])
        assert set(values) <= known, f"{path}: {set(values) - known}"
        for name, value in values.items():
            compare(value, schema["properties"][name], f"{path}.{name}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")


def main() -> None:
    netfold = sys.argv[1]
    version = subprocess.run([netfold, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version, (chart, version)
    check_values()
    check_trial(netfold)
    check_secure(netfold)
    check_switches(netfold)
    check_refusals()
    print("the chart is valid")


if __name__ == "__main__":
    main()
