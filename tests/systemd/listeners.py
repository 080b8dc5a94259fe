"""What the probes connect to, as a unit of its own: an abstract socket, a TCP port and a DNS server."""

import os
import socket
import struct

ANSWER = socket.inet_aton("127.0.0.1")
# Type A of class IN.
ADDRESS = struct.pack("!HH", 1, 1)


def answered(query):
    """The answer to a query of one question: each name has one address, and nothing else."""
    end = query.index(b"\0", 12) + 5
    question = query[12:end]
    has_address = question.endswith(ADDRESS)
    header = query[:2] + struct.pack("!HHHHH", 0x8180, 1, int(has_address), 0, 0)
    record = b"\xc0\x0c" + ADDRESS + struct.pack("!IH", 60, len(ANSWER)) + ANSWER
    return header + question + (record if has_address else b"")


def main():
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0nsdr-probe")
    abstract.listen()
    # A connection is made before it is accepted.
    tcp = socket.create_server(("127.0.0.1", 7799))
    dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dns.bind(("127.0.0.1", 53))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    while True:
        query, client = dns.recvfrom(512)
        dns.sendto(answered(query), client)


main()
