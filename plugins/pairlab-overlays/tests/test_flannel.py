"""What pairlab tells Flannel and etcd, and reads of them; etcd is a server of this test, flanneld's words are real."""

import base64
import ipaddress
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pairlab import Spec
from pairlab.errors import TestbedError
from pairlab.testbed import plans, registry
from pairlab_overlays import flannel

CAPTURED = Path(__file__).parent / "captured"
LEASES = (CAPTURED / "etcd-3.4.23-flannel-leases.json").read_text()
BACKENDS = ("flannel-vxlan", "flannel-host-gw", "flannel-udp")


@pytest.fixture
def gateway(monkeypatch):
    """Keeps what it is asked, and answers every range with the captured one. refuses: it stores nothing."""

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.asked.append((self.path, json.loads(text)))
            self.send_response(400 if self.server.refuses else 200)
            self.end_headers()
            self.wfile.write(b'{"error":"etcdserver: no space"}' if self.server.refuses else LEASES.encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        server.asked, server.refuses = [], False
        monkeypatch.setattr(flannel, "PORT", server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_lease_is_read_from_flannelds_subnet_file():
    lease = flannel.read_lease((CAPTURED / "flannel-0.25.7-subnet.env").read_text())
    assert lease["FLANNEL_SUBNET"] == "10.129.0.1/16"
    assert lease["FLANNEL_MTU"] == "1450"


def test_the_leases_are_read_from_etcd(gateway):
    leases = flannel.Etcd("127.0.0.1").under("/coreos.com/network/subnets/")
    assert {key: each["PublicIP"] for key, each in leases.items()} == {
        "10.128.0.0-16": "10.76.0.1",
        "10.129.0.0-16": "10.76.0.2",
    }
    assert leases["10.129.0.0-16"]["BackendData"]["VNI"] == 1
    ((path, request),) = gateway.asked
    assert path == "/v3/kv/range"
    assert base64.b64decode(request["range_end"]) == b"/coreos.com/network/subnets0"  # the byte after "/"


def test_a_value_is_stored_as_json(gateway):
    flannel.Etcd("127.0.0.1").put("/a", {"PublicIP": "10.76.0.1"})
    ((path, request),) = gateway.asked
    assert (path, base64.b64decode(request["key"])) == ("/v3/kv/put", b"/a")
    assert json.loads(base64.b64decode(request["value"])) == {"PublicIP": "10.76.0.1"}


def test_an_etcd_that_refuses_or_is_not_there_is_told_in_its_words(gateway):
    gateway.refuses = True
    with pytest.raises(TestbedError, match=r"etcd refused to put a key: 400 .*no space"):
        flannel.Etcd("127.0.0.1").put("/a", {})
    with pytest.raises(TestbedError, match=r"etcd at http://127\.0\.0\.2.* did not answer: .*refused"):
        flannel.Etcd("127.0.0.2").put("/a", {})


@pytest.mark.parametrize("driver", BACKENDS)
def test_every_subnet_that_is_planned_is_one_that_flannel_may_lease(driver):
    told = flannel.configuration(registry.drivers.get(driver).backend)
    assert told["Backend"] == {"Type": driver.removeprefix("flannel-")}
    plan = plans.layout(Spec(driver=driver, hosts=64, pairs=64, placement="spread"))
    subnets = [ipaddress.IPv4Network(host.subnet) for host in plan.hosts]
    assert {each.prefixlen for each in subnets} == {told["SubnetLen"]}
    assert all(each.subnet_of(ipaddress.IPv4Network(told["Network"])) for each in subnets)
    assert min(subnets).network_address == ipaddress.IPv4Address(told["SubnetMin"])


def test_endpoints_have_the_mtu_that_flannel_leaves():
    spec = Spec(hosts=2, placement="across")
    mtu = {driver: plans.layout(spec.replace(driver=driver)).endpoints[0].mtu_bytes for driver in BACKENDS}
    assert mtu == {"flannel-vxlan": 1450, "flannel-host-gw": 1500, "flannel-udp": 1472}  # FLANNEL_MTU of each


def test_without_flanneld_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    lack = flannel.FLANNELD.missing()
    assert lack.what == "flanneld is not installed"
    assert "docs/networks/flannel.md" in lack.remedy
