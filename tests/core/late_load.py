#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libtenon loaded late, as a Python binding loads it: its static thread storage must fit into what the C library keeps for
such libraries. Threads that end while it is loaded give back what they had; a program may close it.

    late_load.py LIBTENON
"""
import ctypes
import re
import subprocess
import sys
import threading

# glibc keeps 512 bytes for all libraries that are loaded late (rtld.optional_static_tls).
ROOM = 256


def main():
    path = sys.argv[1]
    segments = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", segments, re.M)
    size = int(found[1], 16) if found else 0
    if size > ROOM:
        print(f"{path}: {size} bytes of static thread storage, at most {ROOM} are allowed")
        return 1
    lib = ctypes.CDLL(path)
    lib.tn_version.restype = ctypes.c_char_p
    lib.tn_status_text.restype = ctypes.c_char_p
    lib.tn_last_error.restype = ctypes.c_void_p
    context = ctypes.c_void_p()
    assert lib.tn_context_create(None, ctypes.byref(context)) == 0, "no context"
    assert lib.tn_last_error() is None, "an error without one"
    seen = []

    def fail():
        """An error of this thread: a device that cannot be named."""
        lib.tn_device_parse.restype = ctypes.c_uint64
        assert lib.tn_device_parse(context, b"no device!") >> 63 == 1
        seen.append(ctypes.string_at(ctypes.cast(lib.tn_last_error() + 16, ctypes.POINTER(ctypes.c_char_p))[0]))

    threads = [threading.Thread(target=fail) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [b"Invalid device string: 'no device!'"] * 8, seen
    assert lib.tn_last_error() is None, "an error of another thread"
    closed, failed = threading.Event(), threading.Event()

    def outlive():
        """Ends after the library was closed; what runs then must still be there."""
        fail()
        failed.set()
        closed.wait()

    thread = threading.Thread(target=outlive)
    thread.start()
    failed.wait()
    lib.tn_context_destroy(context)
    close(lib)
    closed.set()
    thread.join()
    print(f"loaded late: {size} bytes of static thread storage")
    return 0


def close(lib):
    libc = ctypes.CDLL(None)
    libc.dlclose.argtypes = [ctypes.c_void_p]
    libc.dlclose(lib._handle)


if __name__ == "__main__":
    sys.exit(main())
