#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a profile (TENON_PROFILE=FILE, tn_profile_write, or another file in the Trace Event Format) as a picture, printed as SVG.

    profile_svg.py [--range NAME [--nth N]] [--from MS] [--to MS] [--width PIXELS] FILE

A row for each thread of the host and each stream of a device, a bar for each call or piece of device work, calls inside of others
below them, and a line from each launch to its work. --range draws the N-th range of that name (default: the first) with the
work that it queued; --from and --to draw a part of the time.
"""
import argparse
import bisect
import json
import sys
from html import escape

BAR, LANE, LABEL, TOP, LEFT = 16, 18, 20, 46, 8  # heights in pixels, and the margin
CHARACTER = 6.3  # the width of one at font size 10
LEAST = 0.05  # pixels; shorter bars are counted, not drawn
COLOURS = {"range": "#c9ced6", "backward": "#cdb6e8", "operator": "#9cc4ee", "work": "#f3b567", "kernel": "#f8dcae"}


def time_of(number):
    if not abs(float(number)) < 1e15:  # 30 years
        raise ValueError
    return float(number)


class Track:
    """What one thread or stream did. Lanes are depths of nesting."""

    def __init__(self, process, number):
        self.process, self.number = process, number
        self.bars, self.lanes = [], 0

    def arrange(self):
        self.bars.sort(key=lambda b: (b["ts"], -b["dur"]))
        open_until = []
        for bar in self.bars:
            while open_until and open_until[-1] <= bar["ts"]:
                open_until.pop()
            bar["lane"] = len(open_until)
            open_until.append(bar["ts"] + bar["dur"])
            self.lanes = max(self.lanes, len(open_until))

    def lane_at(self, time):
        """The lane of the innermost bar around a time."""
        last = bisect.bisect_right(self.bars, time, key=lambda b: b["ts"])
        return max((b["lane"] for b in self.bars[:last] if b["ts"] + b["dur"] >= time), default=0)


class Trace:
    def __init__(self, events):
        self.tracks, self.names, self.flows = {}, {}, {}
        for e in events:
            phase, place = e.get("ph"), (str(e.get("pid")), str(e.get("tid")))
            if phase == "M" and e.get("name") in ("process_name", "thread_name"):
                self.names[(place[0], place[1] if e["name"] == "thread_name" else None)] = str(e["args"]["name"])
            elif phase == "X":
                track = self.tracks.setdefault(place, Track(*place))
                track.bars.append({"name": str(e["name"]), "ts": time_of(e["ts"]), "dur": max(time_of(e.get("dur", 0)), 0.0),
                                   "kind": str(e.get("cat", "operator")), "shapes": str(e.get("args", {}).get("shapes", ""))})
            elif phase in ("s", "f"):
                self.flows.setdefault(str(e.get("id")), {})[phase] = (place, time_of(e["ts"]))

    def cut(self, begin, end):
        """Only what is inside; calls that began before or go on behind it are shortened."""
        for track in self.tracks.values():
            track.bars = [b for b in track.bars if b["ts"] < end and b["ts"] + b["dur"] > begin]
            for b in track.bars:
                b["took"] = b["dur"]
                b["dur"] = min(b["ts"] + b["dur"], end) - max(b["ts"], begin)
                b["ts"] = max(b["ts"], begin)
            track.arrange()
        self.tracks = {place: track for place, track in sorted(self.tracks.items(), key=lambda t: [(len(n), n) for n in t[0]])
                       if track.bars}
        self.flows = {number: f for number, f in self.flows.items()
                      if len(f) == 2 and all(begin <= time <= end and place in self.tracks for place, time in f.values())}

    def label(self, track):
        process = self.names.get((track.process, None), f"process {track.process}")
        return f"{process}: {self.names.get((track.process, track.number), f'track {track.number}')}"

    def span_of(self, name, nth):
        """When a range begins, and when it and the work that it queued have ended."""
        found = sorted((b["ts"], b["ts"] + b["dur"], place) for place, track in self.tracks.items() for b in track.bars
                       if b["name"] == name)
        if nth > len(found):
            sys.exit(f"profile_svg.py: {name}: the file has {len(found)} of this name, not {nth}")
        begin, end, place = found[nth - 1]
        queued = {flow["f"] for flow in self.flows.values() if len(flow) == 2 and flow["s"][0] == place and begin <= flow["s"][1] <= end}
        works = [b["ts"] + b["dur"] for stream in {place for place, _ in queued} for b in self.tracks[stream].bars
                 if (stream, b["ts"]) in queued]
        return begin, max([end, *works])


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        events = content["traceEvents"] if isinstance(content, dict) else content
        trace = Trace(events)
    except OSError as error:
        sys.exit(f"profile_svg.py: {path}: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sys.exit(f"profile_svg.py: {path} is not a file in the Trace Event Format")
    if not trace.tracks:
        sys.exit(f"profile_svg.py: {path} has no calls")
    return trace


def tick_of(span):
    """The distance of marks on the axis: 1, 2 or 5 times a power of ten, some ten of them."""
    step = 1e-3
    while span / step > 12:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    return step


def duration(us):
    return f"{us:.2f} us" if us < 1000 else f"{us / 1000:.3f} ms"


class Picture:
    def __init__(self, trace, begin, end, width):
        self.trace, self.begin, self.end, self.width = trace, begin, end, width
        self.parts, self.missing, self.tops = [], 0, {}
        self.y = TOP

    def x(self, time):
        return LEFT + (time - self.begin) / (self.end - self.begin) * (self.width - 2 * LEFT)

    def add(self, text):
        self.parts.append(text)

    def axis(self, bottom):
        step, time = tick_of(self.end - self.begin), 0.0
        while time <= self.end - self.begin:
            x = self.x(self.begin + time)
            label = f"{time / 1000:g} ms" if step >= 100 else f"{time:g} us"
            self.add(f'<path class="t" d="M{x:.1f} {TOP - 8}V{bottom}"/><text x="{x + 2:.1f}" y="{TOP - 12}">{label}</text>')
            time += step

    def bar(self, bar, top):
        x, width = self.x(bar["ts"]), self.x(bar["ts"] + bar["dur"]) - self.x(bar["ts"])
        if width < LEAST:
            self.missing += 1
            return
        y = top + bar["lane"] * LANE
        colour = COLOURS.get(bar["kind"], COLOURS["operator"])
        tip = escape(f"{bar['name']} {bar['shapes']}".strip() + f", {duration(bar['took'])}")
        self.add(f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.4):.2f}" height="{BAR}" fill="{colour}"><title>{tip}</title></rect>')
        name = bar["name"].removeprefix("aten::")
        if len(name) * CHARACTER + 4 < width:
            self.add(f'<text x="{x + 3:.2f}" y="{y + 12}">{escape(name)}</text>')

    def row(self, track):
        self.add(f'<text class="l" x="{LEFT}" y="{self.y + 13}">{escape(self.trace.label(track))}</text>')
        self.tops[(track.process, track.number)] = top = self.y + LABEL
        for bar in track.bars:
            self.bar(bar, top)
        self.y = top + track.lanes * LANE + 10

    def arrow(self, flow):
        (host, queued), (stream, start) = flow["s"], flow["f"]
        x0, y0 = self.x(queued), self.tops[host] + self.trace.tracks[host].lane_at(queued) * LANE + BAR
        x1, y1 = self.x(start), self.tops[stream]
        self.add(f'<path class="a" d="M{x0:.2f} {y0}C{x0:.2f} {(y0 + y1) / 2:.0f} {x1:.2f} {(y0 + y1) / 2:.0f} {x1:.2f} {y1}"/>')

    def draw(self):
        for track in self.trace.tracks.values():
            self.row(track)
        rows, self.parts = self.parts, []
        x = LEFT
        for kind, colour in COLOURS.items():
            self.add(f'<rect x="{x}" y="6" width="10" height="10" fill="{colour}"/><text x="{x + 14}" y="15">{kind}</text>')
            x += 90
        self.axis(self.y)
        self.parts += rows
        for _, flow in sorted(self.trace.flows.items()):
            self.arrow(flow)
        if self.missing:
            self.add(f'<text x="{x}" y="15">{self.missing} bars are too short to be drawn</text>')
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.y}" width="{self.width}" height="{self.y}" '
                'font-family="sans-serif" font-size="10">\n<style>.l{font-weight:bold;font-size:11px}.t{stroke:#e4e6ea;fill:none}'
                '.a{stroke:#7a4a00;stroke-opacity:.15;fill:none;stroke-width:.6}</style>\n'
                f'<rect width="{self.width}" height="{self.y}" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--range")
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--from", type=float, dest="begin")
    parser.add_argument("--to", type=float, dest="end")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("file")
    o = parser.parse_args()
    if o.width < 100 or o.nth < 1:
        parser.error("--width is at least 100, --nth at least 1")
    trace = read(o.file)
    bars = [b for track in trace.tracks.values() for b in track.bars]
    begin, end = min(b["ts"] for b in bars), max(b["ts"] + b["dur"] for b in bars)
    if o.range:
        begin, end = trace.span_of(o.range, o.nth)
    begin = begin if o.begin is None else o.begin * 1000
    end = end if o.end is None else o.end * 1000
    trace.cut(begin, end)
    if begin >= end or not trace.tracks:
        sys.exit(f"profile_svg.py: {o.file} has no calls from {begin / 1000:g} to {end / 1000:g} ms")
    print(Picture(trace, begin, end, o.width).draw())


if __name__ == "__main__":
    main()
