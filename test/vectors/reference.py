#!/usr/bin/env python3
"""The reference for the vectors: decides with exact fractions, remembers everything, and shares no code with Sluice.

reference.py FOLDER               writes the vector files of all algorithms into FOLDER
reference.py --random FIRST COUNT  writes so many random vectors, with numbers from FIRST on, to standard output
"""
import json, os, sys
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZES = {"B": 1, "KB": 1000, "KiB": 1024, "MB": 1_000_000}


def duration(text):
    digits = text.rstrip("msdh")
    return Fraction(digits) * UNITS[text[len(digits):]]


def size(value):
    if not isinstance(value, str):
        return value
    digits = value.rstrip("BKMi")
    return int(digits) * SIZES[value[len(digits):]]


def rounded(value, parts):
    """To the nearest multiple of 1 / parts."""
    return Fraction((value * parts * 2 + 1).__floor__() // 2, parts)


# Each limit has fits(t, cost) and charge(t, cost). First those on the clock.

class Fixed:
    def __init__(self, limit, window, burst):
        self.limit, self.window, self.start, self.used = limit, window, None, 0

    def current(self, t):
        return 0 if self.start is None or t - self.start >= self.window else self.used

    def fits(self, t, cost):
        return self.current(t) + cost <= self.limit

    def charge(self, t, cost):
        self.used = self.current(t) + cost
        if self.start is None or t - self.start >= self.window:
            self.start = t


class Periods:
    """Aligned windows and quotas: a bucket counts in its newest period, also if the clock goes back."""

    def __init__(self, limit, period_of):
        self.limit, self.period_of, self.newest, self.used = limit, period_of, None, 0

    def current(self, t):
        return self.used if self.newest is not None and self.period_of(t) <= self.newest else 0

    def fits(self, t, cost):
        return self.current(t) + cost <= self.limit

    def charge(self, t, cost):
        self.used = self.current(t) + cost
        period = self.period_of(t)
        self.newest = period if self.newest is None else max(self.newest, period)


class Sliding:
    def __init__(self, limit, window, burst):
        self.limit, self.window, self.passed = limit, window, []

    def fits(self, t, cost):
        return cost + sum(c for s, c in self.passed if t - s < self.window) <= self.limit

    def charge(self, t, cost):
        newest = self.passed[-1][0] if self.passed else t
        self.passed.append((max(t, newest), cost))


class Gcra:
    def __init__(self, limit, window, burst):
        self.T, self.tat = Fraction(window) / limit, None
        self.tolerance = (limit - 1 if burst is None else burst) * self.T

    def fits(self, t, cost):
        return self.tat is None or rounded(t, 1_000_000) >= self.tat - self.tolerance

    def charge(self, t, cost):
        t = rounded(t, 1_000_000)
        self.tat = (t if self.tat is None else max(t, self.tat)) + cost * self.T


# Event time: for events in any order, as long as none is late. sliding and gcra do not have it.

class EventFixed:
    """Windows are [start, the latest event in it, what passed]."""

    def __init__(self, limit, window, burst):
        self.limit, self.window, self.windows = limit, window, []

    def place(self, t):
        before = [w for w in self.windows if w[0] <= t]
        if before and t - max(before)[0] < self.window:
            return max(before)
        after = [w for w in self.windows if w[0] > t]
        return min(after) if after and min(after)[1] - t < self.window else None

    def fits(self, t, cost):
        window = self.place(t)
        return (window[2] if window else 0) + cost <= self.limit

    def charge(self, t, cost):
        window = self.place(t)
        if window is None:
            self.windows.append([t, t, cost])
        else:
            window[:] = [min(window[0], t), max(window[1], t), window[2] + cost]


class EventPeriods:
    def __init__(self, limit, period_of):
        self.limit, self.period_of, self.used = limit, period_of, {}

    def fits(self, t, cost):
        return self.used.get(self.period_of(t), 0) + cost <= self.limit

    def charge(self, t, cost):
        self.used[self.period_of(t)] = self.used.get(self.period_of(t), 0) + cost


CLOCK = {"fixed": Fixed, "sliding": Sliding, "gcra": Gcra}
EVENT = {"fixed": EventFixed}


def calendar(per, zone):
    """The function from a time to its period. Periods of later times compare as larger."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)

    def period_of(t):
        local = (epoch + timedelta(milliseconds=t.__floor__())).astimezone(zone)
        if per == "hour":
            # An hour that clocks repeat is two: the second one is farther behind UTC.
            return (local.year, local.month, local.day, local.hour, -local.utcoffset().total_seconds())
        if per == "week":
            return local.date() - timedelta(days=local.weekday())
        return (local.year, local.month) if per == "month" else local.date()

    return period_of


def limits_of(config):
    """Pairs of a limit and whether it counts bytes."""
    in_event_time = "time_field" in config
    limits = []
    for one in [config, *config.get("also", [])]:
        mode = one.get("window_mode", config.get("window_mode", "fixed"))
        both = "limit" in one and "limit_bytes" in one
        for name in ("limit", "limit_bytes"):
            if name not in one:
                continue
            most, window = size(one[name]), duration(one["window"])
            burst = None if both and name == "limit_bytes" else size(one.get("burst"))
            if mode == "aligned":
                kind = EventPeriods if in_event_time else Periods
                limit = kind(most, lambda t, window=window: (t / window).__floor__())
            else:
                limit = (EVENT if in_event_time else CLOCK)[mode](most, window, burst)
            limits.append((limit, name == "limit_bytes"))
    quota = config.get("quota", {})
    for name in ("limit", "limit_bytes"):
        if name in quota:
            kind = EventPeriods if in_event_time else Periods
            period_of = calendar(quota["per"], ZoneInfo(quota.get("time_zone", "UTC")))
            limits.append((kind(size(quota[name]), period_of), name == "limit_bytes"))
    return limits


def line_of(event):
    """The line of an event: JSON without spaces, the time last."""
    return json.dumps({**event["event"], "t": event["t"]}, separators=(",", ":"), ensure_ascii=False)


def cost_of(event, field):
    value = event["event"].get(field[1:])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        return Fraction(1)
    return rounded(Fraction(str(value)), 1_000_000)


def decide(config, events):
    buckets = {}
    for event in events:
        key = event["event"].get(config["key_field"][1:]) if "key_field" in config else None
        limits = buckets.setdefault(key, limits_of(config))
        t = Fraction(str(event["t"]))
        costs = (cost_of(event, config["cost"]) if "cost" in config else 1, len(line_of(event).encode()) + 1)
        passes = all(limit.fits(t, costs[in_bytes]) for limit, in_bytes in limits)
        if passes:
            for limit, in_bytes in limits:
                limit.charge(t, costs[in_bytes])
        event["decision"] = "pass" if passes else "discard"


# The vectors.

class Random:
    """Numbers that are the same with every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % count

    def of(self, values):
        return values[self.below(len(values))]


TODAY = 1_790_000_000_000
MODES = ("fixed", "aligned", "sliding", "gcra")


def at(*times, **fields):
    return [{"t": t, "event": dict(fields)} for t in times]


def costs(field, *pairs):
    return [{"t": t, "event": {} if value is None else {field: value}} for t, value in pairs]


def random_events(random, count, window, config):
    """Times that hit the edges of windows; in event time also backwards. A clock that goes back is another matter: idle
    buckets are forgotten, and sliding windows forget what has left them."""
    t = random.of([0, TODAY])
    stays = "key_field" in config or "time_field" in config or "sliding" in json.dumps(config)
    goes_back = not stays and random.below(3) == 0
    newest = t
    for _ in range(count):
        t = newest if "time_field" in config else t
        t += random.of([0, 0, 1, 2, window // 7, window // 3, window - 1, window, window + 1, 3 * window])
        newest = max(newest, t)
        if "time_field" in config:
            t = max(0, newest - random.of([0, 0, 0, 1, window // 2, window, 2 * window]))
        elif goes_back and random.below(8) == 0:
            t = max(0, t - random.of([1, window // 2, window]))
        event = {}
        if "key_field" in config:
            event["k"] = random.of(["a", "b"])
        if "cost" in config and random.below(8) > 0:
            event["c"] = random.of([0, 1, 1, 2, 3, 0.5, 0.1, 1.25, 0.333333, 7, -1, "2", True])
        if random.below(2) == 0:
            event["p"] = "é" * random.below(20)
        yield {"t": t, "event": event}


def random_config(random, mode):
    config = {}
    unit = random.below(4)
    if unit != 1:
        config["limit"] = random.of([1, 2, 3, 5, 7])
    if unit in (1, 2):
        config["limit_bytes"] = random.of([40, 100, "1KiB"])
    config["window"] = random.of(["100ms", "700ms", "1s", "1m"])
    config["window_mode"] = mode
    if mode == "gcra" and random.below(2) == 0:
        config["burst"] = random.of([0, 1, 2]) if unit != 1 else random.of([0, 30, "1KiB"])
    if random.below(2) == 0:
        config["key_field"] = ".k"
    if unit != 1 and random.below(3) == 0:
        config["cost"] = ".c"
    if random.below(2) == 0 and mode in ("fixed", "aligned"):
        config["time_field"] = ".t"
        config["allowed_lateness"] = "1h"
    return config


def random_vector(mode, n, more=None):
    random = Random(n * 1000 + sum(mode.encode()))
    config = random_config(random, mode)
    if more:
        more(random, config)
    where = "event time" if "time_field" in config else "clock"
    events = list(random_events(random, 40, int(duration(config["window"])), config))
    return {"name": f"{mode}: random {n}, {where}", "config": config, "events": events}


def random_vectors(mode, count, more=None):
    return [random_vector(mode, n, more) for n in range(count)]


def add_further(random, config):
    window = duration(config["window"])
    config["also"] = [{"limit": random.of([3, 6]), "window": f"{int(window * random.of([3, 10]))}ms"}]
    if random.below(2) == 0:
        config["also"].append({"limit_bytes": 300, "window": f"{int(window * 5)}ms", "window_mode": "aligned" if "time_field" in config else random.of(["sliding", "aligned"])})
    if random.below(2) == 0:
        config["quota"] = {"limit": random.of([10, 20]), "per": random.of(["hour", "day"]), "time_zone": random.of(["UTC", "America/New_York"])}


def iso(*texts):
    return [int(datetime.fromisoformat(text + "+00:00").timestamp()) * 1000 for text in texts]


def quota(name, per, zone, *texts, **more):
    config = {"quota": {"limit": 1, "per": per, "time_zone": zone}, **more}
    return {"name": f"quota: {name}", "config": config, "events": at(*iso(*texts))}


def vectors():
    """The files by name."""
    second = {"window": "1s"}
    yield "fixed", [
        {"name": "fixed: what is discarded costs nothing and opens no window", "config": {**second, "limit": 2, "cost": ".c"},
         "events": costs("c", (0, 3), (900, 2), (1000, 1), (1899, 1), (1900, 2))},
        {"name": "fixed: a smaller event passes after a larger one was discarded", "config": {**second, "limit": 10, "cost": ".c"},
         "events": costs("c", (0, 6), (0, 5), (0, 4), (0, 0.5), (0, 0))},
        {"name": "fixed: an event without a cost costs 1", "config": {**second, "limit": 5, "cost": ".c"},
         "events": costs("c", (0, None), (0, -2), (0, "7"), (0, True), (0, []), (0, None))},
        {"name": "fixed: fractions add up exactly", "config": {**second, "limit": 1, "cost": ".c"},
         "events": costs("c", *[(0, 0.1)] * 10, (0, 0.000001))},
        {"name": "fixed: a cost is rounded to a millionth", "config": {**second, "limit": 2, "cost": ".c"},
         "events": costs("c", (0, 1.005), (0, 0.9949999), (0, 0.000001), (0, 0.0000001))},
        {"name": "fixed: an event from before the window of its key counts in it, and does not move it",
         "config": {**second, "limit": 2, "key_field": ".k"},
         "events": [*at(5000, k="a"), *at(5900, k="b"), *at(4200, k="a"), *at(5300, k="b"), *at(5199, 5999, 6000, k="a"), *at(6899, 6900, k="b")]},
        {"name": "fixed: in event time an event from before the window moves it, so that it counts in it",
         "config": {**second, "limit": 2, "time_field": ".t"}, "events": at(1000, 500, 1499, 1500, 1999, 2000)},
        {"name": "fixed: in event time an event too far before the window opens its own",
         "config": {**second, "limit": 2, "time_field": ".t"}, "events": at(1000, 1999, 999, 500, 998, 1000, 1998, 2000)},
        {"name": "fixed: in event time an event that is discarded moves no window",
         "config": {**second, "limit": 1, "time_field": ".t"}, "events": at(1000, 500, 1, 0, 1999, 2000)},
        {"name": "fixed: bytes, with line ends", "config": {**second, "limit_bytes": 16}, "events": at(0, 0, 0, 1000)},
        *random_vectors("fixed", 6),
    ]
    yield "aligned", [
        {"name": "aligned: costs begin again at the multiple", "config": {**second, "limit": 3, "cost": ".c", "window_mode": "aligned"},
         "events": costs("c", (999, 2), (999, 2), (1000, 2), (1500, 1), (1999, 0.5), (2000, 3))},
        *random_vectors("aligned", 6),
    ]
    yield "sliding", [
        {"name": "sliding: a cost leaves the window as a whole", "config": {**second, "limit": 3, "cost": ".c", "window_mode": "sliding"},
         "events": costs("c", (0, 2), (500, 1), (999, 1), (1000, 2), (1499, 1), (1500, 1))},
        *random_vectors("sliding", 6),
    ]
    gcra = {**second, "window_mode": "gcra"}
    yield "gcra", [
        {"name": "gcra: burst + 1 at once, then one every T", "config": {**gcra, "limit": 10, "burst": 2},
         "events": at(0, 0, 0, 0, 99, 100, 199, 200, 200, 1000, 1000, 1000, 1000)},
        {"name": "gcra: the burst is limit - 1 by default", "config": {**gcra, "limit": 2}, "events": at(0, 0, 0, 499, 500, 999, 1000)},
        {"name": "gcra: no burst", "config": {**gcra, "limit": 10, "burst": 0}, "events": at(0, 99, 100, 150, 200)},
        *[{"name": f"gcra: T is a third of a second, from {start}", "config": {**gcra, "limit": 3, "burst": 1},
           "events": at(*[start + t for t in (0, 0, 333, 334, 666, 667, 999, 1000, 1333, 1334)])} for start in (0, TODAY)],
        {"name": "gcra: T is no whole number of nanoseconds, for a long time", "config": {"limit": 7, "window": "1s", "window_mode": "gcra", "burst": 6},
         "events": at(*[TODAY + 1000 * (n // 7) for n in range(70)], TODAY + 9999, TODAY + 10_000)},
        {"name": "gcra: a cost delays what comes after it", "config": {**gcra, "limit": 10, "burst": 0, "cost": ".c"},
         "events": costs("c", (0, 5), (0, 1), (499, 1), (500, 0.5), (549, 1), (550, 1), (700, 1000), (100_649, 1), (100_650, 1))},
        {"name": "gcra: a cost that takes years", "config": {"limit": 7, "window": "1h", "window_mode": "gcra", "burst": 0, "cost": ".c"},
         "events": costs("c", (0, 1000003.5), (514_287_514_285, 1), (514_287_514_286, 1))},
        {"name": "gcra: a nanosecond", "config": {**gcra, "limit": 4, "burst": 0}, "events": at(0, 249.999999, 250, 499.999999, 500.000001, 750, 750.000001)},
        {"name": "gcra: fractions of a millisecond", "config": {**gcra, "limit": 4, "burst": 0}, "events": at(0.25, 250, 250.25, 500.125, 500.25, 750.5)},
        *random_vectors("gcra", 8),
    ]
    summer = ("2026-03-28T22:59:59", "2026-03-28T23:00:00", "2026-03-29T21:59:59", "2026-03-29T22:00:00", "2026-03-30T22:00:00")
    winter = ("2026-10-24T22:00:00", "2026-10-25T22:00:00", "2026-10-25T22:59:59", "2026-10-25T23:00:00", "2026-10-26T23:00:00")
    yield "quota", [
        quota("a day of 23 hours", "day", "Europe/Berlin", *summer),
        quota("a day of 25 hours", "day", "Europe/Berlin", *winter),
        quota("a day of 23 hours in event time", "day", "Europe/Berlin", *summer, time_field=".t"),
        quota("a day whose midnight clocks skip", "day", "America/Santiago", "2026-09-05T04:00:00", "2026-09-06T03:59:59", "2026-09-06T04:00:00", "2026-09-07T02:59:59", "2026-09-07T03:00:00"),
        quota("the hours around one that clocks repeat", "hour", "Europe/Berlin", "2026-10-24T23:59:59", "2026-10-25T00:00:00", "2026-10-25T00:59:59", "2026-10-25T01:00:00", "2026-10-25T01:59:59", "2026-10-25T02:00:00"),
        quota("the hour of a zone that is 45 minutes off", "hour", "Asia/Kathmandu", "2026-05-05T00:14:59", "2026-05-05T00:15:00", "2026-05-05T01:14:59", "2026-05-05T01:15:00"),
        quota("weeks begin on Monday", "week", "America/New_York", "2026-11-01T12:00:00", "2026-11-02T04:59:59", "2026-11-02T05:00:00", "2026-11-09T04:59:59", "2026-11-09T05:00:00"),
        quota("months have their own lengths", "month", "UTC", "2028-02-01T00:00:00", "2028-02-29T23:59:59", "2028-03-01T00:00:00", "2028-03-31T23:59:59", "2028-04-01T00:00:00"),
        quota("the clock goes back into the day before", "day", "UTC", "2026-06-02T00:00:00", "2026-06-01T23:59:59", "2026-06-01T00:00:00", "2026-06-03T00:00:00"),
        quota("an earlier event has its own day in event time", "day", "UTC", "2026-06-02T00:00:00", "2026-06-01T23:59:59", "2026-06-01T23:59:00", "2026-06-02T00:00:01", time_field=".t"),
        {"name": "quota: bytes of each key", "config": {"key_field": ".k", "quota": {"limit_bytes": 60, "per": "day"}},
         "events": [*at(0, 1, 2, 3, k="a"), *at(4, 5, k="b"), *at(86_399_999, 86_400_000, k="a")]},
    ]
    yield "several", [
        {"name": "several: what one limit refuses costs none of the others", "config": {**second, "limit": 2, "also": [{"limit": 3, "window": "10s"}]},
         "events": at(0, 1, 2, 1000, 1001, 10_000, 10_000, 10_001, 11_000)},
        {"name": "several: events and bytes", "config": {**second, "limit": 3, "limit_bytes": 30}, "events": [*at(0), *at(0, p="x" * 20), *at(0, 0, 0)]},
        {"name": "several: a cost counts in each limit", "config": {**second, "limit": 5, "cost": ".c", "also": [{"limit": 7, "window": "1m"}], "quota": {"limit": 9, "per": "hour"}},
         "events": costs("c", (0, 5), (1000, 3), (1000, 2), (60_000, 3), (60_000, 2), (61_000, 1))},
        *[vector for mode in MODES for vector in random_vectors(mode, 3, add_further)],
    ]


def text_of(vector_list):
    """As JSON, one event a line."""
    def compact(value):
        return json.dumps(value, ensure_ascii=False)
    texts = []
    for vector in vector_list:
        events = ",\n".join("   " + compact(event) for event in vector["events"])
        texts.append(f' {{\n  "name": {compact(vector["name"])},\n  "config": {compact(vector["config"])},\n  "events": [\n{events}\n  ]\n }}')
    return "[\n" + ",\n".join(texts) + "\n]\n"


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--random":
        first, count = int(sys.argv[2]), int(sys.argv[3])
        for n in range(first, first + count):
            vector = random_vector(MODES[n % 4], n, add_further if n // 4 % 2 else None)
            decide(vector["config"], vector["events"])
            print(json.dumps(vector, ensure_ascii=False))
    elif len(sys.argv) == 2:
        for name, made in vectors():
            for vector in made:
                decide(vector["config"], vector["events"])
            with open(os.path.join(sys.argv[1], f"{name}.json"), "w", encoding="utf-8") as file:
                file.write(text_of(made))
    else:
        sys.exit(__doc__)


main()
