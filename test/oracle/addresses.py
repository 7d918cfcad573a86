"""Addresses and networks as Go's net package and kube-proxy's helpers read and print them.

An address is its canonical text (dotted quad or RFC 5952); a network is (family, number, length).
"""

import functools
import ipaddress
import re

FAMILIES = (4, 6)
HOST_LENGTH = {4: 32, 6: 128}
DOTTED = re.compile(r"^\d{1,3}(\.\d{1,3}){3}$", re.ASCII)


@functools.lru_cache(maxsize=200000)
def parse(text):
    """(family, number), or None. Leading zeros are decimal; mapped IPv4 is IPv4; no zones."""
    if not isinstance(text, str):
        return None
    if DOTTED.match(text):
        octets = [int(part) for part in text.split(".")]
        if max(octets) > 255:
            return None
        return 4, int.from_bytes(bytes(octets), "big")
    if ":" not in text or "%" in text:
        return None
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped
    return (4, int(mapped)) if mapped is not None else (6, int(address))


@functools.lru_cache(maxsize=200000)
def canonical(text):
    """The canonical text of an address, or None."""
    parsed = parse(text)
    if parsed is None:
        return None
    family, number = parsed
    return str(ipaddress.IPv4Address(number) if family == 4 else ipaddress.IPv6Address(number))


def family_of(text):
    parsed = parse(text)
    return parsed[0] if parsed else None


def of_family(texts, family):
    """The canonical forms of those that are of the family, in order; others are left out."""
    return [canonical(text) for text in texts or [] if family_of(text) == family]


@functools.lru_cache(maxsize=50000)
def parse_network(text):
    """(family, masked number, length), or None."""
    if not isinstance(text, str) or text.count("/") != 1:
        return None
    head, length = text.split("/")
    parsed = parse(head)
    if parsed is None or not length.isascii() or not length.isdigit():
        return None
    family, number = parsed
    bits = HOST_LENGTH[family]
    if int(length) > bits:
        return None
    shift = bits - int(length)
    return family, (number >> shift) << shift, int(length)


def contains(network, text):
    family, number, length = network
    parsed = parse(text)
    if parsed is None or parsed[0] != family:
        return False
    shift = HOST_LENGTH[family] - length
    return parsed[1] >> shift == number >> shift


def network_text(network):
    family, number, length = network
    head = ipaddress.IPv4Address(number) if family == 4 else ipaddress.IPv6Address(number)
    return f"{head}/{length}"


LOOPBACK = {4: parse_network("127.0.0.0/8"), 6: parse_network("::1/128")}
LINK_LOCAL_6 = parse_network("fe80::/10")


def is_loopback(text):
    return contains(LOOPBACK[family_of(text)], text)


def is_link_local_6(text):
    return contains(LINK_LOCAL_6, text)
