"""
The client of a Claviger service: places on machines, validation, signed licenses, models and usage events.
Needs Python 3.9 and no package; only the check of a signed license needs the package `cryptography`.
`claviger guide sdk` has the rules. Pure functions contain them, and the test vectors are for these functions.

As a module: call `client.activate()`, start `client.run` and `client.run_events` in daemon threads, and ask
`client.may_work()` at every use; `client.why()` says for people why it is false. One process for each state file;
without a network all programs of a machine share one.
As a command: claviger_client.py COMMAND; claviger_client.py --help lists the commands.
Environment: LICENSE_URL, LICENSE_KEY, LICENSE_STATE (a file), and perhaps LICENSE_FINGERPRINT, LICENSE_NAME,
LICENSE_KEYS (the file with the pinned keys) and LICENSE_AUDIENCE (the brand of the service).
"""
from __future__ import annotations

import base64, calendar, contextlib, dataclasses, datetime, email.utils, functools, hashlib, hmac, http.client
import itertools, json, os, random, re, secrets, socket, ssl, sys, threading, time, urllib.error, urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

if sys.platform != "win32":
    import pwd

CLIENT = "python 0.5.0"  # what reports of use say of this program

OFFLINE_SECONDS = 7 * 86_400  # the longest time for which a place may be used without an answer
CHECK_SECONDS = 3_600  # the longest time between two heartbeats, and for which a validation is fresh
FULL_SECONDS = 30  # the wait for a place if the answer names none
CLOCK_TOLERANCE = 300
LICENSE_BEGIN = "-----BEGIN LICENSE-----"
LEFT_SECONDS = 3_600  # a part of a file that was not changed for so long was left by a crash
LOCK_SECONDS = 3_600  # no report takes an hour
FAR_LOCK_SECONDS = 600  # nobody can tell from here whether a process of another container is at work
TIMEOUT_SECONDS = 10  # the service answers within 5
IDLE_SECONDS = 30  # a download that gets no byte for so long has lost its connection
NAP_SECONDS = 15  # a sleeping computer stops timers, so the loops look at the clock this often
MAX_TRIES = 4
USED_UP = "QUOTA_EXCEEDED"

MAX_ANSWER_BYTES = 65_536
MAX_MODELS_BYTES = 4 * 1_048_576
MAX_RESULTS_BYTES = 1_048_576
MAX_RECORD_BYTES = 1_048_576  # a file beside the state holds an answer, perhaps with longer escapes
MAX_LICENSE_BYTES = 65_536

MAX_EVENT_BYTES = 65_536
MAX_BATCH_EVENTS = 1_000
MAX_BATCH_BYTES = 1_000_000  # the service takes 1 MiB
MAX_QUEUE_EVENTS = 100_000
MAX_QUEUE_BYTES = 64 * 1_048_576
EVENT_SECONDS = 7 * 86_400  # the service takes no older events
SEND_SECONDS = 10  # the wait of the loop after it has sent everything: the service takes 10 batches a minute
LOOK_SECONDS = 3  # how often the loop looks for events that wait
BROKEN_SECONDS = 60  # the wait of the loop after four failures in a row
CHUNK_BYTES = 65_536

MAX_JOURNAL_USES = 1_000_000
MAX_JOURNAL_BYTES = 256 * 1_048_576
MAX_REPORT_BYTES = 32 * 1_048_576
MAX_REPORT_EVENTS = 100_000
MAX_REPORT_ROWS = 20_000
MAX_REPORT_JSON_BYTES = 25_000_000  # a report is base64, which is a third longer
MAX_METADATA_BYTES = 16_384
MAX_METADATA_LEVELS = 32

MAX_MANIFEST_BYTES = 1_048_577  # with its newline
MAX_BUNDLE_FILES = 1_000
MAX_BUNDLE_FILE_BYTES = 8**11 - 1  # 11 octal digits in a tar file; also the latest time there
TAR_BLOCK_BYTES = 512
LAST_SECOND = 253_402_300_799  # 9999-12-31: the last time that can be printed

Fields = dict[str, Any]

class Refused(Exception):
    """The service, or the check of a license, says no; or the service did not answer. The text is for people."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code  # of the service, such as OFFLINE_NOT_ALLOWED; "" if it sent none

class NoAnswer(Refused):
    """The service gave no useful answer to four requests."""

    def __init__(self, cause: str, code: str = "") -> None:
        super().__init__(f"the service gave no answer: {cause}", code)
        self.cause = cause

class QueueFull(Exception):
    """Too many events wait."""

class WrongSetting(ValueError):
    """What the program gave to the client has another form."""

    setting = ""  # LICENSE_ and this is the variable of the command

class WrongAddress(WrongSetting):
    """The address of the service has another form."""

    setting = "URL"

class WrongKey(WrongSetting):
    """The API key has another form."""

    setting = "KEY"

class WrongFingerprint(WrongSetting):
    """The fingerprint has another form."""

    setting = "FINGERPRINT"

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
    body: Fields

class Saved(NamedTuple):
    """An answer to a validation that is kept. Times are Unix seconds of the local clock."""

    fetched_at: int
    until: int  # until when it may be used without a network
    body: Fields

class Settled(NamedTuple):
    """What becomes of the events of a batch."""

    kept: list[Fields]
    accepted: int
    refused: list[tuple[int, str, str]]  # index, code and sentence
    next: str  # send, halve, stop or done
    wait_seconds: int
    most: int | None = None  # the most events of the next batch; None changes nothing

class Counts(NamedTuple):
    accepted: int
    refused: int
    waiting: int

# Places on machines

def may_work(state: State, now: int) -> bool:
    """A clock that was set back does not make a place last longer."""
    return is_within(state.until, state.seen, now)

def is_within(until: int, seen: int, now: int) -> bool:
    return now < until and now >= seen - CLOCK_TOLERANCE

def first_request(state: State) -> str:
    return "heartbeat" if state.until > 0 else "activate"

def decide(state: State, request: str, answer: Answer | None, sent_at: int, now: int) -> tuple[State, str, int]:
    """Returns the new state, the next request (or "done" or "stop"), and the seconds to wait before it."""
    seen = max(state.seen, now)
    lost = dataclasses.replace(state, machine_id=None, until=0, seen=seen, failures=0)
    status = genuine_status(request, answer)
    if request == "release" and status in (200, 404):
        return lost, "done", 0
    if status == 200 and answer is not None:
        until = sent_at + seconds_left(answer, sent_at)
        held = dataclasses.replace(lost, machine_id=answer.body["machine_id"], until=until, seen=now)
        # A third of the time, so that two heartbeats may fail. The service takes 10 a minute.
        return held, "heartbeat", max(6, min((until - now) // 3, CHECK_SECONDS))
    if status == 404 and request == "heartbeat":
        return lost, "activate", 0
    if status == 409 and request != "release":
        return lost, "activate", retry_after(answer) or FULL_SECONDS
    if is_failure(status):
        failed = dataclasses.replace(state, seen=seen, failures=min(state.failures + 1, 99))
        return failed, request, wait_after(status, answer, state.failures)
    return lost, "stop", 0

# What is wrong, and what helps

SENTENCES = {
    # What is wrong; what helps where there is a network; what helps a machine in a closed network.
    "no_place": ("this machine has no place", "activate it", "activate it"),
    "license_missing": (
        "there is no license",
        "borrow one while there is a network",
        "tell the vendor the fingerprint that status shows, and open the bundle or license for it with open-bundle",
    ),
    "expired": (
        "the license has expired",
        "go online, or ask the vendor for the next license",
        "give the vendor a report, and open the next bundle or license with open-bundle",
    ),
    "clock_behind": (
        "the clock is behind",
        "correct it, go online, or open a newer license",
        "correct it, or open a newer bundle or license",
    ),
}

def explain(reason: str, *, closed: bool) -> str:
    """What is wrong, and what helps, for people."""
    wrong, online, offline = SENTENCES[reason]
    return f"{wrong}: {offline if closed else online}"

def explain_missing(has_url: bool, has_key: bool) -> str:
    """What a client lacks that must ask the service; "" if nothing is missing."""
    missing = [*([] if has_url else ["address of a service"]), *([] if has_key else ["API key"])]
    if not missing:
        return ""
    names = " and ".join(name for name, has in (("LICENSE_URL", has_url), ("LICENSE_KEY", has_key)) if not has)
    verb, them = ("are", "them") if len(missing) == 2 else ("is", "it")
    return f"no {' and no '.join(missing)} {verb} set: give {them} to the client (for commands {names})"

# Answers of the service

def genuine_status(request: str, answer: Answer | None) -> int:
    """The status of an answer of the service; 0 if there is none."""
    return answer.status if answer is not None and is_genuine(request, answer) else 0

def is_genuine(request: str, answer: Answer) -> bool:
    """Whether the service has answered, and not a proxy, a balancer or the log-in page of a network."""
    body = answer.body
    if answer.status != 200:
        return answer.status >= 400 and code_of(body) != ""
    if request == "release":
        return body.get("released") is True
    if request == "license":
        return isinstance(body.get("license"), str)
    if request == "models":
        return isinstance(body.get("models"), list)
    if request == "events":
        results = body.get("results")
        return is_list_of(dict, results) and all(isinstance(result.get("logged"), bool) for result in results or [])
    ends = body.get("expires_at", "")
    has_end = ends is None or parse(ends) > 0
    if request in ("validate", "refresh"):
        return has_end and body.get("valid") is True and is_list_of(str, body.get("features"))
    machine_id = body.get("machine_id", False)
    return has_end and (machine_id is None or isinstance(machine_id, str))

def to_dict(value: object) -> Fields:
    return value if isinstance(value, dict) else {}

def is_list_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)

def is_failure(status: int) -> bool:
    """Whether the same request can get another answer later. Status 0 is no answer."""
    return status in (0, 408, 425, 429) or status >= 500

def wait_after(status: int, answer: Answer | None, failures: int) -> int:
    """The seconds to wait after a failure, which followed so many others."""
    return retry_after(answer) or (60 if status == 429 else min(2 ** min(failures, 9), 60))

def code_of(body: Fields) -> str:
    code = body.get("code")
    return code if isinstance(code, str) and re.fullmatch("[A-Z_]{1,64}", code) else ""

def describe(request: str, answer: Answer | None, cause: str) -> str:
    if answer is None:
        return f"no answer: {cause}"
    is_ours = is_genuine(request, answer)
    return f"{answer.status} {code_of(answer.body)}".strip() if is_ours else f"no answer ({answer.status})"

def to_why(request: str, answer: Answer | None, cause: str) -> str:
    """Why a request was no success: the sentence of the service, or why it gave no answer."""
    if answer is None:
        return cause
    if not is_genuine(request, answer):
        return f"its answer has status {answer.status} and is not from the service"
    if is_failure(answer.status):
        return describe(request, answer, cause)
    return to_line(answer.body.get("error") or f"status {answer.status}")

REMEDIES = {
    "MACHINE_LIMIT_REACHED": ": close the program on another machine, or ask your administrator",
    **{code: ": ask the vendor for a new key" for code in ("INVALID_KEY", "KEY_EXPIRED")},
}

def to_refusal(request: str, answer: Answer) -> Refused:
    """A refusal of a place, for people."""
    code = code_of(answer.body)
    return Refused(to_why(request, answer, "") + REMEDIES.get(code, ""), code)

def to_line(text: object) -> str:
    """One line of at most 300 printable characters, for the log."""
    return re.sub("[^ -~]", "", str(text))[:300]

def seconds_left(answer: Answer, sent_at: int) -> int:
    """
    The time until `expires_at`, by the clock of the service, and at most OFFLINE_SECONDS: a place of many days can be
    released before its end, and a license can be revoked.
    """
    ends = answer.body["expires_at"]
    if ends is None:
        return OFFLINE_SECONDS
    left = parse(ends) - (date_of(answer) or sent_at)
    return max(0, min(left, OFFLINE_SECONDS))

def date_of(answer: Answer) -> int:
    """The time of the service when it answered; 0 if the answer has none."""
    try:
        date = email.utils.parsedate(answer.headers.get("date", ""))
        return max(0, calendar.timegm(date)) if date else 0
    except (ValueError, OverflowError, LookupError, TypeError):
        return 0

def parse(text: object) -> int:
    """Unix seconds of a time in UTC such as 2026-10-31T23:59:58Z or 2026-10-31T23:59:58.250Z; 0 if it is none."""
    try:
        return calendar.timegm(time.strptime(re.sub(r"\.[0-9]{1,9}Z$", "Z", str(text)[:40]), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0

def render(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

def render_exactly(seconds: float) -> str:
    """With milliseconds."""
    return f"{render(int(seconds))[:-1]}.{int(seconds * 1_000) % 1_000:03}Z"

def to_time(at: datetime.datetime | str | float) -> str:
    """
    A time in UTC with milliseconds, of Unix seconds, of a time with its zone, or of a text such as
    2026-10-31T23:59:58.250+01:00.
    """
    if isinstance(at, (int, float)):
        return render_exactly(at)
    if isinstance(at, datetime.datetime):
        # Python takes a time without a zone for one of the local zone.
        at = "" if at.utcoffset() is None else at.astimezone(datetime.timezone.utc).isoformat()
    form = r"([0-9T:-]{19})(?:[.]([0-9]{1,9}))?(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
    match = re.fullmatch(form, at)
    seconds = parse(f"{match[1]}Z") if match else 0
    if match is None or seconds == 0:
        raise ValueError("occurred_at must be a time with its zone")
    offset = int(match[4] or 0) * 3_600 + int(match[5] or 0) * 60
    seconds += offset if match[3] == "-" else -offset
    return f"{render(seconds)[:-1]}.{match[2] or '':0<3.3}Z"

def retry_after(answer: Answer | None) -> int:
    """Whole seconds from 1 to an hour; 0 if the answer has none."""
    text = answer.headers.get("retry-after", "") if answer is not None else ""
    return min(max(1, int(text[:9])), 3_600) if text.isascii() and text.isdigit() else 0

# Validation

def keep_validation(
    saved: Saved | None, seen: int, answer: Answer | None, sent_at: int, now: int
) -> tuple[Saved | None, int]:
    """Returns what is kept after an answer to `validate`, and the latest time that was seen."""
    status = genuine_status("validate", answer)
    if status == 200 and answer is not None:
        return Saved(sent_at, sent_at + seconds_left(answer, sent_at), answer.body), now
    # 429 is a failure, also QUOTA_EXCEEDED: the license is valid, only the month is used up. `refresh` works still.
    return saved if is_failure(status) else None, max(seen, now)

def may_use(saved: Saved | None, seen: int, now: int) -> bool:
    """Whether a kept answer may be used without a network."""
    return saved is not None and is_within(saved.until, seen, now)

def is_fresh(saved: Saved | None, seen: int, now: int) -> bool:
    """Whether a kept answer may be used without asking again."""
    return saved is not None and may_use(saved, seen, now) and now < saved.fetched_at + CHECK_SECONDS

# Signed licenses

def read_license(path: str) -> str:
    """Returns the signed text of a file. The lines before the empty line are not signed."""
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read(MAX_LICENSE_BYTES).strip()
    if text.startswith(LICENSE_BEGIN):
        text = text.partition("\n\n")[2].partition("-----END")[0]
    return "".join(text.split())

def read_keys(path: str) -> list[Fields]:
    """Returns the keys of a file with a JWK set."""
    try:
        with open(path, "rb") as file:
            return to_keys(to_fields(file.read(MAX_RECORD_BYTES)), path)
    except FileNotFoundError:
        why = "no such file; `claviger licenses public-keys` prints them"
        raise FileNotFoundError(f"cannot read the pinned keys {path}: {why}") from None

def to_keys(keys: Mapping[str, Any], name: str) -> list[Fields]:
    listed = keys.get("keys")
    if not isinstance(listed, list) or not is_list_of(dict, listed):
        raise Refused(f"{name} is not a JWK set")
    return listed

def decode(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != text:
        raise ValueError("not canonical base64url")
    return data

def verify(license: str, pinned: Sequence[Mapping[str, Any]]) -> Fields:
    """Returns the claims of a license that one of the pinned keys has signed."""
    if license.count(".") != 2:
        raise Refused("the file holds no license")
    claims = verify_signed(license, pinned, "license")
    # Without its times a license would have no end.
    times = [claims.get("iat"), claims.get("nbf"), claims.get("exp")]
    if not is_list_of(int, times) or not is_list_of(str, claims.get("features")):
        raise Refused("the license is not genuine")
    return claims

def verify_signed(text: str, pinned: Sequence[Mapping[str, Any]], kind: str) -> Fields:
    """Returns the claims of a signed text: a license, or the manifest of a bundle. Neither passes as the other."""
    InvalidSignature, Ed25519PublicKey = import_cryptography(kind)
    try:
        head, payload, signature = text.split(".")
        header = json.loads(decode(head))
        if header["alg"] not in ("EdDSA", "Ed25519") or header["typ"] != f"{kind}+jwt":
            raise ValueError(f"not a {kind}")
        key = next((key for key in pinned if key["kid"] == header["kid"]), None)
        if key is None:
            raise Refused(f"none of the pinned keys has signed the {kind}: update this program")
        public_key = Ed25519PublicKey.from_public_bytes(decode(key["x"]))
        public_key.verify(decode(signature), f"{head}.{payload}".encode())
        return read_claims(text)
    except (InvalidSignature, LookupError, RecursionError, TypeError, ValueError):
        raise Refused(f"the {kind} is not genuine") from None

def import_cryptography(kind: str) -> Any:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise Refused(f"the check of a {kind} needs the package cryptography: install it") from None
    return InvalidSignature, Ed25519PublicKey

def read_claims(license: str) -> Fields:
    """Returns the claims without a look at the signature."""
    return dict(json.loads(decode(license.split(".")[1])))

def check(
    license: str, pinned: Sequence[Mapping[str, Any]],
    *, audience: str, key_id: str, fingerprint: str | None, now: int, seen: int, closed: bool = False,
) -> Fields:
    """Returns the claims of a license; raises Refused if it must not be used. Call it at every use."""
    claims = verify(license, pinned)
    check_terms(claims, audience=audience, key_id=key_id, fingerprint=fingerprint, now=now, seen=seen, closed=closed)
    return claims

def check_terms(
    claims: Fields, *, audience: str, key_id: str, fingerprint: str | None, now: int, seen: int, closed: bool
) -> None:
    """Raises Refused if a license with these claims must not be used."""
    check_names(claims, audience=audience, key_id=key_id, fingerprint=fingerprint)
    if max(claims["iat"], claims["nbf"], seen) > now + CLOCK_TOLERANCE:
        raise Refused(explain("clock_behind", closed=closed))
    if claims["exp"] <= now:
        raise Refused(explain("expired", closed=closed))

def check_names(claims: Fields, *, audience: str, key_id: str, fingerprint: str | None) -> None:
    """Raises Refused if a license or a manifest with these claims is for others."""
    if claims.get("aud") != audience:
        raise Refused("the license is for another product")
    if claims.get("key_id") != key_id:
        raise Refused("the license is for another key")
    if claims.get("fingerprint") != fingerprint:
        raise Refused("the license is for another machine")

def clock_after(seen: int, highest: int, issued_at: int) -> int:
    """
    Returns the latest time for the check of a genuine license, where `highest` is the latest `iat` of those before. A
    license that was issued later than they corrects a clock that was wrong; one that was seen already never does.
    """
    return issued_at if issued_at > highest else seen

def features_at(claims: Mapping[str, Any], now: int) -> list[str]:
    """Returns the names of the features that a checked license has now. Call it at every use."""
    moment = render(now)  # in the form of the ends, so texts can be compared
    ends = claims.get("feature_ends", {})
    return [*claims["features"], *(name for name, end in ends.items() if moment < end)]

def entitlements_of(claims: Mapping[str, Any]) -> Fields:
    """Returns the values of a license by their names."""
    return dict(claims.get("entitlements") or {})

def highest_of(terms: Fields) -> int:
    """The latest `iat` of all licenses that were accepted; 0 before the first one."""
    issued_at = terms.get("iat")
    return issued_at if type(issued_at) is int else 0

def taken_until(terms: Fields) -> int:
    """The latest end of all licenses that were borrowed for the place; 0 without one."""
    until = terms.get("taken_until")
    return until if type(until) is int else 0

def end_of_place(claims: Fields) -> int:
    """Until when a license keeps a place taken; 0 if it counts no machines."""
    ends = claims.get("exp")
    return ends if claims.get("machine_id") and type(ends) is int else 0

def latest_time(path: str, now: int) -> int:
    """Returns the latest time that was seen before, and keeps the present one if it is later."""
    try:
        with open(path, "rb") as file:
            text = file.read(20).strip()
    except FileNotFoundError:
        text = b"0"
    if not re.fullmatch(b"[0-9]{1,15}", text):
        raise Refused(f"{path} holds no time: correct the clock, and delete the file")
    if now > int(text):
        write_file(path, [str(now).encode()])
    return int(text)

# Bundles

class Bundle(NamedTuple):
    """What was opened."""

    claims: Fields  # of the license
    models: list[str]  # the paths of the files
    files: list[str]

def read_bundle(
    file: Any, pinned: Sequence[Mapping[str, Any]], check_manifest: Callable[[Fields], object],
    take: Callable[[Fields, Iterable[bytes]], object],
) -> str:
    """
    Reads a bundle to its end, and accepts exactly the bytes that the service writes for its manifest. `check_manifest`
    may refuse the manifest. `take` gets each model and each added file with its bytes. Returns the license.
    """
    header = read_exactly(file, TAR_BLOCK_BYTES)
    size, at = read_octal(header[124:135]), read_octal(header[136:147])
    if header != tar_header("manifest.jws", size, at) or size > MAX_MANIFEST_BYTES:
        refuse_bundle("it does not begin with a manifest")
    manifest = verify_signed(to_signed(read_content(file, size)), pinned, "bundle")
    if not is_manifest(manifest) or manifest["iat"] != at:
        refuse_bundle("its manifest has another form")
    check_manifest(manifest)
    license = ""
    for entry in manifest["files"]:
        if read_exactly(file, TAR_BLOCK_BYTES) != tar_header(entry["path"], entry["size"], at):
            refuse_bundle(f"the header of {entry['path']} is not the one that its manifest describes")
        content = hashed(read_content(file, entry["size"]), entry)
        if entry["kind"] == "license":
            license = to_signed(content)
            if not is_license_of(manifest, verify(license, pinned)):
                refuse_bundle("it has another license than its manifest says")
        else:
            take(entry, content)
    if read_exactly(file, 2 * TAR_BLOCK_BYTES) != bytes(2 * TAR_BLOCK_BYTES):
        refuse_bundle("something else stands where it must end")
    if file.read(1) != b"":
        refuse_bundle("something follows its end")
    return license

def refuse_bundle(why: str) -> NoReturn:
    raise Refused(f"the bundle is not genuine: {why}")

def tar_header(path: str, size: int, at: int) -> bytes:
    """The only header that a file of a bundle may have."""
    header = bytearray(TAR_BLOCK_BYTES)
    header[: len(path)] = path.encode()
    header[100:148] = f"{0o644:07o}\0{0:07o}\0{0:07o}\0{size:011o}\0{at:011o}\0".encode()
    header[156] = ord("0")
    header[257:265] = b"ustar\x0000"
    header[148:156] = b" " * 8  # the sum of all bytes, which counts its own field as spaces
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header)

def read_octal(digits: bytes) -> int:
    return int(digits, 8) if re.fullmatch(b"[0-7]+", digits) else 0

def read_exactly(file: Any, size: int) -> bytes:
    data = bytes(file.read(size))
    if len(data) != size:
        refuse_bundle("it ends too early")
    return data

def read_content(file: Any, size: int) -> Iterable[bytes]:
    """The bytes of a file in a bundle. Reads the zeros after them, too."""
    left = size
    while left > 0:
        yield read_exactly(file, min(CHUNK_BYTES, left))
        left -= CHUNK_BYTES
    padding = -size % TAR_BLOCK_BYTES
    if read_exactly(file, padding) != bytes(padding):
        refuse_bundle("its padding is not zero")

def hashed(parts: Iterable[bytes], entry: Fields) -> Iterable[bytes]:
    """The same bytes. Raises Refused at their end if they are not those that the manifest names."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        yield part
    if digest.hexdigest() != entry["sha256"]:
        refuse_bundle(f"{entry['path']} is not what its manifest says")

def to_signed(parts: Iterable[bytes]) -> str:
    """A signed text, which ends with a newline."""
    data = b"".join(parts)
    if not data.endswith(b"\n") or not data.isascii():
        refuse_bundle("a text has no end of its line")
    return data[:-1].decode()

def is_manifest(claims: Fields) -> bool:
    texts = ("iss", "aud", "jti", "license_id", "key_id", *(["fingerprint"] if "fingerprint" in claims else []))
    files = claims.get("files")
    if claims.keys() != {*texts, "iat", "files"} or not is_list_of(str, [claims[name] for name in texts]):
        return False
    if not is_size(claims["iat"]) or not is_list_of(dict, files) or len(claims["files"]) > MAX_BUNDLE_FILES:
        return False
    paths = [file.get("path") for file in files or [] if is_bundled(file)]
    # Each path is there once, and in the order of the tar file.
    return len(paths) == len(claims["files"]) and "license.jws" in paths and paths == sorted({*paths})

def is_bundled(file: Fields) -> bool:
    path, kind = file.get("path"), file.get("kind")
    more = ("name", "version") if kind == "model" else ()
    if file.keys() != {"path", "size", "sha256", "kind", *more} or not is_list_of(str, [path, kind, file["sha256"]]):
        return False
    if not is_size(file["size"]) or not is_list_of(str, [file[name] for name in more]) or len(str(path)) > 100:
        return False
    if kind == "license":
        return path == "license.jws" and 0 < file["size"] <= MAX_LICENSE_BYTES
    forms = {"model": "models/", "file": "files/"}
    form = f"{forms[str(kind)]}[A-Za-z0-9_][A-Za-z0-9_.+-]*" if kind in forms else "(?!)"
    return re.fullmatch(form, str(path)) is not None and re.fullmatch("[0-9a-f]{64}", file["sha256"]) is not None

def is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_BUNDLE_FILE_BYTES

def is_license_of(manifest: Fields, claims: Fields) -> bool:
    same = ("iss", "aud", "iat", "jti", "key_id", "fingerprint")
    return all(manifest.get(name) == claims.get(name) for name in same) and manifest["license_id"] == claims.get("sub")

# Usage events

def settle_events(events: Sequence[Fields], answer: Answer | None, failures: int) -> Settled:
    """Returns what becomes of the events of a batch, which was sent after so many failures in a row."""
    status, half = genuine_status("events", answer), max(1, len(events) // 2)
    if status == 200 and answer is not None and len(answer.body["results"]) == len(events):
        return settle_results(events, answer, answer.body["results"])
    if status == 413 and answer is not None:
        if len(events) > 1:
            return Settled([*events], 0, [], "halve", 0, half)
        return Settled([], 0, [(0, code_of(answer.body), to_line(answer.body.get("error", "")))], "done", 0)
    if status == 200 or is_failure(status):
        # Fewer events get through a slow connection. The limits of the service say what there is room for.
        most = room_of(answer) if status == 429 else half
        return Settled([*events], 0, [], "send", wait_after(status, answer, failures), most)
    return Settled([*events], 0, [], "stop", 0)

def room_of(answer: Answer | None) -> int | None:
    """How many events the service has room for; None if it had no room for a batch, or does not say."""
    room = number(answer.headers.get("x-ratelimit-remaining")) if answer is not None else None
    return min(room, MAX_BATCH_EVENTS) if room else None

def settle_results(events: Sequence[Fields], answer: Answer, results: Sequence[Fields]) -> Settled:
    kept: list[Fields] = []
    refused: list[tuple[int, str, str]] = []
    date = date_of(answer)
    for index, (event, result) in enumerate(zip(events, results)):
        code = code_of(result)
        if result["logged"]:
            continue
        if code == "INVALID_REQUEST" and date and parse(event.get("occurred_at")) > date + CLOCK_TOLERANCE:
            # The clock of this machine was ahead. The service has not kept the key of an event that it refused.
            kept.append({**event, "occurred_at": render(date).replace("Z", ".000Z")})
        else:
            refused.append((index, code, to_line(result.get("error", ""))))
    accepted = len(events) - len(kept) - len(refused)
    return Settled(kept, accepted, refused, "send" if kept else "done", 0)

def is_too_old(event: Fields, now: int) -> bool:
    return 0 < parse(event.get("occurred_at")) < now - EVENT_SECONDS

class Batch(NamedTuple):
    events: list[Fields]
    lines: list[bytes]  # of the events
    text: bytes  # of the file, with these events and with lines that hold none
    is_damaged: bool  # whether there are such lines

class EventQueue:
    """The events that wait, oldest first: a file with a line of JSON for each. Another process may append to it."""

    max_events, max_bytes = MAX_QUEUE_EVENTS, MAX_QUEUE_BYTES
    full = "{} events wait in {}: send them, or delete the file"

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.to_line = to_event_line
        # Which file was counted last; its size, its lines at that size, and whether the last one has an end.
        self.counted = (0, 0, 0, True)

    def add(self, event: Fields) -> None:
        line = self.to_line(event)
        if len(line) > MAX_EVENT_BYTES:
            raise ValueError("the event is larger than 64 KiB: shorten its texts")
        with self.lock:
            # Again if another process has replaced the file meanwhile. A line that is there twice is counted once.
            while not self.append(line):
                pass

    def append(self, line: bytes) -> bool:
        """Returns whether the file to which the line was added still has its name."""
        with open(self.path, "ab+", buffering=0, opener=open_private) as file:
            self.write(file, line)
            return self.has_name(file)

    def write(self, file: Any, line: bytes) -> None:
        inode, size, lines, is_ended = self.count(file)
        line = line if is_ended else b"\n" + line  # a crash has cut the last line
        if lines >= self.max_events or size + len(line) > self.max_bytes:
            raise QueueFull(self.full.format(lines, self.path))
        if file.write(line) != len(line):
            raise OSError(f"cannot write {self.path}: the disk is full")
        self.counted = (inode, size + len(line), lines + 1, True)

    def has_name(self, file: Any) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self.path))
        return False

    def count(self, file: Any) -> tuple[int, int, int, bool]:
        """Counts only the lines that another process has added."""
        inode, size = os.fstat(file.fileno()).st_ino, file.seek(0, os.SEEK_END)
        known, at, lines, is_ended = self.counted
        if inode != known or size < at or not is_ended:
            at, lines, is_ended = 0, 0, True
        if size != at:
            file.seek(at)
            last = b""
            for part in read_parts(file):
                at, lines, last = at + len(part), lines + part.count(b"\n"), part[-1:]
            is_ended = last in (b"", b"\n")
            lines = lines if is_ended else lines + 1
        self.counted = (inode, at, lines, is_ended)
        return self.counted

    def waiting(self) -> int:
        try:
            with self.lock, open(self.path, "rb") as file:
                return self.count(file)[2]
        except FileNotFoundError:
            return 0

    def take(self, most: int) -> Batch:
        """Returns the oldest events: at most so many, and as many as fit into one request. They stay in the file."""
        events: list[Fields] = []
        lines: list[bytes] = []
        parts: list[bytes] = []
        size, is_damaged = 0, False
        with contextlib.suppress(FileNotFoundError), self.lock, open(self.path, "rb") as file:
            while len(events) < most and (line := file.readline(MAX_EVENT_BYTES + 1)):
                # 100 bytes for what is around the events in the body.
                size += len(line)
                if size > MAX_BATCH_BYTES - 100:
                    break
                parts.append(line)
                event = to_fields(line, parse_constant=refuse_constant)
                if isinstance(event.get("idempotency_key"), str):
                    events.append(event)
                    lines.append(line.strip())
                else:
                    is_damaged = True
        return Batch(events, lines, b"".join(parts), is_damaged)

    def replace(self, text: bytes, kept: Iterable[Fields]) -> None:
        """
        Puts these events in the place of the text at the begin of the file. What was appended meanwhile stays. If the
        text is not there any more, another process has sent the events, and the file stays as it is.
        """
        first = b"".join(to_event_line(event) for event in kept)
        with contextlib.suppress(FileNotFoundError), self.lock, open(self.path, "rb") as old:
            if old.read(len(text)) == text:
                self.put(first, old)

    def put(self, first: bytes, old: Any) -> None:
        """Replaces the file by these bytes and what follows in the old one."""
        new = write_new(self.path, itertools.chain([first], read_parts(old)))
        if os.name == "nt":  # which replaces no open file
            old.close()
        replace_file(new, self.path)
        late = b"" if old.closed else old.read()  # lines of another process, for which the new file came too early
        if late:
            with open(self.path, "ab", buffering=0) as file:
                file.write(late)

def to_event(occurred_at: str, event_type: str, *, metadata: Mapping[str, Any] | None, **more: Any) -> Fields:
    """A new event, with a key of its own and without the fields that have no value."""
    fields: Fields = {
        **{"idempotency_key": secrets.token_hex(16), "occurred_at": occurred_at, "event_type": event_type, **more},
        "metadata": dict(metadata) if metadata is not None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}

def to_event_line(event: Fields) -> bytes:
    return json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b"\n"

def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON: the service would refuse the whole batch")

# Reports of use

SEAL = b'\n{"sealed":true}\n'  # the end of a journal that is being reported; no use has a line like it

class Head(NamedTuple):
    """What the file beside the journal holds: whose journal it is, and its last report."""

    journal: str
    license_id: str
    machine: str
    number: int = 0
    digest: str | None = None
    cut: Fields | None = None  # bytes and sha256 of the begin of the journal that the last report holds

class Report(NamedTuple):
    text: str  # without its newline
    uses: int
    dropped: int  # lines that the service would refuse
    cut: Fields  # as in the head

class Journal(EventQueue):
    """
    The use that no report holds yet. Any number of processes may record at the same time, in either language, and none
    of them waits for another. A report takes the journal away, so that what is recorded meanwhile goes into a new one,
    and seals it. Lines before the seal are reported. Who finds its line after the seal adds it to the new journal.
    """

    max_events, max_bytes = MAX_JOURNAL_USES, MAX_JOURNAL_BYTES
    full = "{} uses wait in {}: report them"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.to_line = lambda use: to_json(use) + b"\n"
        # What a report has taken; and what it takes while a crash of an earlier one has left the first.
        self.taken, self.second = f"{path}.old", f"{path}.new"

    def append(self, line: bytes) -> bool:
        """Returns whether the line counts. If not, it has to be added again."""
        with open(self.path, "ab+", buffering=0, opener=open_private) as file:
            self.write(file, line)
            if self.has_name(file):
                return True
            file.seek(0)
            text = file.read()
            seal = text.find(SEAL)
            return seal < 0 or text.find(line.strip()) < seal

    def take(self, cut: Fields | None) -> None:
        """Takes what is there, in one file, without the begin that the last report holds."""
        self.merge()
        if os.path.exists(self.taken):
            self.seal(self.taken)
            self.drop(cut)
        if not size_of(self.path):
            return
        if os.path.exists(self.taken):
            os.rename(self.path, self.second)
            self.merge()
        else:
            os.rename(self.path, self.taken)
            self.seal(self.taken)
            self.drop(cut)

    def merge(self) -> None:
        """Adds the second taken journal to the first, once: each line has a random key, so it cannot come again."""
        if not os.path.exists(self.second):
            return
        if not os.path.exists(self.taken):
            os.rename(self.second, self.taken)
            return
        first, second = self.seal(self.taken), self.seal(self.second)
        if not first.endswith(second):
            end = b"" if first.endswith(b"\n") else b"\n"
            write_file(self.taken, [first, end, second, SEAL])
        os.remove(self.second)

    def seal(self, path: str) -> bytes:
        """Seals a taken journal if it is not sealed. Returns what stands before the seal."""
        text = read_whole(path)
        if SEAL not in text:
            with open(path, "ab", buffering=0) as file:
                file.write(SEAL)
            text = read_whole(path)
        return text[: text.find(SEAL)]

    def drop(self, cut: Fields | None) -> None:
        """Removes the begin of the taken journal that a report holds, if it is there still."""
        if cut is None or not os.path.exists(self.taken):
            return
        size, end = cut["bytes"], len(self.seal(self.taken))
        text = read_whole(self.taken)
        # A last line without an end has the first byte of the seal as its end.
        rest = text[size : max(size, end)]
        if len(text) < size or hashlib.sha256(text[:size]).hexdigest() != cut["sha256"]:
            return
        if rest.strip() == b"":
            os.remove(self.taken)
        else:
            write_file(self.taken, [rest, SEAL])

    def read(self) -> Iterable[bytes]:
        """The lines that a report has taken."""
        with contextlib.suppress(FileNotFoundError), open(self.taken, "rb") as file:
            while (line := file.readline(MAX_EVENT_BYTES + 1)) and line != SEAL.lstrip():
                yield line

    def waiting(self) -> int:
        return super().waiting() + sum(line.endswith(b"\n") and line.strip() != b"" for line in self.read())

def size_of(path: str) -> int:
    """0 if there is no such file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.getsize(path)
    return 0

def read_whole(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(4 * MAX_JOURNAL_BYTES)

@contextlib.contextmanager
def lock_file(path: str, refusal: str) -> Iterator[None]:
    """Keeps others out, also in this process. Takes over what a process has left that is at work no more."""
    name = name_process()
    file = create_lock(path)
    if file is None:
        if is_left(path):
            remove_lock(path)
        file = create_lock(path)
    if file is None:
        raise Refused(refusal)
    try:
        os.write(file, name.encode())
        yield
    finally:
        os.close(file)
        remove(path)

def remove_lock(path: str) -> None:
    """Removes a lock that a process has left, and not one that another process has made just now."""
    taken = f"{path}.{secrets.token_hex(8)}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, taken)
        if not is_left(taken):
            put_new(taken, path)
        remove(taken)

def put_new(new: str, path: str) -> bool:
    """Gives a new file its name, unless another one has it. Returns whether it did; the caller removes `new`."""
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without such links, as many sticks are
        if os.path.lexists(path):
            return False
        os.rename(new, path)
    return True

def write_once(path: str, data: bytes) -> None:
    """Writes a file, and replaces none. A file with the same bytes is good."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read(len(data) + 1) == data:
            return
    refuse_existing(path)
    new = write_new(path, [data])
    try:
        if not put_new(new, path):
            refuse_existing(path)
    finally:
        remove(new)

def refuse_existing(path: str) -> None:
    if os.path.lexists(path):
        raise Refused(f"there is a file {path} already: name another one, or move it away")

def refuse_root(path: str) -> None:
    """Refuses to make files as root for the program of another user, who could not read them."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return
    there = path if os.path.exists(path) else os.path.dirname(path) or "."
    uid = os.stat(there).st_uid if os.path.exists(there) else 0
    if uid != 0:
        user = str(uid)
        with contextlib.suppress(KeyError):
            user = pwd.getpwuid(uid).pw_name
        raise Refused(f"{there} belongs to user {user}, who could not read what root writes: run this as that user")

def to_reason(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else error.strerror or type(error).__name__

def create_lock(path: str) -> int | None:
    with contextlib.suppress(FileExistsError):
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    return None

def is_left(path: str) -> bool:
    """Whether nobody holds a lock any more, although its file is there."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            name, age = file.read(200), time.time() - os.fstat(file.fileno()).st_mtime
    except OSError:  # it is gone
        return False
    if age > LOCK_SECONDS:
        return True
    if name == "":  # a crash came before the name was written
        return age > 5
    match = re.fullmatch(r"([1-9][0-9]{0,9}) ([0-9]{1,20}) (\S+)", name)
    if match is None or match[3] != find_place():
        return age > FAR_LOCK_SECONDS
    return has_ended(match[1], match[2])

def name_process() -> str:
    """How a lock names this process: its number, when it began, and the place where the number means it."""
    pid = str(os.getpid())
    return f"{pid} {find_begin(pid) or 0} {find_place()}"

def find_place() -> str:
    """Where a number means the same process: one boot of a computer, and there one container. "-" if unknown."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read(64).strip()}/{os.readlink('/proc/self/ns/pid')}"
    return "-"

def find_begin(pid: str) -> str:
    """When a process began, in ticks since the computer did; "" if nobody says. A later process with its number differs."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read(4_096).rpartition(")")[2].split()[19]  # the name before it may have spaces
    return ""

def has_ended(pid: str, begin: str) -> bool:
    found = find_begin(pid)
    if found != "":
        return found != begin
    try:
        if sys.platform != "win32":
            os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # the process belongs to another user
        pass
    return False

def write_report(
    lines: Iterable[bytes], head: Head, key: bytes, *, made_at: int, clients: Sequence[str], with_events: bool
) -> Report:
    """Makes the next report of a journal from its oldest lines: as many as one report can hold."""
    made = render(made_at)
    rows: dict[tuple[str, str, bool, str], list[int]] = {}
    events: list[bytes] = []
    keys: set[str] = set()
    digest, size, json_bytes, uses, dropped = hashlib.sha256(), 0, 1_000 + 70 * len(clients), 0, 0
    most = MAX_REPORT_EVENTS if with_events else None
    for line in lines:
        # The last line may have no end: after a crash, or while another process writes it.
        if uses == most or not line.endswith(b"\n") and len(line) <= MAX_EVENT_BYTES:
            break
        event = to_use(line)
        if event is None or event["idempotency_key"] in keys:
            dropped += line.strip() != b""
        else:
            text = line.strip()
            if event["occurred_at"][:19] > made[:19]:  # the clock was ahead
                event["occurred_at"] = made.replace("Z", ".000Z")
                text = to_json(event)
            model = event.get("model_name")
            row = (event["occurred_at"][:10], event["event_type"], model is not None, model or "")
            more = len(text) + 1 if with_events else 0
            if row not in rows:
                more += len(to_json(to_row(row, [0, 0]))) + 20  # the counts become longer
            if json_bytes + more > MAX_REPORT_JSON_BYTES or row not in rows and len(rows) == MAX_REPORT_ROWS:
                break
            counts = rows.setdefault(row, [0, 0])
            counts[0] += 1
            success = event.get("success")
            counts[1] += event["event_type"] == "error" if success is None else not success
            if with_events:
                events.append(text)
            if len(keys) == MAX_REPORT_EVENTS:  # a line that is there twice has its copy near
                keys.clear()
            keys.add(event["idempotency_key"])
            json_bytes, uses = json_bytes + more, uses + 1
        digest.update(line)
        size += len(line)
    payload = to_json({
        **{"version": 1, "license_id": head.license_id, "machine": head.machine, "journal": head.journal},
        **{"number": head.number + 1, "previous": head.digest, "made_at": made, "clients": [*clients]},
        "days": [to_row(row, rows[row]) for row in sorted(rows)],
    })
    if with_events:
        payload = b"%b,\"events\":[%b]}" % (payload[:-1], b",".join(events))
    signed = f"{encode(REPORT_HEADER)}.{encode(payload)}"
    signature = encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())
    return Report(f"{signed}.{signature}", uses, dropped, {"bytes": size, "sha256": digest.hexdigest()})

def to_head(fields: Fields) -> Head | None:
    """The head of a journal; None if the file is missing or damaged."""
    if not fields.keys() >= {"journal", "license_id", "machine", "number", "digest", "cut"}:
        return None
    head = Head(*(fields[name] for name in Head._fields))
    texts = (head.journal, head.license_id, head.machine, head.digest or "")
    cut = {"bytes": 0, "sha256": ""} if head.cut is None else to_dict(head.cut)
    is_whole = is_list_of(str, [*texts, cut.get("sha256")]) and type(cut.get("bytes")) is int
    return head if is_whole and type(head.number) is int and head.number >= 0 else None

REPORT_HEADER = b'{"alg":"HS256","typ":"usage-report+jwt"}'

def to_row(row: tuple[str, str, bool, str], counts: Sequence[int]) -> Fields:
    day, event_type, has_model, model = row
    names = {"day": day, "event_type": event_type, "model_name": model if has_model else None}
    return {**names, "count": counts[0], "failed": counts[1]}

def decode_payload(text: str) -> bytes:
    """What a report says; b"" if it is none."""
    with contextlib.suppress(LookupError, ValueError):
        return decode(text.split(".")[1])
    return b""

def to_json(fields: Fields) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

def to_use(line: bytes) -> Fields | None:
    """The use of a line; None if the service would refuse the whole report for it."""
    try:
        event = to_dict(json.loads(line.decode(), parse_constant=refuse_constant))
        check_use(event)
    except (ValueError, RecursionError):
        return None
    return event

def check_use(event: Fields) -> None:
    """Raises ValueError if the service would refuse a report with the event."""
    for name, value in event.items():
        if name not in USE_RULES:
            raise ValueError(f"{name} is not known")
        is_right, rule = USE_RULES[name]
        if value is None and name in REQUIRED or value is not None and not is_right(value):
            raise ValueError(f"{name} must be {rule}")
    for name in REQUIRED:
        if name not in event:
            raise ValueError(f"{name} is missing")

def is_time_of_use(value: Any) -> bool:
    form = "20[2-9][0-9]-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9][.][0-9]{3}Z"
    return isinstance(value, str) and re.fullmatch(form, value) is not None and is_day(value[:10])

@functools.lru_cache(maxsize=1_000)
def is_day(day: str) -> bool:
    return parse(f"{day}T00:00:00Z") > 0

def is_plain(value: Any, levels: int = MAX_METADATA_LEVELS) -> bool:
    """Whether the service can store a value: with so many levels, finite numbers and whole characters."""
    if isinstance(value, str):
        return re.search("[\0\ufffd\ud800-\udfff]", value) is None
    if isinstance(value, (int, float)):
        return abs(value) <= sys.float_info.max
    if value is None:
        return True
    if levels == 0 or not isinstance(value, (dict, list, tuple)):
        return False
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return all(is_plain(part, levels - 1) for part in parts)

def is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most and is_plain(value)

EVENT_TYPES = ("inference", "model_load", "error")
REQUIRED = ("idempotency_key", "occurred_at", "event_type")
# The rules of the service for the fields of an event.
USE_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "idempotency_key": (
        lambda value: isinstance(value, str) and re.fullmatch("[ -~]{1,255}", value) is not None,
        "1 to 255 printable characters",
    ),
    "occurred_at": (is_time_of_use, "a time in UTC from 2020 on, such as 2026-10-31T23:59:58.250Z"),
    "event_type": (lambda value: value in EVENT_TYPES, f"one of {', '.join(EVENT_TYPES)}"),
    "model_name": (lambda value: is_text(value, 200), "a text of at most 200 characters"),
    "inference_type": (lambda value: value in ("batch", "streaming"), "batch or streaming"),
    "duration_ms": (
        lambda value: type(value) in (int, float) and value >= 0 and is_plain(value),
        "a number that is not negative",
    ),
    "success": (lambda value: isinstance(value, bool), "true or false"),
    "error_message": (lambda value: is_text(value, 2_000), "a text of at most 2000 characters"),
    "metadata": (
        lambda value: isinstance(value, dict) and is_plain(value) and len(to_json(value)) <= MAX_METADATA_BYTES,
        "an object of at most 32 levels and 16 KiB, with whole characters and finite numbers",
    ),
}

# Downloads

def decide_download(
    have_bytes: int, etag: str | None, size_bytes: int, answer: Answer | None, failures: int
) -> tuple[str, int]:
    """
    Returns what to do with the answer to a request for a file, and the seconds to wait: "append" or "anew" (its body),
    "done", "retry", "list_again" (the link has ended) or "fail". After another status than 200, "anew" is: delete the
    part, ask again.
    """
    status = answer.status if answer is not None else 0
    asked_for_range = have_bytes > 0 and etag is not None
    if answer is None or is_failure(status):
        return "retry", wait_after(status, answer, failures)
    if status in (401, 403, 404, 410):
        return "list_again", 0
    if status == 200:
        return "fail" if is_too_large(number(answer.headers.get("content-length")), size_bytes) else "anew", 0
    if status not in (206, 416) or not asked_for_range:
        return "fail", 0
    first, total = parse_content_range(answer)
    if status == 416:
        return "done" if total == have_bytes else "anew", 0
    if is_too_large(total, size_bytes):
        return "fail", 0
    is_rest = first == have_bytes and answer.headers.get("etag", etag) == etag
    return "append" if is_rest else "anew", 0

def is_too_large(total: int | None, size_bytes: int) -> bool:
    """The list has rounded sizes, so a file may be somewhat larger. Size 0 is not known."""
    return total is not None and 0 < size_bytes and total > most_bytes(size_bytes)

def most_bytes(size_bytes: int) -> int:
    return size_bytes * 11 // 10 + 1_000_000

def parse_content_range(answer: Answer) -> tuple[int | None, int | None]:
    """The first byte of a range, and the size of the whole file; None for what the answer does not say."""
    match = re.fullmatch(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(?:(\d{1,18})|\*)", answer.headers.get("content-range", ""))
    return (number(match[1]), number(match[2])) if match else (None, None)

def number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else None

def file_name_of(model: Fields) -> str:
    """NAME-VERSION with the end of the file in the link. Raises Refused if it could lead out of the folder."""
    name, version = model["name"], model["version"]
    end = re.match("https?://[^/?#]*/[^?#]*?([.][A-Za-z][A-Za-z0-9]{0,15})(?:[?#]|$)", model["download_url"], re.I)
    file_name = f"{name}-{version}{end[1] if end else ''}"
    slug = "[A-Za-z0-9][A-Za-z0-9._+-]*"
    if not re.fullmatch(slug, name) or not re.fullmatch(slug, version) or len(file_name) > 200:
        raise Refused(f"the service sent a name that is no file name: {to_line(file_name)}")
    return file_name

def keep_checksum(path: str, checksum: str) -> None:
    """Keeps the checksum of a complete file beside it."""
    if read_checksum(path) != checksum:
        write_file(f"{path}.checksum", [f"{checksum}\n".encode()])

def read_checksum(path: str) -> str:
    with contextlib.suppress(OSError, ValueError), open(f"{path}.checksum", encoding="ascii") as file:
        return file.read(100).strip()
    return ""

def find_downloaded(name: str, version: str | None, folder: str) -> str | None:
    """The file of a model that was downloaded earlier, without a version the latest; None if there is no whole one."""
    # Without a version, it must begin with a digit and have no "-": NAME-2-1.0.0 may be of a model NAME-2.
    form = r"[0-9][A-Za-z0-9._+]*" if version is None else rf"{re.escape(version)}([.][A-Za-z][A-Za-z0-9]{{0,15}})?"
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if re.fullmatch(rf"{re.escape(name)}-{form}[.]checksum", entry.name):
                found.append((entry.stat().st_mtime_ns, entry.path[: -len(".checksum")]))
    paths = (path for _, path in sorted(found, reverse=True))
    return next((path for path in paths if checksum_of(path) == read_checksum(path) != ""), None)

# Files and addresses

def check_settings(url: str, api_key: str, fingerprint: str) -> None:
    """Raises WrongSetting for what has another form. Each may be ""."""
    address = re.fullmatch(r"(?i:https?)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?", url)
    if url and (address is None or not 1 <= int(address[1] or 80) <= 65_535):
        raise WrongAddress(
            "the address of the service must be http://HOST or https://HOST, perhaps with :PORT, and without a path"
        )
    if api_key and not re.fullmatch("[A-Za-z0-9]+_(live|test)_[0-9a-f]{48}", api_key):
        raise WrongKey("the API key must be letters and digits, _live_ or _test_, and 48 lowercase hex digits")
    if fingerprint and not re.fullmatch("[ -~]{8,200}", fingerprint):
        raise WrongFingerprint("the fingerprint must be 8 to 200 printable ASCII characters")

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

def checksum_of(path: str) -> str:
    """The checksum of a file in the form of the list; "" if there is no file."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for part in read_parts(file):
                digest.update(part)
    except FileNotFoundError:
        return ""
    return f"sha256:{digest.hexdigest()}"

def read_parts(file: Any) -> Iterable[bytes]:
    while part := file.read(CHUNK_BYTES):
        yield part

def to_fields(text: bytes, **options: Any) -> Fields:
    """The fields of a JSON object; none if the text is something else."""
    try:
        fields = json.loads(text, **options)
    except (ValueError, RecursionError):
        return {}
    return to_dict(fields)

def read_fields(path: str) -> Fields:
    """The fields of a file with a JSON object. A damaged file is as good as none."""
    try:
        with open(path, "rb") as file:
            return to_fields(file.read(MAX_RECORD_BYTES))
    except OSError:
        return {}

def open_private(path: str, flags: int) -> int:
    """An opener for files that only this user may read."""
    return os.open(path, flags, 0o600)

def write_file(path: str, parts: Iterable[bytes]) -> None:
    """Writes a new file first, so that a crash leaves the old file or the new one."""
    replace_file(write_new(path, parts), path)

def write_new(path: str, parts: Iterable[bytes]) -> str:
    """Writes a new file beside a path, and returns its path."""
    new = f"{path}.{secrets.token_hex(8)}"  # a name of its own: other processes may write at the same time
    try:
        with open(new, "xb", opener=open_private) as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        remove(new)
        raise
    return new

def remove_left(path: str) -> None:
    """Removes what a crash left of a file that was to become `path`, in either language."""
    folder, begin = os.path.dirname(path) or ".", f"{os.path.basename(path)}."
    for name in os.listdir(folder):
        if name.startswith(begin) and re.fullmatch("[0-9a-f]{16}|[0-9a-f-]{36}", name[len(begin):]):
            left = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if time.time() - os.stat(left).st_mtime > LEFT_SECONDS:
                    os.remove(left)

def replace_file(new: str, path: str) -> None:
    try:
        os.replace(new, path)
    except BaseException:
        remove(new)
        raise

def check_folder(folder: str) -> None:
    if not os.path.isdir(folder):
        raise Refused(f"there is no folder {folder}: create it")

def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)

def pause(seconds: float, stopped: threading.Event) -> None:
    """Waits by the local clock, which goes on while the computer sleeps, and no longer if the clock is set back."""
    seconds += random.random() * seconds / 10  # so that not all clients come back at the same moment
    began, napped = time.time(), 0.0
    while napped < seconds and -CLOCK_TOLERANCE < time.time() - began < seconds and not stopped.is_set():
        nap = min(NAP_SECONDS, seconds - napped)
        stopped.wait(nap)
        napped += nap

class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key is for one address only."""

    def redirect_request(self, *_: Any) -> None:
        return None

class WebRedirect(urllib.request.HTTPRedirectHandler):
    """A file may be elsewhere: the request for it has no key. The handler of the library would go to FTP, too."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        is_web = newurl.lower().startswith(("http://", "https://"))
        return super().redirect_request(req, fp, code, msg, headers, newurl) if is_web else None

def open_url(request: urllib.request.Request, redirects: urllib.request.HTTPRedirectHandler, timeout: int) -> Any:
    try:
        return urllib.request.build_opener(redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        return error

def headers_of(response: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}

def read_body(response: Any, limit: int) -> bytes:
    """The body; empty if it is longer than the limit."""
    body, ends = b"", time.monotonic() + TIMEOUT_SECONDS
    for part in receive(response):
        body += part
        if time.monotonic() > ends:
            raise TimeoutError("timed out")
        if len(body) > limit:
            return b""
    return body

def receive(response: Any) -> Iterable[bytes]:
    """Each part of the body as soon as it is there. Raises an error if the connection ends before the body."""
    left = number(response.headers.get("content-length"))
    while left != 0:
        part = response.read1(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
        if not part:
            break
        left = left and left - len(part)
        yield part
    if left:
        raise ConnectionResetError("the connection was closed")

NO_TLS = ("wrong version number", "record layer failure")  # of OpenSSL, when the answer is plain HTTP
NETWORK_ERRORS = (OSError, ValueError, http.client.HTTPException)

def to_cause(error: BaseException) -> str:
    """Why there was no answer."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", "") or (error.reason or str(error)).replace("_", " ").lower()
        remedy = ": is the service without TLS?" if reason in NO_TLS else ""
        return f"TLS: {to_line(reason)}{remedy}"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "timed out"
    if isinstance(error, socket.gaierror):
        return "name not found"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, (ConnectionError, http.client.RemoteDisconnected, http.client.IncompleteRead)):
        return "connection closed"
    if isinstance(error, (ValueError, http.client.HTTPException)):  # its text may have a link or a header
        return "not a valid address or answer"
    return to_line(error) or type(error).__name__

PATHS = {
    **{name: f"/v1/machines/{name}" for name in ("activate", "heartbeat", "release")},
    **{name: f"/v1/auth/{name}" for name in ("validate", "refresh", "license")},
    **{"models": "/v1/models/list", "events": "/v1/analytics/batch"},
}

# The client

class Client:
    """
    A client with a state file of its own, for one process. Its folder must exist; the files beside it begin with the
    same name. Threads may share a client.
    For a machine that never has a network, leave out `url` and `api_key`: what needs them raises Refused. There all
    programs of a machine share one state file.
    `keys` are the pinned keys, as a JWK set or the path of one; with `audience` they check signed licenses.
    `log` is called with one line of text. `on_refused` is called with each event that nobody will count: the event, a
    code and a sentence.
    """

    def __init__(
        self, url: str = "", api_key: str = "", state_file: str = "", *, fingerprint: str = "", name: str = "",
        log: Callable[[str], object] | None = None, keys: Mapping[str, Any] | str | None = None, audience: str = "",
        on_refused: Callable[[Fields, str, str], object] | None = None,
    ) -> None:
        check_settings(url, api_key, fingerprint)
        if state_file == "":
            raise TypeError("a client needs a state_file")
        if url == "":
            refuse_root(state_file)
        self.url, self.api_key, self.state_file, self.name, self.audience = url, api_key, state_file, name, audience
        self.log: Callable[[str], object] = log or (lambda _: None)
        self.on_refused: Callable[[Fields, str, str], object] = on_refused or (lambda *_: None)
        self.pinned = read_keys(keys) if isinstance(keys, str) else to_keys(keys, "`keys`") if keys is not None else []
        self.answer: Answer | None = None  # the last answer to a request for a place
        self.cause = ""  # why there was no answer
        self.no_answer = ""  # why the last request for a place got no useful answer
        self.refusal: Refused | None = None  # the last answer to a request for a place, if it was one
        self.no_count = ""  # why the last batch of events got no useful answer
        self.gave_up = ""  # why the last call sent four requests in vain
        self.wait: tuple[float, int] | None = None  # when a place was taken, and the wait before its heartbeat
        self.validated_at = 0.0  # when the service was asked what the key may do
        self.lock = threading.RLock()
        self.sending = threading.Lock()
        self.reporting = threading.Lock()
        self.events = EventQueue(f"{state_file}.events")
        self.journal = Journal(f"{state_file}.journal")
        self.verified: tuple[str, Fields] = ("", {})  # the last license with a good signature, and its claims
        saved = self.read()
        # A random fingerprint is stored before it is used: otherwise every start would take a new place.
        fingerprint = fingerprint or find_fingerprint() or saved.fingerprint or secrets.token_hex(32)
        owner = sha256(f"{self.url} {api_key} {fingerprint}")
        if "" in (url, api_key) and saved.fingerprint == fingerprint:
            owner = saved.owner  # `status` without the settings must not begin a new state
        is_ours = saved.owner == owner and saved.fingerprint == fingerprint
        self.state = saved if is_ours else State(owner, fingerprint)
        if not os.path.isdir(os.path.dirname(state_file) or "."):
            folder = os.path.dirname(state_file)
            raise FileNotFoundError(f"cannot write {state_file}: there is no folder {folder}, so create it")
        if self.state is not saved:
            try:
                self.write()
            except OSError as error:
                raise OSError(f"cannot write {state_file}: {error.strerror}") from None

    # Places on machines

    def may_work(self) -> bool:
        """Whether this machine has its place, or the signed license is good. Ask at every use."""
        return may_work(self.state, int(time.time())) or self.licensed_until() > 0

    def why(self) -> Refused | None:
        """Why `may_work` is false: a sentence for people, and the code of the service; None if it is true."""
        if self.may_work():
            return None
        if self.refusal is not None:
            return self.refusal
        if self.is_closed(self.terms()):
            try:
                self.claims()
            except (Refused, OSError) as error:
                return error if isinstance(error, Refused) else Refused(str(error))
        if int(time.time()) < self.state.seen - CLOCK_TOLERANCE:
            return Refused(explain("clock_behind", closed=False))
        if self.no_answer:
            return Refused(f"the license service gives no answer: {self.no_answer}")
        return Refused(explain("no_place", closed=False))

    def is_closed(self, terms: Fields) -> bool:
        """Whether licenses come from the vendor as files, and not over a network."""
        return self.missing() != "" or terms.get("borrowed") is False and os.path.exists(f"{self.state_file}.license")

    def missing(self) -> str:
        """What the client lacks to ask the service; "" if nothing."""
        return explain_missing(self.url != "", self.api_key != "")

    def require_service(self) -> None:
        if self.missing():
            raise Refused(self.missing())

    def licensed_until(self) -> int:
        """The end of the signed license in Unix seconds; 0 if it is not good now."""
        with contextlib.suppress(Refused):
            return int(self.claims()["exp"])
        return 0

    def run(self, stopped: threading.Event | None = None) -> None:
        """
        Keeps the place until the service refuses the key, or until the event. Also fetches a borrowed license again
        from its `refresh_after` on, and the kept answer of `validate` when it is not fresh. Stop it before `release`.
        """
        stopped = stopped or threading.Event()
        request = first_request(self.state)
        if request == "heartbeat" and self.wait is not None and time.time() - self.wait[0] < 60:
            pause(self.wait[1] - (time.time() - self.wait[0]), stopped)
        while request != "stop" and not stopped.is_set():
            request, seconds = self.step(request)
            if request == "heartbeat" and self.state.failures == 0:
                self.renew()
                self.validate_again()
            pause(seconds, stopped)

    def activate(self) -> bool:
        """Takes a place, or renews it. Gives up after four requests, and at once if every place is taken."""
        self.try_often("activate")
        return self.may_work()

    def release(self) -> bool:
        """Gives the place back."""
        return self.try_often("release") == "done"

    def try_often(self, request: str) -> str:
        """Sends a request four times at most. Does not wait for a place."""
        with self.lock:  # failures of earlier calls make no wait longer
            self.state = dataclasses.replace(self.state, failures=0)
        self.gave_up = ""
        for _ in range(MAX_TRIES - 1):
            following, seconds = self.step(request)
            if following != request or self.answer is not None and self.answer.status == 409:
                return following
            pause(seconds, threading.Event())
        following = self.step(request)[0]
        self.gave_up = self.no_answer
        return following

    def step(self, request: str) -> tuple[str, int]:
        """Sends a request; returns the next one, and the seconds to wait before it."""
        sent_at = int(time.time())
        fields = {"fingerprint": self.state.fingerprint}
        if request == "activate":
            fields.update({"platform": sys.platform}, **({"name": self.name} if self.name else {}))
        answer, cause = self.send(request, fields)
        self.answer, self.cause = answer, cause
        status = genuine_status(request, answer)
        self.no_answer = to_why(request, answer, cause) if is_failure(status) else ""
        if not is_failure(status):
            is_good = status == 200 or request == "release" and status == 404
            self.refusal = None if is_good or answer is None else to_refusal(request, answer)
        with self.lock:
            self.state, following, seconds = decide(self.state, request, answer, sent_at, int(time.time()))
            self.try_write()
        is_refused = request != "release" and genuine_status(request, answer) == 401
        if is_refused and self.delete_borrowed():
            self.log("license: deleted, because the service refuses the key")
        then = following if following in ("stop", "done") else f"{following} in {seconds} s"
        if following == "stop" and answer is not None:
            then = f"stop: {to_line(answer.body.get('error', ''))}"
        self.wait = (time.time(), seconds) if request == "activate" and following == "heartbeat" else None
        self.log(f"{request}: {describe(request, answer, cause)}; {self.describe()}; {then}")
        return following, seconds

    def describe(self) -> str:
        until = max(self.state.until if may_work(self.state, int(time.time())) else 0, self.licensed_until())
        return f"may work until {render(until)}" if until > 0 else "may not work"

    # Validation

    def validate(self) -> Fields | None:
        """
        Asks what the key may do, and keeps the answer. Returns its body, which has `error` and `code` if the service
        refuses the key, or if the month is used up; None without an answer.
        """
        self.validated_at = time.time()
        sent_at = int(self.validated_at)
        answer, self.cause = self.send("validate", {})
        self.log(f"validate: {describe('validate', answer, self.cause)}")
        kept = answer
        if answer is not None and genuine_status("validate", answer) == 429 and code_of(answer.body) == USED_UP:
            kept, cause = self.send("refresh", {})
            self.log(f"refresh: {describe('refresh', kept, cause)}")
        with self.lock:
            saved, seen = keep_validation(self.read_saved(), self.state.seen, kept, sent_at, int(time.time()))
            record = saved._asdict() if saved is not None else None
            self.state = dataclasses.replace(self.state, seen=seen)
            self.try_write()
            try:
                self.write_record("validated", record)
            except OSError as error:
                self.log(f"cannot write {self.state_file}.validated: {error}")
        return answer.body if answer is not None and is_genuine("validate", answer) else None

    def validate_again(self) -> None:
        """Asks again if the kept answer is not fresh, at most once an hour."""
        is_time = abs(time.time() - self.validated_at) >= CHECK_SECONDS
        if is_time and self.read_saved() is not None and not self.is_fresh():
            self.validate()

    def license_answer(self) -> Fields | None:
        """The kept answer of `validate` while it may be used, also without a network; else None."""
        saved = self.read_saved()
        return saved.body if saved is not None and may_use(saved, self.state.seen, int(time.time())) else None

    def is_fresh(self) -> bool:
        """Whether the kept answer may be used without asking again."""
        return is_fresh(self.read_saved(), self.state.seen, int(time.time()))

    def features(self) -> list[str]:
        """The features of the kept answer if it may be used, else of the signed license if it is good, else none."""
        return features_at({"features": [], **self.rights()}, int(time.time()))

    def entitlements(self) -> Fields:
        """The values of the license by their names, from where `features` has the features."""
        return entitlements_of(self.rights())

    def rights(self) -> Fields:
        answer = self.license_answer()
        if answer is not None:
            return answer
        with contextlib.suppress(Refused):
            return self.claims()
        return {}

    # Signed licenses

    def borrow(self, days: int | None = None) -> Fields:
        """
        Fetches a signed license for this machine, and keeps it. If the license counts machines, this one must have a
        place. `days` is at most what the license allows, by default all of them. Returns the claims.
        """
        self.pinned_keys()
        import_cryptography("license")
        body = self.ask("license", self.license_fields(days))
        audience = self.verify(str(body["license"])).get("aud")
        if audience != self.audience:
            raise Refused(to_line(f"LICENSE_AUDIENCE is {self.audience}, and the license is for {audience}"))
        return self.keep_license(body, days)

    def license_fields(self, days: int | None) -> Fields:
        return {"fingerprint": self.state.fingerprint, **({"days": days} if days is not None else {})}

    def keep_license(self, body: Fields, days: int | None) -> Fields:
        """Checks a license that the service has just signed before it replaces the kept one."""
        license = str(body["license"])
        claims = self.verify(license)
        self.accept(license, claims, days=days, borrowed=True)
        return claims

    def accept(
        self, license: str, claims: Fields, *, days: int | None, borrowed: bool, new: Mapping[str, str] | None = None
    ) -> None:
        """Replaces the kept license by a genuine one if that may be used, and before it the files that came with it."""
        with self.lock:
            terms = self.terms()
            # The first license says the id of the key.
            key_id = terms.get("key_id") or claims.get("key_id")
            seen = clock_after(self.state.seen, highest_of(terms), claims["iat"])
            self.check_terms(claims, key_id, int(time.time()), seen, closed=not borrowed)
            for path, waiting in (new or {}).items():
                os.replace(waiting, path)
            # After a crash before the next write, the license corrects the clock once more.
            self.state = dataclasses.replace(self.state, seen=seen)
            self.try_write()
            self.write_terms(terms, claims, key_id, days, borrowed)
            write_file(f"{self.state_file}.license", [f"{license}\n".encode()])

    def write_terms(self, terms: Fields, claims: Fields, key_id: Any, days: Any, borrowed: bool) -> None:
        newest = claims if claims["iat"] >= highest_of(terms) else terms
        taken = max(taken_until(terms), end_of_place(claims) if borrowed else 0)
        fields = {"key_id": key_id, "days": days, "borrowed": borrowed, "taken_until": taken}
        self.write_record("license.terms", {**fields, "iat": newest["iat"], "jti": newest.get("jti")})

    def renew(self) -> None:
        """From half of its time on, borrows a borrowed license again for as many days as before."""
        terms, claims = self.terms(), Fields()
        with contextlib.suppress(OSError, Refused):
            claims = self.verify(read_license(f"{self.state_file}.license"))
        # Also if it has ended, or was not good because the clock was wrong.
        if terms.get("borrowed") is not True or not claims or time.time() < claims.get("refresh_after", claims["exp"]):
            return
        days = terms.get("days")
        answer, self.cause = self.send("license", self.license_fields(days))
        self.log(f"license: {describe('license', answer, self.cause)}")
        try:
            if answer is not None and genuine_status("license", answer) == 200:
                self.keep_license(answer.body, days)
        except (Refused, OSError) as error:
            self.log(f"license: {to_line(error)}")

    def delete_borrowed(self) -> bool:
        """Deletes a borrowed license, and no other one. Returns whether there was one."""
        with self.lock:
            terms, claims = self.terms(), self.unchecked_claims()
            is_same = (claims.get("iat"), claims.get("jti")) == (terms.get("iat"), terms.get("jti"))
            if terms.get("borrowed") is not True or not is_same:
                return False
            try:
                self.delete_license(terms)
            except OSError as error:
                self.log(f"cannot delete {self.state_file}.license: {error}")
                return False
        return True

    def delete_license(self, terms: Fields) -> None:
        """Deletes the signed license; what is known beside its text stays."""
        remove(f"{self.state_file}.license")
        kept = {**terms, "days": None, "borrowed": False}
        self.write_record("license.terms", kept if terms.get("key_id") else None)

    def unchecked_claims(self) -> Fields:
        """The claims of the kept license without a look at its signature; none if there is no license."""
        with contextlib.suppress(OSError, LookupError, TypeError, ValueError, RecursionError):
            return read_claims(read_license(f"{self.state_file}.license"))
        return {}

    def give_back(self) -> int | None:
        """
        Releases the machine, and deletes the signed license. Returns until when the service keeps the place taken, in
        Unix seconds; None if it is free. Raises Refused if the service does not confirm the release: the license stays.
        """
        self.release()
        if genuine_status("release", self.answer) not in (200, 404):
            why = self.no_answer or to_why("release", self.answer, "")
            code = self.refusal.code if self.refusal is not None and not self.no_answer else ""
            raise Refused(f"the place was not given back, and the license stays: {why}", code)
        terms, claims = self.terms(), self.unchecked_claims()
        until = max(taken_until(terms), end_of_place(claims))
        self.delete_license({**terms, "taken_until": until})
        return until if until > time.time() else None

    def claims(self) -> Fields:
        """Returns the claims of the signed license; raises Refused if it is not good now. Call it at every use."""
        before = self.verified[0]
        claims, terms = self.kept_license()
        if before not in ("", self.verified[0]):
            # Another process has opened a bundle, which may have corrected the clock.
            saved = self.read()
            if saved.owner == self.state.owner:
                self.state = dataclasses.replace(self.state, seen=saved.seen)
        now, highest = int(time.time()), highest_of(terms)
        key_id = terms.get("key_id") or claims.get("key_id")
        seen = clock_after(self.state.seen, highest, claims["iat"])
        try:
            self.check_terms(claims, key_id, now, seen, closed=self.is_closed(terms))
        except Refused:
            # Also after its end: otherwise the clock could be set back to a time before it.
            with self.lock, contextlib.suppress(OSError):
                if now > self.state.seen + 60:
                    self.state = dataclasses.replace(self.state, seen=now)
                    self.write()
            raise
        with self.lock, contextlib.suppress(OSError):
            if claims["iat"] > highest or now > seen + 60:  # so that not every use writes the file
                self.state = dataclasses.replace(self.state, seen=max(seen, now))
                self.write()
            # A file that somebody put there: from now on only licenses of its key are accepted.
            if claims["iat"] > highest or not terms.get("key_id"):
                self.write_terms(terms, claims, key_id, None, False)
        return claims

    def kept_license(self) -> tuple[Fields, Fields]:
        """
        Returns the claims of the kept license, and what is known beside its text. Raises Refused if there is none of
        this key and this machine, but not if it is not good now.
        """
        self.pinned_keys()
        path = f"{self.state_file}.license"
        try:
            license = read_license(path)
        except FileNotFoundError:
            raise Refused(explain("license_missing", closed=self.missing() != "")) from None
        except OSError as error:
            raise Refused(f"cannot read {path}: {to_reason(error)}") from None
        terms = read_fields(f"{path}.terms")
        if terms.get("owner", self.state.owner) != self.state.owner:
            raise Refused("the license is for another key")
        claims = self.verify(license)
        self.check_names(claims, terms)
        return claims, terms

    def check_names(self, claims: Fields, terms: Fields) -> None:
        key_id = terms.get("key_id") or claims.get("key_id")
        check_names(claims, audience=self.audience, key_id=str(key_id), fingerprint=self.state.fingerprint)

    def open_bundle(self, path: str, models_folder: str | None = None, files_folder: str | None = None) -> Bundle:
        """
        Replaces the license by that of a bundle, and copies its models and its other files into these folders, if they
        are given. Checks the whole bundle before: one that is refused changes nothing.
        """
        pinned = self.pinned_keys()
        folders = {"model": models_folder, "file": files_folder}
        refuse_root(self.state_file)
        for folder in folders.values():
            if folder is not None:
                check_folder(folder)
                refuse_root(folder)
        try:
            with open(path, "rb") as file:
                is_license = file.read(len(LICENSE_BEGIN)) == LICENSE_BEGIN.encode()
        except OSError as error:
            raise Refused(f"cannot read {path}: {to_reason(error)}") from None
        if is_license:  # an exported file, which comes without models
            license = read_license(path)
            claims = self.verify(license)
            self.check_manifest(claims)
            self.accept(license, claims, days=None, borrowed=False)
            return Bundle(claims, [], [])
        paths: dict[str, list[str]] = {kind: [] for kind in folders}
        new: dict[str, str] = {}  # the path of a file, and the path where it waits until all is checked

        def take(entry: Fields, content: Iterable[bytes]) -> None:
            folder = folders[entry["kind"]]
            path = os.path.join(folder, entry["path"].partition("/")[2]) if folder is not None else ""
            if path in new:
                raise Refused(f"two files of the bundle would be {path}: name two folders")
            if folder is None or checksum_of(path) == f"sha256:{entry['sha256']}":
                for _ in content:
                    pass
            else:
                remove_left(path)
                new[path] = write_new(path, content)
            if folder is not None:
                paths[entry["kind"]].append(path)

        try:
            with open(path, "rb") as file:
                license = read_bundle(file, pinned, self.check_manifest, take)
            claims = self.verify(license)
            self.accept(license, claims, days=None, borrowed=False, new=new)
        finally:
            for waiting in new.values():
                remove(waiting)
        return Bundle(claims, paths["model"], paths["file"])

    def check_manifest(self, manifest: Fields) -> None:
        """Refuses a bundle for others, or an old one, before it is read to its end."""
        self.check_names(manifest, self.terms())
        is_older = False
        with contextlib.suppress(Refused):
            kept = self.kept_license()[0]
            is_older = manifest["iat"] < kept["iat"] and manifest["jti"] != kept.get("jti")
        if is_older:
            raise Refused("this bundle is older than the license that is there")

    def verify(self, license: str) -> Fields:
        """As the function, which takes some time, but once for each text."""
        if self.verified[0] != license:
            self.verified = (license, verify(license, self.pinned_keys()))
        return self.verified[1]

    def check_terms(self, claims: Fields, key_id: Any, now: int, seen: int, *, closed: bool) -> None:
        names = {"audience": self.audience, "key_id": key_id, "fingerprint": self.state.fingerprint}
        check_terms(claims, **names, now=now, seen=seen, closed=closed)

    def pinned_keys(self) -> list[Fields]:
        if not self.pinned or not self.audience:
            raise Refused(NOT_PINNED)
        return self.pinned

    def terms(self) -> Fields:
        """What is known of the kept license beside its text."""
        return self.read_record("license.terms")

    # Models

    def models(self) -> list[Fields]:
        """Returns the models that the key may load. Their links end after 15 minutes."""
        names = ("name", "version", "download_url", "checksum")
        models = self.ask("models", None)["models"]
        return [model for model in models if is_list_of(str, [to_dict(model).get(name) for name in names])]

    def download(self, name: str, version: str | None = None, *, folder: str) -> str:
        """
        Downloads a model and returns the absolute path of its file. Continues an interrupted download, and fetches no
        file that is there already. If the service gives no answer, a file that was downloaded earlier is good enough
        while `may_work` is true: without `version` the one that was downloaded last.
        """
        check_folder(folder)
        folder = os.path.abspath(folder)
        try:
            model = self.find_model(name, version)
        except Refused as error:
            is_unasked = isinstance(error, NoAnswer) or self.missing() != ""
            found = find_downloaded(name, version, folder) if is_unasked and self.may_work() else None
            if found is None:
                raise
            self.log(f"download: {to_line(error)}; {found} is there already")
            return found
        path = os.path.join(folder, file_name_of(model))
        checksum = model["checksum"]
        if checksum_of(path) == checksum:
            with contextlib.suppress(OSError):  # the folder may be read-only
                keep_checksum(path, checksum)
            return path
        part, failures = Part(f"{path}.part"), 0
        most = part.size()
        while True:
            do, seconds = self.fetch_part(model, part, failures)
            if do == "done":
                break
            # A try that brought more of the file than any before is no failure.
            failures = 0 if part.size() > most else failures + 1
            most = max(most, part.size())
            if do == "fail" or failures == MAX_TRIES:
                raise Refused(f"the file of {to_line(name)} cannot be fetched: {self.cause}")
            self.log(f"download: {self.cause}; {part.size()} bytes are there; again in {seconds} s")
            if do == "list_again":
                model = self.find_model(name, model["version"])
            elif do == "anew":
                part.delete()
            pause(seconds, threading.Event())
        if checksum_of(part.path) != checksum:
            part.delete()
            raise Refused(f"the file of {to_line(name)} is not the one of the list: its checksum differs")
        os.replace(part.path, path)
        part.delete()
        keep_checksum(path, checksum)
        return path

    def find_model(self, name: str, version: str | None) -> Fields:
        for model in self.models():
            if model.get("name") == name and version in (None, model.get("version")):
                return model
        wanted = name if version is None else f"{name} {version}"
        raise Refused(to_line(f"there is no model {wanted}, or the license does not include it"))

    def fetch_part(self, model: Fields, part: Part, failures: int) -> tuple[str, int]:
        """Asks for the rest of a file once. Returns what to do next, and the seconds to wait before it."""
        have, etag, size = part.size(), part.etag(), to_bytes(model.get("size_mb"))
        url = model["download_url"]
        if not url.lower().startswith(("http://", "https://")):
            self.cause = "its link has neither https:// nor http://"
            return "fail", 0
        headers = {"Range": f"bytes={have}-", "If-Range": etag} if have > 0 and etag is not None else {}
        try:
            response = open_url(urllib.request.Request(url, headers=headers), WebRedirect(), IDLE_SECONDS)
        except NETWORK_ERRORS as error:
            self.cause = to_cause(error)
            return decide_download(have, etag, size, None, failures)
        with response:
            answer = Answer(response.status, headers_of(response), {})
            do, seconds = decide_download(have, etag, size, answer, failures)
            if do != "append" and (do != "anew" or response.status != 200):
                self.cause = TOO_LARGE if do == "fail" and response.status == 200 else f"status {response.status}"
                return do, seconds
            part.begin(have if do == "append" else 0, answer.headers.get("etag", ""))
            most = most_bytes(size) if size > 0 else None
            self.cause = part.receive(response, most)
            if self.cause == TOO_LARGE:
                part.delete()
                return "fail", 0
            if self.cause:
                return decide_download(have, etag, size, None, failures)
            total = parse_content_range(answer)[1] if response.status == 206 else None
            if total is None or part.size() >= total:
                return "done", 0
            self.cause = "the server sent a piece"
            return "retry", 0

    # Usage events

    def log_event(
        self, event_type: str, *, model_name: str | None = None, inference_type: str | None = None,
        duration_ms: float | None = None, success: bool | None = None, error_message: str | None = None,
        metadata: Mapping[str, Any] | None = None, occurred_at: datetime.datetime | str | None = None,
    ) -> str:
        """
        Puts an event into the queue, and returns its key. Never waits for a network, as `send_events` and `run_events`
        do. `occurred_at` is a time with its zone, or a text such as 2026-10-31T23:59:58.250Z; without it the event
        occurred now. Raises ValueError for fields that the service would refuse.
        """
        self.require_service()
        try:
            event = to_event(
                to_time(time.time() if occurred_at is None else occurred_at), event_type,
                model_name=model_name, inference_type=inference_type, duration_ms=duration_ms, success=success,
                error_message=error_message, metadata=metadata,
            )
            check_use(event)
        except ValueError as error:
            raise ValueError(f"the event cannot be logged: {error}") from None
        self.events.add(event)
        return str(event["idempotency_key"])

    def send_events(self, timeout: float | None = None) -> Counts:
        """
        Sends the events that wait, oldest first, until none is left or four tries in a row failed. Begins no request
        and no wait after `timeout` seconds; by default there is no such bound.
        """
        self.require_service()
        ends = time.monotonic() + timeout if timeout is not None else None
        accepted, refused, _ = self.send_all(threading.Event(), ends)
        return Counts(accepted, refused, self.events.waiting())

    def run_events(self, stopped: threading.Event | None = None) -> None:
        """Sends events as they come, until the service refuses the key, or until the event."""
        self.require_service()
        stopped = stopped or threading.Event()
        while not stopped.is_set():
            seconds = LOOK_SECONDS
            try:
                if self.events.waiting() > 0:
                    following = self.send_all(stopped)[2]
                    if following == "stop":
                        return
                    seconds = SEND_SECONDS if following == "done" else BROKEN_SECONDS
            except OSError as error:  # such as a full disk: the events stay
                self.log(f"events: {to_line(error)}")
                seconds = BROKEN_SECONDS
            pause(seconds, stopped)

    def send_all(self, stopped: threading.Event, ends: float | None = None) -> tuple[int, int, str]:
        """
        Returns how many events were accepted and refused, and "done", "stop", or "send" after four failures. Begins no
        request and no wait that would end later than `ends`.
        """
        accepted = refused = failures = 0
        most = largest = MAX_BATCH_EVENTS
        following = "done"
        while failures < MAX_TRIES and following != "stop" and not stopped.is_set() and self.events.waiting() > 0:
            if ends is not None and time.monotonic() >= ends:
                break
            sent = self.send_batch(most, failures)
            following = sent.next
            if following == "halve" and sent.most is not None:
                largest = sent.most  # the service takes no more at once
            elif following == "done" and most == 1 and sent.accepted == 0:
                largest = MAX_BATCH_EVENTS  # a single event was too large, and is gone
            most = sent.most or (most if sent.wait_seconds > 0 else largest)
            accepted, refused = accepted + sent.accepted, refused + len(sent.refused)
            failures = failures + 1 if sent.wait_seconds > 0 else 0
            if 0 < failures < MAX_TRIES:
                if ends is not None and time.monotonic() + sent.wait_seconds >= ends:
                    break
                pause(sent.wait_seconds, stopped)
        self.gave_up = self.no_count if failures == MAX_TRIES else ""
        return accepted, refused, following

    def send_batch(self, most: int, failures: int) -> Settled:
        """Sends the oldest events: at most so many."""
        with self.sending:
            batch = self.events.take(most)
            now = int(time.time())
            too_old = [is_too_old(event, now) for event in batch.events]
            events = [event for event, is_old in zip(batch.events, too_old) if not is_old]
            why = ("EVENT_TOO_OLD", "the event is older than 7 days")
            refused = [(index, *why) for index, is_old in enumerate(too_old) if is_old]
            line = ""
            settled = Settled([], 0, [], "done", 0)
            if events:
                lines = (line for line, is_old in zip(batch.lines, too_old) if not is_old)
                body = b'{"events":[' + b",".join(lines) + b"]}"
                answer, self.cause = self.send("events", body, MAX_RESULTS_BYTES)
                settled = settle_events(events, answer, failures)
                if settled.next == "stop" and answer is not None and answer.status == 400 and len(events) > 1:
                    # Perhaps this service takes fewer events at once. A single one that is wrong stops the queue.
                    settled = settled._replace(next="halve", most=len(events) // 2)
                self.no_count = to_why("events", answer, self.cause)
                line = f"{describe('events', answer, self.cause)}; "
                sentence = to_line(answer.body.get("error", "")) if answer is not None else ""
            then = f"send in {settled.wait_seconds} s" if settled.wait_seconds > 0 else settled.next
            if settled.next == "stop":
                then = f"stop: {sentence}"
            for event, code, error in [
                *((batch.events[index], code, error) for index, code, error in refused),
                *((events[index], code, error) for index, code, error in settled.refused),
            ]:
                self.tell_refused(event, code, error)
            settled = settled._replace(refused=refused + settled.refused)
            if settled.kept != batch.events or batch.is_damaged:
                self.events.replace(batch.text, settled.kept)
        damaged = "damaged lines dropped; " if batch.is_damaged else ""
        waiting = self.events.waiting()
        counts = f"{settled.accepted} accepted, {len(settled.refused)} refused, {waiting} waiting"
        then = "next batch" if then == "done" and waiting > 0 else then
        self.log(f"events: {line}{damaged}{counts}; {then}")
        return settled

    def tell_refused(self, event: Fields, code: str, error: str) -> None:
        try:
            self.on_refused(event, code, error)
        except Exception as problem:  # it must not stop the loop, nor send the batch again
            self.log(f"events: on_refused failed: {to_line(problem)}")

    # Reports of use

    def record(
        self, event_type: str, *, model_name: str | None = None, inference_type: str | None = None,
        duration_ms: float | None = None, success: bool | None = None, error_message: str | None = None,
        metadata: Mapping[str, Any] | None = None, occurred_at: datetime.datetime | str | None = None,
    ) -> str:
        """
        Keeps a use for the next report, and returns its key. For a machine that never has a network; its license must
        have a key for reports. An inference is a unit of the quota, also with `success=False`: record only what counts.
        Raises ValueError for fields that the service would refuse.
        """
        claims, machine, _ = self.report_terms()
        now = max(time.time(), claims["iat"])  # an earlier clock is wrong
        use = to_event(
            to_time(now if occurred_at is None else occurred_at), event_type,
            model_name=model_name, inference_type=inference_type, duration_ms=duration_ms, success=success,
            error_message=error_message, metadata=metadata,
        )
        check_use(use)
        if self.read_head(claims, machine) is None:
            head = Head(secrets.token_hex(16), str(claims["sub"]), machine)
            new = write_new(self.head_path, [to_json(head._asdict())])
            try:
                put_new(new, self.head_path)  # of several processes, one alone begins the journal
            finally:
                remove(new)
        self.journal.add(use)
        return str(use["idempotency_key"])

    def report(self, to: str, with_events: bool = False) -> int | None:
        """
        Writes what was recorded since the last report as the next one, with each event if wanted, and returns its
        number; None if nothing is new. What does not fit into one report waits for the next. Replaces no file.
        """
        check_folder(os.path.dirname(to) or ".")
        refusal = "another report is being written: wait until it is done"
        with self.reporting, lock_file(f"{self.journal.path}.lock", refusal):
            claims, machine, key = self.report_terms()
            head = self.read_head(claims, machine)
            made = None
            if head is not None:
                if self.journal.waiting() > 0:
                    refuse_existing(to)
                self.journal.take(head.cut)
                now = max(int(time.time()), claims["iat"])  # an earlier clock is wrong
                lines = self.journal.read()
                made = write_report(lines, head, key, made_at=now, clients=[CLIENT], with_events=with_events)
            damaged = f"{made.dropped} damaged lines dropped; " if made is not None and made.dropped > 0 else ""
            if head is None or made is None or made.uses == 0:
                remove(self.journal.taken)
                self.log(f"report: {damaged}nothing is new since report {head.number if head is not None else 0}")
                return None
            number, text = head.number + 1, f"{made.text}\n".encode()
            # In this order a crash loses nothing, and no number is used twice. The copy for others comes last.
            os.makedirs(self.reports, 0o700, exist_ok=True)
            write_file(self.report_path(number), [text])
            head = head._replace(number=number, digest=sha256(made.text), cut=made.cut)
            write_file(self.head_path, [to_json(head._asdict())])
            try:
                self.journal.drop(made.cut)
                # Who looks finds an empty journal rather than none.
                open(self.journal.path, "ab", opener=open_private).close()
                rest = f"{self.journal.waiting()} waiting"
            except OSError as error:  # such as a full disk: the report counts already
                rest = f"the next report cuts the journal: {to_reason(error)}"
            self.log(f"report: {damaged}{made.uses} uses in report {number}, {rest}")
            try:
                write_once(to, text)
            except (OSError, Refused) as error:
                why = to_reason(error) if isinstance(error, OSError) else str(error)
                kept = f"report {number} is in {self.reports}, but not at {to}"
                raise Refused(f"{kept}: {why}; use report-again") from None
            return number

    def report_again(self, number: int, to: str) -> None:
        """Writes an earlier report again, the same bytes. Replaces no file."""
        check_folder(os.path.dirname(to) or ".")
        head = to_head(read_fields(self.head_path))
        text = self.read_report(number) if head is not None and 1 <= number <= head.number else ""
        if head is None or text == "":
            raise Refused(f"there is no report {number}")
        if not self.is_in_chain(head, number, text):
            path = self.report_path(number)
            raise Refused(f"{path} is not the report {number} of this journal: put back the file that was there")
        write_once(to, f"{text}\n".encode())

    def read_report(self, number: int) -> str:
        """The text of a report without its newline; "" if there is none."""
        with contextlib.suppress(OSError, ValueError), open(self.report_path(number), encoding="ascii") as file:
            return file.read(MAX_REPORT_BYTES).strip()
        return ""

    def is_in_chain(self, head: Head, number: int, text: str) -> bool:
        """Whether a report is of this journal, and what those after it say, as far as their files are there."""
        while True:
            fields = to_fields(decode_payload(text))
            if (fields.get("journal"), fields.get("number")) != (head.journal, number):
                return False
            digest, number = sha256(text), number + 1
            if number > head.number:
                return digest == head.digest
            text = self.read_report(number)
            if text == "":
                return True
            if to_fields(decode_payload(text)).get("previous") != digest:
                return False

    @property
    def head_path(self) -> str:
        return f"{self.journal.path}.head"

    @property
    def reports(self) -> str:
        return f"{self.state_file}.reports"

    def report_path(self, number: int) -> str:
        return os.path.join(self.reports, f"{number:06}.report")

    def report_terms(self) -> tuple[Fields, str, bytes]:
        """The claims of the license, also if it is not good now, and how this machine names and signs its reports."""
        claims = self.kept_license()[0]
        report = to_dict(claims.get("report"))
        machine = report.get("machine")
        with contextlib.suppress(TypeError, ValueError):
            key = decode(report.get("key", ""))
            if isinstance(machine, str) and len(key) == 32 and isinstance(claims.get("sub"), str):
                return claims, machine, key
        raise Refused("this license has no key for reports: ask the vendor for a file with --fingerprint")

    def read_head(self, claims: Fields, machine: str) -> Head | None:
        """The file beside the journal; None before the first use."""
        path = self.head_path
        has_begun = os.path.exists(path) or os.path.exists(self.reports)
        head = to_head(read_fields(path))
        if head is None and has_begun:
            # A new journal would begin at number 1, which the service refuses.
            raise Refused(f"{path} is missing or damaged: restore it, or move it, the journal and {self.reports} away")
        if head is not None and (head.license_id, head.machine) != (claims["sub"], machine):
            raise Refused(
                f"{self.journal.path} belongs to another license or machine: "
                f"move it, its .head and {self.reports} away"
            )
        return head

    # Requests

    def ask(self, request: str, fields: Fields | None) -> Fields:
        """Sends a request four times at most. Returns the body of a success; raises Refused otherwise."""
        limit = MAX_MODELS_BYTES if request == "models" else MAX_ANSWER_BYTES
        failures = 0
        while True:
            answer, self.cause = self.send(request, fields, limit)
            status = genuine_status(request, answer)
            self.log(f"{request}: {describe(request, answer, self.cause)}")
            if answer is not None and status == 200:
                return answer.body
            if not is_failure(status):
                raise Refused(to_why(request, answer, self.cause), code_of(answer.body) if answer is not None else "")
            failures += 1
            if failures == MAX_TRIES:
                code = code_of(answer.body) if answer is not None and status > 0 else ""
                raise NoAnswer(to_why(request, answer, self.cause), code)
            pause(wait_after(status, answer, failures - 1), threading.Event())

    def send(
        self, request: str, fields: Fields | bytes | None, limit: int = MAX_ANSWER_BYTES
    ) -> tuple[Answer | None, str]:
        """Sends a request once. Returns the answer, or None and why there was none."""
        self.require_service()
        body = json.dumps({"api_key": self.api_key, **fields}).encode() if isinstance(fields, dict) else fields
        headers = {} if isinstance(fields, dict) else {"X-API-Key": self.api_key}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            url = f"{self.url.rstrip('/')}{PATHS[request]}"
            with open_url(urllib.request.Request(url, body, headers), NoRedirect(), TIMEOUT_SECONDS) as response:
                return Answer(response.status, headers_of(response), to_fields(read_body(response, limit))), ""
        except NETWORK_ERRORS as error:
            return None, to_cause(error)

    # Files

    def read(self) -> State:
        names = [field.name for field in dataclasses.fields(State)]
        fields = {name: value for name, value in read_fields(self.state_file).items() if name in names}
        state = State(**fields)
        texts = (state.owner, state.fingerprint, state.machine_id or "")
        numbers = (state.until, state.seen, state.failures)
        is_whole = all(isinstance(text, str) for text in texts) and all(type(each) is int for each in numbers)
        return state if is_whole and all(0 <= each <= LAST_SECOND for each in numbers) else State()

    def write(self) -> None:
        write_file(self.state_file, [json.dumps(dataclasses.asdict(self.state), separators=(",", ":")).encode()])

    def try_write(self) -> None:
        """The state in memory counts until the disk works again."""
        try:
            self.write()
        except OSError as error:
            self.log(f"cannot write {self.state_file}: {error}")

    def read_record(self, name: str) -> Fields:
        """The fields of a file beside the state; none if it belongs to another key."""
        record = read_fields(f"{self.state_file}.{name}")
        return record if record.get("owner") == self.state.owner else {}

    def write_record(self, name: str, record: Fields | None) -> None:
        path = f"{self.state_file}.{name}"
        if record is None:
            remove(path)
        else:
            write_file(path, [json.dumps({"owner": self.state.owner, **record}, separators=(",", ":")).encode()])

    def read_saved(self) -> Saved | None:
        record = self.read_record("validated")
        fetched_at, until, body = record.get("fetched_at"), record.get("until"), record.get("body")
        if type(fetched_at) is not int or type(until) is not int or not isinstance(body, dict):
            return None
        return Saved(fetched_at, until, body) if is_genuine("validate", Answer(200, {}, body)) else None

NOT_PINNED = (
    "no keys are pinned: give the client `keys` and `audience` (for commands LICENSE_KEYS and LICENSE_AUDIENCE)"
)
TOO_LARGE = "it is larger than the list says"

def to_bytes(size_mb: object) -> int:
    """Megabytes of the list as bytes; 0 if they are not known."""
    return round(size_mb * 1e6) if isinstance(size_mb, (int, float)) and 0 < size_mb < 1e12 else 0

class Part:
    """The part of a file that was downloaded so far, with the tag of the file beside it."""

    def __init__(self, path: str) -> None:
        self.path, self.tag_path = path, f"{path}.etag"

    def size(self) -> int:
        try:
            return os.path.getsize(self.path)
        except FileNotFoundError:
            return 0

    def etag(self) -> str | None:
        with contextlib.suppress(OSError, ValueError), open(self.tag_path, encoding="ascii") as file:
            text = file.read(1_000)
            return text if re.fullmatch('"[!#-~]{1,900}"', text) else None
        return None

    def begin(self, size: int, etag: str) -> None:
        """Keeps so many bytes. A weak tag does not say that the bytes are the same, so it is as good as none."""
        if size == 0:
            self.delete()
            if re.fullmatch('"[!#-~]{1,900}"', etag):
                write_file(self.tag_path, [etag.encode()])

    def receive(self, response: Any, most: int | None) -> str:
        """Appends the body. Returns why it is not whole; "" if it is."""
        parts = iter(receive(response))
        size = self.size()
        with open(self.path, "ab", opener=open_private) as file:
            while True:
                try:
                    part = next(parts, b"")
                except NETWORK_ERRORS as error:
                    return to_cause(error)
                if not part:
                    file.flush()
                    os.fsync(file.fileno())
                    return ""
                size += len(part)
                if most is not None and size > most:
                    return TOO_LARGE
                file.write(part)

    def delete(self) -> None:
        remove(self.path)
        remove(self.tag_path)

# The commands

PROGRAM = "claviger_client.py"

# The arguments of each command, of which those in brackets may be left out, and what it does.
COMMANDS = {
    "activate": ("", "take a place, or renew it"),
    "run": ("", "keep the place, and send the events that wait"),
    "status": ("", "say whether this machine may work, and if not, why"),
    "release": ("", "give the place back"),
    "validate": ("", "ask what the key may do"),
    "borrow": ("[DAYS]", "fetch a signed license, to work without a network"),
    "give-back": ("", "give the place back, and delete the signed license"),
    "features": ("", "print the features and values of the license"),
    "models": ("", "list the models"),
    "download": ("NAME [VERSION] FOLDER", "download a model"),
    "log": ("TYPE [MODEL]", "put an event into the queue"),
    "send": ("", "send the events that wait"),
    "open-bundle": ("FILE [MODELS_FOLDER [FILES_FOLDER]]", "replace the license, and copy models and files"),
    "record": ("TYPE [MODEL]", "keep a use for the next report"),
    "report": ("FILE [--events]", "write a report of the use since the last one"),
    "report-again": ("NUMBER FILE", "write an earlier report again"),
    "check": ("LICENSE KEYS AUDIENCE KEY_ID [FINGERPRINT]", "check the file of a signed license"),
}

# These also work with neither the address of the service nor its key.
OFFLINE_COMMANDS = ("status", "features", "open-bundle", "record", "report", "report-again")

SETTINGS = """Set LICENSE_URL, LICENSE_KEY and LICENSE_STATE, and perhaps LICENSE_FINGERPRINT, LICENSE_NAME,
LICENSE_KEYS and LICENSE_AUDIENCE. check needs none of them; status, features, open-bundle, record,
report and report-again also work with neither LICENSE_URL nor LICENSE_KEY, in a closed network"""

def render_help() -> str:
    rows = [(f"{name} {names}".strip(), text) for name, (names, text) in COMMANDS.items()]
    lines = [f"  {row:34} {text}" if len(row) <= 34 else f"  {row}\n{'':37}{text}" for row, text in rows]
    return "\n".join([f"Usage: {PROGRAM} COMMAND", *lines, SETTINGS])

def find_help(command: str, args: Sequence[str]) -> str:
    """The help that is asked for, of all commands or of one; "" if none is."""
    wanted = ("--help", "-h", "help")
    if command in wanted:
        command = args[0] if args else ""
    elif not args or args[-1] not in wanted[:2]:
        return ""
    if command not in COMMANDS:
        return render_help()
    names, text = COMMANDS[command]
    return f"Usage: {f'{PROGRAM} {command} {names}'.strip()}\n  {text}"

def is_right(command: str, args: Sequence[str]) -> bool:
    """Whether the arguments of a command have their form, if there are as many as it takes."""
    if command == "report":
        return len(args) < 2 or args[1] == "--events"
    digits = {"borrow": 5, "report-again": 9}.get(command, 0)
    return digits == 0 or not args or re.fullmatch(f"[0-9]{{1,{digits}}}", args[0]) is not None

def explain_usage(command: str, args: Sequence[str]) -> str:
    """What is wrong with a command or with its arguments; "" if nothing is."""
    options = [each for each in (command, *args) if each.startswith("-") and (command, each) != ("report", "--events")]
    if options:
        return to_line(f"there is no option {options[0]}: {PROGRAM} --help says what there is")
    if command not in COMMANDS:
        return to_line(f"there is no command {command}") if command else "no command is given"
    names = COMMANDS[command][0].split()
    needed = [name for name in names if not name.startswith("[")]
    if len(args) < len(needed):
        *others, last = needed
        return f"{command} needs {', '.join(others)}{' and ' if others else ''}{last}"
    is_good = len(args) <= len(names) and is_right(command, args)
    return "" if is_good else f"{command} takes {' '.join(names) or 'no arguments'}"

def print_line(text: object) -> None:
    """Prints to stdout. What read it may have ended."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def print_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

def print_refused(event: Fields, code: str, error: str) -> None:
    print_error(f"event {event['idempotency_key']} is refused: {code} {error}")

def print_license(features: Iterable[str], values: Fields) -> None:
    for name in features:
        print_line(f"feature {name}")
    for name, value in values.items():
        print_line(f"value {name} {json.dumps(value)}")

def print_claims(claims: Fields) -> None:
    print_line(f"{claims['license_type']} until {render(claims['exp'])[:10]}")
    print_license(features_at(claims, int(time.time())), entitlements_of(claims))

def check_file(license_file: str, keys_file: str, audience: str, key_id: str, fingerprint: str | None = None) -> None:
    """Checks a file with a license, and keeps the latest time that was seen beside it."""
    license, pinned, now = read_license(license_file), read_keys(keys_file), int(time.time())
    seen = latest_time(f"{license_file}.seen", now)
    print_claims(check(license, pinned, audience=audience, key_id=key_id, fingerprint=fingerprint, now=now, seen=seen))

def run_command(client: Client, command: str, args: Sequence[str]) -> bool:
    """Runs a command to its end. Returns true for yes and done."""
    if command in ("activate", "release"):
        return client.activate() if command == "activate" else client.release()
    if command == "run":
        threading.Thread(target=client.run_events, daemon=True).start()
        client.run()
        return False
    if command == "status":
        machine_id, fingerprint = client.state.machine_id, client.state.fingerprint
        print_line(f"{client.describe()}\nmachine {machine_id or 'none'}\nfingerprint {fingerprint}")
        why = client.why()
        if why is not None:
            print_error(f"refused: {why}")
        return why is None
    if command == "validate":
        body = client.validate()
        if body is not None:
            print_line(json.dumps(body))
        return body is not None and body.get("valid") is True
    if command == "borrow":
        print_claims(client.borrow(int(args[0]) if args else None))
    elif command == "give-back":
        until = client.give_back()
        if until is not None:
            print_line(f"taken until {render(until)}")
    elif command == "features":
        if client.license_answer() is None:
            if not client.pinned and not client.missing():
                raise Refused("no answer is kept: run validate")
            client.claims()  # says why there is no license either
        print_license(client.features(), client.entitlements())
    elif command == "models":
        for model in client.models():
            print_line(to_line(f"{model.get('name')} {model.get('version')} {model.get('checksum')}"))
    elif command == "download":
        print_line(client.download(args[0], args[1] if len(args) == 3 else None, folder=args[-1]))
    elif command == "log":
        print_line(client.log_event(args[0], model_name=args[1] if len(args) == 2 else None))
    elif command == "record":
        print_line(client.record(args[0], model_name=args[1] if len(args) == 2 else None))
    elif command == "report":
        number = client.report(args[0], with_events=len(args) == 2)
        if number is not None:
            print_line(number)
    elif command == "report-again":
        client.report_again(int(args[0]), args[1])
    elif command == "open-bundle":
        bundle = client.open_bundle(*args)
        print_claims(bundle.claims)
        for kind, paths in (("model", bundle.models), ("file", bundle.files)):
            for path in paths:
                print_line(f"{kind} {path}")
    else:
        counts = client.send_events()
        print_line(f"accepted {counts.accepted}\nrefused {counts.refused}\nwaiting {counts.waiting}")
        return counts.waiting == 0
    return True

def main(args: Sequence[str]) -> int:
    command, *more = args or [""]
    if command not in COMMANDS and 4 <= len(args) <= 5 and os.path.isfile(command):
        command, more = "check", [*args]  # the program that checked licenses earlier had no commands
    help = find_help(command, more)
    if help:
        print_line(help)
        return 0
    if command == "report":
        more.sort(key="--events".__eq__)
    url, key, file, fingerprint, name, keys, audience = (
        os.environ.get(f"LICENSE_{setting}", "")
        for setting in ("URL", "KEY", "STATE", "FINGERPRINT", "NAME", "KEYS", "AUDIENCE")
    )
    needed = [] if command == "check" else [file] if command in OFFLINE_COMMANDS else [file, key, url]
    wrong = explain_usage(command, more)
    if not wrong and "" in needed:
        wrong = f"LICENSE_{('STATE', 'KEY', 'URL')[needed.index('')]} is not set"
    if wrong:
        print_error(wrong if "--help" in wrong else f"{wrong}\n{render_help()}")
        return 2
    try:
        if command == "check":
            check_file(*more)
            return 0
        client = Client(
            url, key, file, fingerprint=fingerprint, name=name, log=print_error,
            keys=keys or None, audience=audience, on_refused=print_refused,
        )
        is_done = run_command(client, command, more)
        if not is_done and client.gave_up:
            print_error(f"gave up after four requests: {client.gave_up}")
        return 0 if is_done else 1
    except WrongSetting as error:
        print_error(f"Wrong LICENSE_{error.setting}: {error}")
        return 2
    except NoAnswer as error:
        print_error(f"gave up after four requests: {error.cause}")
        return 1
    except (Refused, OSError, QueueFull, ValueError) as error:
        is_refusal = isinstance(error, Refused) or command == "check"
        print_error(f"refused: {error}" if is_refusal else str(error))
        return 1

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
