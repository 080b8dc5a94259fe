#!/usr/bin/env python3
"""A kubelet as far as plugin registration goes, on grpcio.

The percent-encoded path of the socket goes out as :authority, as kubelets from about 1.29 on have it.
Links that are already there at the start are registered, as kubelets from 1.25 on do. Where the kubelet
watches the directory, this one looks at it ten times a second. Each event is one line of JSON on
standard output.
"""

import argparse
import json
import os
import pathlib
import socket
import sys
import threading
import time
import urllib.parse
from concurrent import futures

import grpc

import wire

RECONCILE_PERIOD = 0.1
RETRY_PAUSE = 1.0


def report(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def words(error):
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"


def connect(path, authority=None):
    # grpcio shares connections between channels to one address; a kubelet opens one for each registration.
    options = [("grpc.use_local_subchannel_pool", 1)]
    if authority is not None:
        options.append(("grpc.default_authority", authority))
    channel = grpc.insecure_channel(f"unix:{path}", options=options)
    try:
        grpc.channel_ready_future(channel).result(timeout=10)
    except grpc.FutureTimeoutError:
        channel.close()
        raise RuntimeError(f"{path} did not answer within 10 s") from None
    return channel


def call(channel, method, request, timeout, metadata=()):
    # Without serializers grpcio passes bytes through.
    return channel.unary_unary(method)(request, timeout=timeout, metadata=metadata)


def node_id(endpoint):
    with connect(endpoint) as channel:
        reply = call(channel, "/csi.v1.Node/NodeGetInfo", b"", 120)
    return wire.strings(reply)[1][-1]


def ask(channel, repeat):
    """GetInfo several times on one connection. From the second request on HPACK refers to what the first
    one put into its table, and each new value of the header changes the table again."""
    replies = {
        call(channel, "/pluginregistration.Registration/GetInfo", b"", 1, (("x-request", str(number)),))
        for number in range(repeat)
    }
    if len(replies) != 1:
        raise RuntimeError(f"GetInfo gave {len(replies)} answers on one connection")
    return wire.strings(replies.pop())


def register(path, options):
    authority = {
        "kubelet": urllib.parse.quote(str(path), safe=""),
        # Encoded too, but without the leading slash.
        "grpcio": None,
        "localhost": "localhost",
    }[options.authority]
    with connect(path, authority) as channel:
        info = ask(channel, options.repeat)
        if info.get(1) != ["CSIPlugin"] or info.get(4) != ["1.0.0"]:
            raise RuntimeError(f"type {info.get(1)}, versions {info.get(4)}")
        name, endpoint = info[2][-1], info.get(3, [str(path)])[-1]
        error = node = None
        try:
            node = node_id(endpoint)
        except Exception as reason:
            error = reason
        time.sleep(options.hold)
        status = wire.boolean(1, True) if error is None else wire.string(2, words(error))
        call(channel, "/pluginregistration.Registration/NotifyRegistrationStatus", status, 5)
        if error is not None:
            raise error
    return {"name": name, "endpoint": endpoint, "node_id": node}


def entries(registry):
    """Every path that counts, with what tells it from a later file of the same name."""
    found = {}
    for path in registry.iterdir():
        try:
            itself = path.lstat()
        except FileNotFoundError:
            continue
        if not path.name.startswith("."):
            found[path] = (itself.st_ino, itself.st_ctime_ns)
    return found


def serve_pod_resources(directory):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "kubelet.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept():
        while True:
            listener.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--root", type=pathlib.Path, required=True, help="the kubelet's root directory")
    arguments.add_argument(
        "--authority",
        choices=("kubelet", "grpcio", "localhost"),
        default="kubelet",
        help="what goes out as :authority: what kubelets send, what grpcio sends by itself, or localhost",
    )
    arguments.add_argument("--repeat", type=int, default=1, help="GetInfo calls on the connection")
    arguments.add_argument("--hold", type=float, default=0, help="seconds between GetInfo and Notify")
    arguments.add_argument("--once", action="store_true", help="exit 0 after the first registration")
    arguments.add_argument("--timeout", type=float, default=0, help="exit 1 after this many seconds; 0 is never")
    options = arguments.parse_args()
    if options.timeout:

        def give_up():
            print(f"still running after {options.timeout} s", file=sys.stderr, flush=True)
            os._exit(1)

        timer = threading.Timer(options.timeout, give_up)
        timer.daemon = True
        timer.start()

    serve_pod_resources(options.root / "pod-resources")
    registry = options.root / "plugins_registry"
    registry.mkdir(parents=True, exist_ok=True)
    report("watching", path=str(registry))

    # Each path by itself, so that one held registration does not keep the others waiting.
    pool = futures.ThreadPoolExecutor(max_workers=16)
    tries = {}
    registered = {}
    not_before = {}
    while True:
        present = entries(registry)
        # A registered link whose target has gone stays registered: the kubelet watches the link alone.
        for path, (identity, name) in list(registered.items()):
            if present.get(path) != identity:
                del registered[path]
                report("deregistered", name=name, path=str(path))
        for path, identity in present.items():
            if path in registered or path in tries or time.monotonic() < not_before.get(path, 0):
                continue
            if path.is_socket():
                tries[path] = (identity, pool.submit(register, path, options))
        for path, (identity, attempt) in list(tries.items()):
            if not attempt.done():
                continue
            del tries[path]
            try:
                plugin = attempt.result()
            except Exception as error:
                not_before[path] = time.monotonic() + RETRY_PAUSE
                report("failed", path=str(path), error=words(error))
                continue
            registered[path] = (identity, plugin["name"])
            report("registered", path=str(path), **plugin)
            if options.once:
                return
        time.sleep(RECONCILE_PERIOD)


if __name__ == "__main__":
    main()
