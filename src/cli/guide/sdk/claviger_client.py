"""
Takes a place for this machine, and keeps it by heartbeats. Needs Python 3.9, and no package.
`claviger guide sdk` has the rules. `decide` contains them, and the test vectors are for `decide`.

As a module: call `client.activate()`, start `client.run` in a thread, and ask `client.may_work()` at every use.
As a command: claviger_client.py activate | run | status | release
Environment: LICENSE_URL, LICENSE_KEY, LICENSE_STATE (a file), and perhaps LICENSE_FINGERPRINT and LICENSE_NAME.
"""
from __future__ import annotations

import calendar, contextlib, dataclasses, email.utils, hashlib, http.client, json, os, random, re
import secrets, sys, threading, time, urllib.error, urllib.request
from typing import NamedTuple

OFFLINE_SECONDS = 7 * 86_400  # the longest time for which a place may be used without an answer
CHECK_SECONDS = 3_600  # the longest time between two heartbeats
FULL_SECONDS = 30  # the wait for a place if the answer names none
CLOCK_TOLERANCE = 300
TIMEOUT_SECONDS = 10  # the service answers within 5
NAP_SECONDS = 15  # a sleeping computer stops timers, so the loop looks at the clock this often
MAX_ANSWER_BYTES = 65_536

@dataclasses.dataclass(frozen=True)
class State:
    """What outlives a restart. Times are Unix seconds of the local clock."""

    owner: str = ""  # a hash of address, key and fingerprint: the state is worth nothing to others
    fingerprint: str = ""
    machine_id: str | None = None
    until: int = 0  # until when the program may work without another answer; 0 without a place
    seen: int = 0  # the latest time that was seen
    failures: int = 0  # how many requests in a row got no useful answer

class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # the names are in lower case
    body: dict

def may_work(state: State, now: int) -> bool:
    """A clock that was set back does not make a place last longer."""
    return now < state.until and now >= state.seen - CLOCK_TOLERANCE

def first_request(state: State) -> str:
    return "heartbeat" if state.until > 0 else "activate"

def decide(state: State, request: str, answer: Answer | None, sent_at: int, now: int) -> tuple[State, str, int]:
    """Returns the new state, the next request (or "done" or "stop"), and the seconds to wait before it."""
    seen = max(state.seen, now)
    lost = dataclasses.replace(state, machine_id=None, until=0, seen=seen, failures=0)
    status = answer.status if answer is not None and is_genuine(request, answer) else 0
    if request == "release" and status in (200, 404):
        return lost, "done", 0
    if status == 200:
        until = sent_at + seconds_left(answer, sent_at)
        held = dataclasses.replace(lost, machine_id=answer.body["machine_id"], until=until, seen=now)
        # A third of the time, so that two heartbeats may fail. The service takes 10 a minute.
        return held, "heartbeat", max(6, min((until - now) // 3, CHECK_SECONDS))
    if status == 404 and request == "heartbeat":
        return lost, "activate", 0
    if status == 409 and request != "release":
        return lost, "activate", retry_after(answer) or FULL_SECONDS
    if status in (0, 408, 425, 429) or status >= 500:
        failed = dataclasses.replace(state, seen=seen, failures=min(state.failures + 1, 99))
        usual = 60 if status == 429 else min(2 ** state.failures, 60)
        return failed, request, retry_after(answer) or usual
    return lost, "stop", 0

def is_genuine(request: str, answer: Answer) -> bool:
    """Whether the service has answered, and not a proxy, a balancer or the log-in page of a network."""
    if answer.status != 200:
        return answer.status >= 400 and code_of(answer) != ""
    if request == "release":
        return answer.body.get("released") is True
    ends = answer.body.get("expires_at", "")
    return "machine_id" in answer.body and (ends is None or parse(ends) > 0)

def code_of(answer: Answer) -> str:
    code = answer.body.get("code")
    return code if isinstance(code, str) and re.fullmatch("[A-Z_]{1,64}", code) else ""

def describe(request: str, answer: Answer | None, cause: str) -> str:
    if answer is None:
        return f"no answer: {cause}"
    is_ours = is_genuine(request, answer)
    return f"{answer.status} {code_of(answer)}".strip() if is_ours else f"no answer ({answer.status})"

def to_line(text: object) -> str:
    """One line of at most 300 printable characters, for the log."""
    return re.sub("[^ -~]", "", str(text))[:300]

def seconds_left(answer: Answer, sent_at: int) -> int:
    """
    The time for which the program may work: until its place ends, by the clock of the service, and at most
    OFFLINE_SECONDS, because a place of many days can be released before its end.
    """
    ends, date = answer.body["expires_at"], email.utils.parsedate(answer.headers.get("date"))
    if ends is None:
        return OFFLINE_SECONDS
    left = parse(ends) - (calendar.timegm(date) if date else sent_at)
    return max(0, min(left, OFFLINE_SECONDS))

def parse(text: object) -> int:
    try:
        return calendar.timegm(time.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0

def retry_after(answer: Answer | None) -> int:
    """Whole seconds from 1 to an hour; 0 if the answer has none."""
    text = answer.headers.get("retry-after", "") if answer is not None else ""
    return min(max(1, int(text[:9])), 3_600) if text.isascii() and text.isdigit() else 0

def find_fingerprint() -> str:
    """The hashed id of this machine, as systemd asks for it to be used; "" if there is none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            id = file.read(64).strip()
            if len(id) == 32:
                return sha256(f"claviger {id}")
    return ""

def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

def to_fields(text: bytes) -> dict:
    """The fields of a JSON object; none if the text is something else."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}

def pause(seconds: float, stopped: threading.Event) -> None:
    """Waits by the local clock, which goes on while the computer sleeps, and no longer if the clock is set back."""
    seconds += random.random() * seconds / 10  # so that not all clients come back at the same moment
    began, napped = time.time(), 0.0
    while napped < seconds and -CLOCK_TOLERANCE < time.time() - began < seconds and not stopped.is_set():
        nap = min(NAP_SECONDS, seconds - napped)
        stopped.wait(nap)
        napped += nap

class NoRedirect(urllib.request.HTTPRedirectHandler):
    redirect_request = lambda *_: None  # the key is for one address only

def log_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

class Client:
    def __init__(self, url: str, api_key: str, state_file: str, fingerprint: str = "", name: str = "", log=log_line):
        if not re.match("https?://[^/]", url):
            raise ValueError("the address of the service must begin with https:// or http://")
        self.url, self.api_key, self.state_file, self.name, self.log = url, api_key, state_file, name, log
        self.answer: Answer | None = None
        self.cause = ""  # why there was no answer
        saved = self.read()
        # A random fingerprint is stored before it is used: otherwise every start would take a new place.
        fingerprint = fingerprint or find_fingerprint() or saved.fingerprint or secrets.token_hex(32)
        owner = sha256(f"{self.url} {api_key} {fingerprint}")
        self.state = saved if saved.owner == owner else State(owner, fingerprint)
        if self.state is not saved:
            self.write()

    def may_work(self) -> bool:
        return may_work(self.state, int(time.time()))

    def run(self, stopped: threading.Event | None = None) -> None:
        """Keeps the place until the service refuses the key, or until the event. Stop it before `release`."""
        stopped = stopped or threading.Event()
        request = first_request(self.state)
        while request != "stop" and not stopped.is_set():
            request, seconds = self.step(request)
            pause(seconds, stopped)

    def activate(self) -> bool:
        self.try_often("activate")
        return self.may_work()

    def release(self) -> bool:
        return self.try_often("release") == "done"

    def try_often(self, request: str) -> str:
        """Sends a request four times at most. Does not wait for a place."""
        for _ in range(3):
            following, seconds = self.step(request)
            if following != request or self.answer is not None and self.answer.status == 409:
                return following
            pause(seconds, threading.Event())
        return self.step(request)[0]

    def step(self, request: str) -> tuple[str, int]:
        """Sends a request; returns the next one, and the seconds to wait before it."""
        sent_at = int(time.time())
        self.answer = self.send(request)
        now = int(time.time())
        self.state, following, seconds = decide(self.state, request, self.answer, sent_at, now)
        try:
            self.write()
        except OSError as error:
            self.log(f"cannot write {self.state_file}: {error}")
        then = following if following in ("stop", "done") else f"{following} in {seconds} s"
        if following == "stop" and self.answer is not None:
            then = f"stop: {to_line(self.answer.body.get('error', ''))}"
        self.log(f"{request}: {describe(request, self.answer, self.cause)}; {self.describe()}; {then}")
        return following, seconds

    def describe(self) -> str:
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.state.until))
        return f"may work until {until}" if self.may_work() else "may not work"

    def send(self, request: str) -> Answer | None:
        fields = {"api_key": self.api_key, "fingerprint": self.state.fingerprint}
        if request == "activate":
            fields.update({"platform": sys.platform}, **({"name": self.name} if self.name else {}))
        try:
            url = f"{self.url.rstrip('/')}/v1/machines/{request}"
            post = urllib.request.Request(url, json.dumps(fields).encode())
            try:
                response = urllib.request.build_opener(NoRedirect).open(post, timeout=TIMEOUT_SECONDS)
            except urllib.error.HTTPError as error:
                response = error
            with response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, headers, to_fields(response.read(MAX_ANSWER_BYTES)))
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.cause = to_line(getattr(error, "reason", "") or error) or type(error).__name__
            return None

    def read(self) -> State:
        try:
            with open(self.state_file, "rb") as file:
                state = State(**to_fields(file.read(MAX_ANSWER_BYTES)))
        except (OSError, TypeError):
            return State()
        types = [type(value) for value in (state.fingerprint, state.until, state.seen, state.failures)]
        return state if types == [str, int, int, int] else State()

    def write(self) -> None:
        """Writes a new file first, so that a crash leaves the old state or the new one."""
        new = f"{self.state_file}.{os.getpid()}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(dataclasses.asdict(self.state), file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.state_file)

def main(command: str) -> int:
    url, key, file, *more = (
        os.environ.get(f"LICENSE_{name}", "") for name in ("URL", "KEY", "STATE", "FINGERPRINT", "NAME")
    )
    if "" in (url, key, file) or command not in ("activate", "run", "status", "release"):
        print("Usage: claviger_client.py activate | run | status | release\n"
              "Set LICENSE_URL, LICENSE_KEY and LICENSE_STATE", file=sys.stderr)
        return 2
    try:
        client = Client(url, key, file, *more)
    except ValueError as error:
        print(f"Wrong LICENSE_URL: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot write {file}: {error.strerror}", file=sys.stderr)
        return 1
    if command == "run":
        return client.run() or 1
    if command == "status":
        machine_id, fingerprint = client.state.machine_id, client.state.fingerprint
        print(f"{client.describe()}\nmachine {machine_id or 'none'}\nfingerprint {fingerprint}")
        return 0 if client.may_work() else 1
    return 0 if (client.activate() if command == "activate" else client.release()) else 1

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else ""))
    except KeyboardInterrupt:
        sys.exit(130)
