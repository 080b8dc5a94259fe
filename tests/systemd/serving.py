"""[http] under the shipped sandbox: on a Unix socket as it is, on TCP with the drop-in only."""

from check import check
from container import eventually
from host import RUNTIME, UNIT
from sandbox import EXAMPLES

SOCKET = f"{RUNTIME}/http.sock"
ADDRESS = ("127.0.0.1", 9809)
# Prints the status and the body, or how it failed.
ASK = """
import socket, sys
family, address = {peer}
try:
    with socket.socket(family) as peer:
        peer.connect(address)
        peer.sendall(b"GET {path} HTTP/1.1\\r\\nHost: node\\r\\n\\r\\n")
        answer = b"".join(iter(lambda: peer.recv(65536), b"")).decode()
except OSError as error:
    sys.exit(f"{{error}}")
head, _, body = answer.partition("\\r\\n\\r\\n")
print(head.split()[1], body)
"""


def ask(node, address, path, user=None):
    family = "socket.AF_UNIX" if isinstance(address, str) else "socket.AF_INET"
    program = ASK.format(peer=f"({family}, {address!r})", path=path)
    command = ("python3", "-c", program)
    if user is not None:
        command = ("setpriv", f"--reuid={user}", "--clear-groups", *command)
    return node.run(*command, check=False).stdout.strip()


def listen(node, where):
    node.configure(f'[http]\nlisten = "{where}"\n', name="80-http.toml")


@check
def http_on_a_unix_socket_works_as_shipped(node):
    node.settle()
    listen(node, f"unix:{SOCKET}")
    node.unnoticed(lambda: node.systemctl("reload", UNIT))
    eventually("http is served", lambda: ask(node, SOCKET, "/healthz") == "200 ok")
    assert ask(node, SOCKET, "/readyz") == "200 ok"
    metrics = ask(node, SOCKET, "/metrics", user=65534)
    assert metrics.startswith("200 ") and "nsdr_driver_up" in metrics, metrics


@check
def http_on_tcp_without_the_drop_in_says_what_it_needs(node):
    listen(node, "%s:%d" % ADDRESS)
    node.unnoticed(lambda: node.systemctl("restart", UNIT))
    eventually("STATUS says it", lambda: "http-tcp.conf" in node.status_line())
    assert node.phase() == "registered", "drivers must not suffer"
    assert ask(node, ADDRESS, "/healthz") == ""


@check
def http_on_tcp_works_with_the_drop_in(node):
    example = node.path(f"{EXAMPLES}/http-tcp.conf").read_text()
    node.drop_in(example, name="http-tcp.conf")
    try:
        node.unnoticed(lambda: node.systemctl("restart", UNIT))
        eventually("http is served", lambda: ask(node, ADDRESS, "/healthz") == "200 ok")
        assert "http-tcp.conf" not in node.status_line(), node.status_line()
    finally:
        node.drop_in(None, name="http-tcp.conf")
        node.configure(None, name="80-http.toml")
        node.systemctl("restart", UNIT)
