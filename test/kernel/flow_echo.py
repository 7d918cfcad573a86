#!/usr/bin/env python3
"""Answers and asks for flowtable_guest_test.sh.

  flow_echo.py serve PORT                     an echo of TCP and UDP, IPv4 and IPv6, for ever
  flow_echo.py ask REQUESTS ROW...            each row "PROTOCOL,ADDRESS,PORT": so many requests on one
                                              connection; status 1 if a row lacks an answer
  flow_echo.py ask-on FILE ROW                requests until FILE is there, and one more; status 1 if
                                              the last lacks an answer for 20 seconds
  flow_echo.py load FILE ADDRESS PORT         new connections of three requests each until FILE is
                                              there; prints when one failed, in seconds since the start
"""
import os
import socket
import sys
import threading
import time


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def echo_stream(connection):
    with connection:
        try:
            while data := connection.recv(64):
                connection.sendall(data)
        except OSError:
            pass


def serve(port):
    listening = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(("::", port))

    def echo_datagrams():
        while True:
            data, sender = datagrams.recvfrom(64)
            datagrams.sendto(data, sender)

    threading.Thread(target=echo_datagrams, daemon=True).start()
    while True:
        threading.Thread(target=echo_stream, args=(listening.accept()[0],), daemon=True).start()


def connect(protocol, address, port, timeout):
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    asking = socket.socket(family_of(address), kind)
    asking.settimeout(timeout)
    asking.connect((address, port))
    return asking


def answered(asking, text):
    asking.send(text)
    try:
        return asking.recv(64) == text
    except OSError:
        return False


def row_of(text):
    protocol, address, port = text.split(",")
    return protocol, address, int(port)


def ask(requests, rows):
    results = {}

    def run(row):
        try:
            with connect(*row_of(row), 5) as asking:
                good = 0
                while good < requests and answered(asking, b"q%d" % good):
                    good += 1
                    time.sleep(0.02)
                results[row] = good
        except OSError as error:
            results[row] = str(error)

    threads = [threading.Thread(target=run, args=(row,)) for row in rows]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    bad = {row: good for row, good in results.items() if good != requests}
    for row, good in sorted(bad.items()):
        print(f"{row}: {good} of {requests} answers")
    return 1 if bad else 0


def ask_on(file, row):
    protocol, address, port = row_of(row)
    with connect(protocol, address, port, 5) as asking:
        number = 0
        while not os.path.exists(file):
            answered(asking, b"a%d" % number)
            number += 1
            time.sleep(0.2)
        # What was sent while nothing came back may be answered first.
        end = time.monotonic() + 20
        asking.send(b"last")
        seen = b""
        while not seen.endswith(b"last") and time.monotonic() < end:
            try:
                seen += asking.recv(4096)
            except socket.timeout:
                asking.send(b"last")
            except OSError as error:
                print(error)
                return 1
        print(f"{row}: {number} requests, then {seen[-4:]!r}")
        return 0 if seen.endswith(b"last") else 1


def load(file, address, port):
    begin = time.monotonic()
    count = 0
    while not os.path.exists(file):
        start = time.monotonic() - begin
        count += 1
        try:
            with connect("tcp", address, port, 2) as asking:
                good = all(answered(asking, b"r%d" % i) for i in range(3))
        except OSError:
            good = False
        if not good:
            print(f"failed {start:.2f}")
        time.sleep(0.01)
    print(f"connections {count}")
    return 0


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "serve":
        serve(int(rest[0]))
    elif mode == "ask":
        sys.exit(ask(int(rest[0]), rest[1:]))
    elif mode == "ask-on":
        sys.exit(ask_on(rest[0], rest[1]))
    elif mode == "load":
        sys.exit(load(rest[0], rest[1], int(rest[2])))
