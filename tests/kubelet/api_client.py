"""An administrator of the cluster: requests to the API server inside the container."""

import ctypes
import http.client
import json
import socket
import ssl
import threading

PORT = 6443


class ApiClient:
    def __init__(self, container):
        self._container = container

    def get(self, path):
        """The object, or nothing where there is none."""
        return self.request("GET", path)

    def request(self, method, path, body=None):
        """A body that is a text is a manifest in YAML."""
        kinds = {"PATCH": "application/merge-patch+json"}
        kind = "application/yaml" if isinstance(body, str) else kinds.get(method, "application/json")
        headers = {"Authorization": "Bearer admin", "Content-Type": kind}
        if kind != "application/yaml" and body is not None:
            body = json.dumps(body)
        connection = http.client.HTTPSConnection("127.0.0.1", PORT)
        connection.sock = _TLS.wrap_socket(self._connect())
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status == 404 and method == "GET":
            return None
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return json.loads(text)

    def _connect(self):
        """A connection made in the container's network, which only one thread of ours enters."""
        result = []

        def connect():
            try:
                with open(f"/proc/{self._container.leader}/ns/net") as namespace:
                    if _LIBC.setns(namespace.fileno(), 0) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                result.append(socket.create_connection(("127.0.0.1", PORT), timeout=20))
            except OSError as error:
                result.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        if isinstance(result[0], OSError):
            raise result[0]
        return result[0]


_LIBC = ctypes.CDLL(None, use_errno=True)
# The API server makes its certificate itself, and nobody else is on this loopback.
_TLS = ssl.create_default_context()
_TLS.check_hostname = False
_TLS.verify_mode = ssl.CERT_NONE
