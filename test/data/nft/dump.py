#!/usr/bin/env python3
"""Prints all tables of nf_tables in this network namespace as the kernel lists them: a line for each message,
its kind and its payload in hexadecimal digits. The dumps beside this file are those of the rules in
test/kernel/nft_worlds.cc, written by nft and iptables-nft of Debian 12 on Linux 6.18.

usage: unshare -n sh -c 'nft -f RULES && test/data/nft/dump.py' > NAME.dump
"""

import socket
import struct

NETLINK_NETFILTER = 12
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
NFNL_SUBSYS_NFTABLES = 10
GET = {"table": 1, "chain": 4, "set": 10, "rule": 7}
GET_ELEMENTS = 13
NFTA_TABLE, NFTA_NAME = 1, 2


def dump(sock, message, family, attributes=b""):
    body = struct.pack("=BBH", family, 0, 0) + attributes
    kind = NFNL_SUBSYS_NFTABLES << 8 | message
    sock.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST_DUMP, 1, 0) + body)
    while True:
        data = sock.recv(1 << 20)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                raise OSError(-struct.unpack_from("=i", data, 16)[0], "the kernel refuses to list")
            yield data[16:length]
            data = data[(length + 3) & ~3:]


def attribute(kind, text):
    value = text.encode() + b"\0"
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def names(payload):
    """The first two attributes of a set: table and name."""
    at, found = 4, []
    for _ in range(2):
        length, _ = struct.unpack_from("=HH", payload, at)
        found.append(payload[at + 4:at + length - 1].decode())
        at += (length + 3) & ~3
    return found


def main():
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    sets = []
    for kind, message in GET.items():
        for payload in dump(sock, message, 0):
            print(kind, payload.hex())
            if kind == "set":
                sets.append((payload[0], *names(payload)))
    for family, table, name in sets:
        wanted = attribute(NFTA_TABLE, table) + attribute(NFTA_NAME, name)
        for payload in dump(sock, GET_ELEMENTS, family, wanted):
            print("elements", payload.hex())


main()
