#!/usr/bin/env python3
"""A CSI driver on grpcio, with just the calls that lead to a registration."""

import argparse
import pathlib
from concurrent import futures

import grpc

import wire


class Service(grpc.GenericRpcHandler):
    def __init__(self, answers):
        self.answers = answers

    def service(self, details):
        answer = self.answers.get(details.method)
        if answer is None:
            return None

        def handle(_request, _context):
            print(f"answering {details.method}", flush=True)
            return answer

        return grpc.unary_unary_rpc_method_handler(handle)


def seconds(text):
    """Milliseconds of a time as Go writes it, such as 1s."""
    return round(float(text.removesuffix("s")) * 1000)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--socket", type=pathlib.Path, required=True, help="where to listen")
    arguments.add_argument("--name", default="py.foreign.test", help="the driver's name")
    arguments.add_argument("--node-id", default="node-1", help="the node's id")
    arguments.add_argument("--max-connection-idle", type=seconds, help="close connections that are idle for so long")
    arguments.add_argument("--max-connection-age", type=seconds, help="close connections that are older than that")
    options = arguments.parse_args()

    closing = [
        ("grpc.max_connection_idle_ms", options.max_connection_idle),
        ("grpc.max_connection_age_ms", options.max_connection_age),
    ]
    closing = [(name, time) for name, time in closing if time]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2), options=closing)
    plugin = wire.string(1, options.name) + wire.string(2, "1.2.3")
    service = Service(
        {
            "/csi.v1.Identity/GetPluginInfo": plugin,
            "/csi.v1.Identity/GetPluginCapabilities": b"",
            "/csi.v1.Identity/Probe": b"",
            "/csi.v1.Node/NodeGetInfo": wire.string(1, options.node_id),
            "/csi.v1.Node/NodeGetCapabilities": b"",
        }
    )
    server.add_generic_rpc_handlers((service,))
    # Drivers in the field do just this with the socket of their last run.
    options.socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{options.socket}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
