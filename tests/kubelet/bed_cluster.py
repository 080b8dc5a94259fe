"""The test kubelet in the real one's place, with API objects of its own."""

from kubelet_unit import KubeletUnit
from test_kubelet import TestKubelet


class BedCluster(KubeletUnit):
    """What Cluster is, for the kubelet that the other tests are run with."""

    name = "test kubelet"

    def __init__(self, container, programs):
        super().__init__(container)
        self._programs = programs
        self._kubelet = TestKubelet(container, "1.24")

    def set_up(self):
        self._kubelet.set_up(self._programs)
        self._systemctl("daemon-reload")
        self.start_kubelet()

    def is_watching_since(self, mark):
        return any(event == "Watching" for event, _ in self._kubelet.events()[mark:])

    def start_api_server(self):
        self._kubelet.tell({"Faults": {}})

    def stop_api_server(self):
        self._kubelet.tell({"Faults": {"fail_api_writes": "connection refused"}})

    def csi_node(self):
        return {
            name: {
                "node_id": driver["node_id"],
                "topology_keys": sorted(driver["topology_keys"]),
                "limit": driver["max_volumes"],
            }
            for name, driver in self._kubelet.objects()["csi_node"].items()
        }

    def node_ids(self):
        return self._kubelet.objects()["node_ids"]

    def labels(self):
        return self._kubelet.objects()["labels"]

    def remove_label(self, key):
        self._kubelet.tell({"RemoveLabel": key})

    def mark(self):
        return len(self._kubelet.events())

    def seen_since(self, mark):
        events = self._kubelet.events()[mark:]
        written = [fields["object"] for event, fields in events if event == "ApiWrite"]
        return {
            "registrations": sum(event == "Register" for event, _ in events),
            "deregistrations": sum(event == "Deregister" and fields["registered"] for event, fields in events),
            "csi_node_writes": written.count("CsiNode"),
            "node_patches": written.count("Node"),
        }

    def lines_since(self, mark):
        return [fields["text"] for event, fields in self._kubelet.events()[mark:] if event == "ErrorLine"]

    def said(self):
        return [str(event) for event in self._kubelet.events()[-40:]]
