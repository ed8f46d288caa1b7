"""Passthrough that holds each record for a known time: argv[1], in milliseconds.

Reading never waits for holding: a thread reads a partition, another sends what is due.
"""

import json
import os
import queue
import socket
import struct
import sys
import threading
import time

HOLD_S = float(sys.argv[1]) / 1000
UNNUMBERED = 2**64 - 1


def connect(data):
    """Open a connection to the log and greet."""
    link = socket.create_connection((data["host"], data["port"]))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    log = link.makefile("rwb")
    call(log, 0x01, struct.pack("<H", 1) + bytes.fromhex(data["token"]))
    return log


def call(log, op, body):
    """Send a frame and return the body of its reply."""
    log.write(struct.pack("<IB", 1 + len(body), op) + body)
    log.flush()
    size, reply = struct.unpack("<IB", log.read(5))
    body = log.read(size - 1)
    if reply != op | 0x80:
        raise ValueError(f"op {op}: {body[2:]}")
    return body


def read(partition, held, data):
    """Read a partition to its end; each reply is due a fixed time after it came."""
    log, offset, ended = connect(data), 0, False
    while not ended:
        body = call(log, 0x02, struct.pack("<HHQII", 0, partition, offset, 1 << 18, 1000))
        *_, end_offset, flags, records = struct.unpack_from("<HHQQBI", body)
        if records:
            held.put((time.monotonic() + HOLD_S, records, body[25:]))
        offset += records
        ended = flags & 1 and offset == end_offset
    held.put(None)


def send(partition, held, data):
    """Append what was held, when it is due."""
    log = connect(data)
    while (item := held.get()) is not None:
        due, records, region = item
        if (ahead := due - time.monotonic()) > 0:
            time.sleep(ahead)
        head = struct.pack("<HQQI", 0, partition, UNNUMBERED, records)
        call(log, 0x05, head + region)


def die(error):
    """End the engine with its thread."""
    sys.excepthook(error.exc_type, error.exc_value, error.exc_traceback)
    os._exit(1)


def answer(request, **fields):
    """Answer in one write, so that lines of two threads never mix."""
    os.write(1, json.dumps({"id": request["id"], "ok": True, **fields}).encode() + b"\n")


def finish(request):
    """Answer drain when every partition is at its end and sent."""
    for thread in threads:
        thread.join()
    answer(request)


threads = []
threading.excepthook = die
for request in map(json.loads, sys.stdin):
    op = request["op"]
    if op == "hello":
        answer(request, name="holding", version="1.0.0", protocol=1)
    elif op == "deploy":
        for p in range(request["inputs"][0]["partitions"]):
            line = queue.SimpleQueue()
            for work in (read, send):
                threads.append(threading.Thread(target=work, args=(p, line, request["data"])))
                threads[-1].start()
        answer(request)
    elif op == "topology":
        answer(request, processes=[{"pid": os.getpid(), "role": "engine", "name": "holding"}])
    elif op == "drain":
        threading.Thread(target=finish, args=(request,)).start()
    elif op == "stop":
        answer(request)
        break
    else:
        answer(request, ok=False, definite=True, error=f"no op {op}")
os._exit(0)
