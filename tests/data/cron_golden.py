#!/usr/bin/env python3
"""Writes cron_golden.txt: what is due next, according to references that share no code with src/.

walk      the rules of crontab(5) applied to every second or minute in turn, over Python's zoneinfo
croniter  PyPI's croniter 7.0.0 with Vixie's rule for the two day fields
systemd   systemd-analyze calendar, where one calendar event says the same

The times are walk's; behind them stands who agrees, and `!name` for who does not. The head of the table
settles the disagreements, the rest of cron_golden.cases says which rows there are: changes of offset (ZONE DAY,
seven rows each), then single rows. Usage, with croniter and systemd installed: cron_golden.py > cron_golden.txt
"""
import datetime as dt
import functools
import io
import re
import struct
import subprocess
import zoneinfo

import croniter

UTC, DAY = dt.timezone.utc, 86400
NAMES = {n: i % 12 + 1 for i, n in enumerate("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split())}
NAMES |= {n: i for i, n in enumerate("SUN MON TUE WED THU FRI SAT".split())}
BOUNDS = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


def is_posix(name):
    return re.search(r"[<,]|^[A-Z]+-?\d", name)


@functools.cache
def zone(name):
    """A zoneinfo; a POSIX string becomes the footer of a zone file without changes."""
    if not is_posix(name):
        return zoneinfo.ZoneInfo(name)
    head = lambda: b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, 0, 1, 4)
    data = struct.pack(">iBB", 0, 0, 0) + b"AAA\0"
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(head() + data + head() + data + f"\n{name}\n".encode()))


def fields(expression):
    """Six (set, begins with a star)."""
    words = expression.upper().split()
    words = words if len(words) == 6 else ["0", *words]
    value = lambda text: NAMES[text] if text in NAMES else int(text)
    result = []
    for word, (low, high) in zip(words, BOUNDS):
        found = set()
        for item in word.split(","):
            span, _, step = item.partition("/")
            a, _, b = span.partition("-")
            a, b = (low, high) if span == "*" else (value(a), value(b or a))
            found |= set(range(a, b + 1, int(step or 1)))
        result.append((found, word.startswith("*")))
    weekdays, star = result[5]
    result[5] = ({day % 7 for day in weekdays}, star)
    return result


def day_matches(f, days):
    date = dt.date(1970, 1, 1) + dt.timedelta(days=days)
    day, week = date.day in f[3][0], date.isoweekday() % 7 in f[5][0]
    return date.month in f[4][0] and (day and week if f[3][1] or f[5][1] else day or week)


def matches(f, local):
    second = local % DAY
    time = second % 60 in f[0][0] and second // 60 % 60 in f[1][0] and second // 3600 in f[2][0]
    return time and day_matches(f, local // DAY)


def walk(expression, name, after, count=5):
    """Every instant from before `after` on, with the local time that the clock has reached so far."""
    f, tz = fields(expression), zone(name)
    fixed = not f[2][1]
    offset = lambda at: int(dt.datetime.fromtimestamp(at, tz).utcoffset().total_seconds())
    step = 1 if f[0][0] != {0} or any(offset(at) % 60 for at in (after, after + 3 * DAY)) else 60
    fires, block = [], after // DAY * DAY - 2 * DAY
    reached, known = None, False
    while len(fires) < count:
        span = range(block // DAY - 2, block // DAY + 4)
        if block < after // DAY * DAY - DAY:
            known = True  # to know what was reached
        elif not any(day_matches(f, day) for day in span):
            block, known, reached = block + DAY, False, None
            continue
        elif not known:
            block, known = block - DAY, True
        changes = offset(block) != offset(block + DAY) or offset(block) != offset(block + DAY // 2)
        at = block
        while at < block + DAY:
            local = at + (offset(at) if changes else offset(block))
            if step == 1 and not changes and local % 60 == 0 and local // 60 % 60 not in f[1][0]:
                at, reached = at + 60, max(reached or local, local + 59)
                continue
            due = matches(f, local)
            if fixed and reached is not None:
                skipped = range(reached + step, local, step)
                due = due and local > reached or any(matches(f, gone) for gone in skipped)
            reached = local if reached is None else max(reached, local)
            if due and at > after and at not in fires and (not fires or at > fires[-1]):
                fires.append(at)
            at += step
        block += DAY
    return fires[:count]


def by_croniter(expression, name, after):
    start = dt.datetime.fromtimestamp(after, UTC).astimezone(zone(name))
    again = croniter.croniter(expression, start, implement_cron_bug=True, second_at_beginning=True, max_years_between_matches=60)
    return [int(again.get_next(dt.datetime).timestamp()) for _ in range(5)]


def by_systemd(expression, name, after):
    f = fields(expression)
    if not (f[3][1] or f[5][1]) or is_posix(name):
        return None  # systemd wants both days to match, and knows no POSIX strings
    part = lambda at: "*" if f[at][0] == set(range(BOUNDS[at][0], BOUNDS[at][1] + 1)) else ",".join(map(str, sorted(f[at][0])))
    week = "" if len(f[5][0]) == 7 else ",".join("Sun Mon Tue Wed Thu Fri Sat".split()[day] for day in sorted(f[5][0])) + " "
    event = f"{week}*-{part(4)}-{part(3)} {part(2)}:{part(1)}:{part(0)} {name}"
    base = dt.datetime.fromtimestamp(after, UTC).strftime("%F %T UTC")
    line = ["systemd-analyze", "calendar", "--iterations=5", f"--base-time={base}", event]
    text = subprocess.run(line, capture_output=True, text=True, env={"TZ": "UTC", "PATH": "/usr/bin:/bin"}).stdout
    found = re.findall(r"(?:Next elapse|Iter[^:]*): \w+ (\S+ \S+) UTC", text)
    return [int(dt.datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()) for at in found]


def shown(at, name):
    return dt.datetime.fromtimestamp(at, zone(name)).isoformat()


def row(expression, name, after):
    due = walk(expression, name, after)
    who = ["walk"]
    for other, reference in (("croniter", by_croniter), ("systemd", by_systemd)):
        try:
            theirs = reference(expression, name, after)
        except Exception as error:
            theirs = [type(error).__name__]
        if theirs is not None:
            who.append(other if theirs == due else "!" + other)
    begin = dt.datetime.fromtimestamp(after, UTC).strftime("%FT%TZ")
    return " | ".join([expression, name, begin, " ".join(shown(at, name) for at in due), " ".join(who)])


def around(name, day):
    """Rows around the change of offset on this UTC day or the next."""
    tz, at = zone(name), int(dt.datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
    offset = lambda at: int(dt.datetime.fromtimestamp(at, tz).utcoffset().total_seconds())
    while offset(at) == offset(at - 1):
        at += 1
    low, high = sorted((at + offset(at - 1), at + offset(at)))
    time = lambda local: f"{local // 60 % 60} {local // 3600 % 24}"
    middle, hour = (low + high) // 2, low // 3600 % 24
    wide = f"{middle // 60 % 60},{(middle // 60 + 17) % 60} {max(hour - 1, 0)}-{min(hour + 2, 23)} * * *"
    for expression, before in [
        (f"{time(middle)} * * *", 26 * 3600),
        (f"{time(low)} * * *", 26 * 3600),
        (f"{time(high)} * * *", 2 * 3600),
        (wide, 3 * 3600),
        ("7 * * * *", 2 * 3600),
        (f"*/20 {hour} * * *", 26 * 3600),
        (f"30 {time(middle)} * * {(middle // DAY + 4) % 7}", 50 * 3600),
    ]:
        print(row(expression, name, at - before))


def main():
    head, changes, plain = open(__file__.replace(".py", ".cases")).read().split("\n---\n")
    print(head)
    for line in changes.splitlines():
        around(*line.split())
    for line in plain.splitlines():
        expression, name, after = line.split(" | ")
        print(row(expression, name, int(dt.datetime.fromisoformat(after.replace("Z", "+00:00")).timestamp())))


if __name__ == "__main__":
    main()
