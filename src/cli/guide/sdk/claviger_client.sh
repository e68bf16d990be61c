#!/bin/sh
# Takes a place for this machine, and keeps it by heartbeats. Needs a POSIX shell, curl, and sha256sum or shasum.
# `claviger guide sdk` has the rules. `decide` contains them, and the test vectors are for `decide`.
#
# As a module: `. ./claviger_client.sh` in a script with another name, then `open_state && may_work` at every use, which
# read the state file. Works under `set -eu`.
# As a command: claviger_client.sh activate | run | status | release
# Environment: LICENSE_URL, LICENSE_KEY, LICENSE_STATE (a file), and perhaps LICENSE_FINGERPRINT and LICENSE_NAME.

offline_seconds=604800 # the longest time for which a place may be used without an answer: 7 days
check_seconds=3600     # the longest time between two heartbeats
full_seconds=30        # the wait for a place if the answer names none
clock_tolerance=300
timeout_seconds=10 # the service answers within 5
nap_seconds=15     # a sleeping computer stops timers, so the loop looks at the clock this often

# The variables of the state, which outlives a restart. Times are Unix seconds of the local clock.
#   owner        a hash of address, key and fingerprint: the state is worth nothing to others
#   fingerprint, machine_id
#   until        until when the program may work without another answer; 0 without a place
#   seen         the latest time that was seen
#   failures     how many requests in a row got no useful answer
# Those of an answer: status, headers, body, and cause (why there is none). Those of a decision: next (a request, done or
# stop) and wait.
until=0 seen=0 # before `open_state`, there is no place

may_work() { # may_work [NOW]: a clock that was set back does not make a place last longer
  set -- "${1:-$(date +%s)}"
  [ "$1" -lt "$until" ] && [ "$1" -ge $((seen - clock_tolerance)) ]
}

first_request() { # sets next
  if [ "$until" -gt 0 ]; then next=heartbeat; else next=activate; fi
}

decide() { # decide REQUEST SENT_AT NOW: reads the answer; sets the state, next and wait
  usual=$(minimum $((1 << (failures < 6 ? failures : 6))) 60)
  [ "$status" != 429 ] || usual=60
  again=$(retry_after)
  is_genuine "$1" || status=000
  [ "$seen" -gt "$3" ] || seen=$3
  case $1:$status in
    release:200 | release:404) lose "done" 0 ;;
    *:200)
      ends=$(text expires_at)
      seen=$3 failures=0 next=heartbeat machine_id=$(text machine_id)
      left=$offline_seconds
      if [ -n "$ends" ]; then
        at=$(parse_date "$(header date)")
        [ "$at" -gt 0 ] || at=$2
        # Until the place ends, by the clock of the service, but no longer than offline_seconds, because a place of many
        # days can be released before its end.
        left=$(minimum $(($(parse_time "$ends") - at)) "$offline_seconds")
        [ "$left" -gt 0 ] || left=0
      fi
      # A third of the time, so that two heartbeats may fail. The service takes 10 a minute.
      until=$(($2 + left)) wait=$(minimum $((($2 + left - $3) / 3)) "$check_seconds")
      [ "$wait" -gt 6 ] || wait=6
      ;;
    heartbeat:404) lose activate 0 ;;
    activate:409 | heartbeat:409) lose activate "${again:-$full_seconds}" ;;
    *:000 | *:408 | *:425 | *:429 | *:5??)
      [ "$failures" -ge 99 ] || failures=$((failures + 1))
      next=$1 wait=${again:-$usual}
      ;;
    *) lose stop 0 ;;
  esac
}

lose() { # lose NEXT WAIT
  machine_id='' until=0 failures=0 next=$1 wait=$2
}

is_genuine() { # whether the service has answered, and not a proxy, a balancer or the log-in page of a network
  case $body in "{"*"}") ;; *) return 1 ;; esac
  case $status in
    200) ;;
    [45]??) [ -n "$(code)" ] && return || return 1 ;;
    *) return 1 ;;
  esac
  [ "$1" != release ] || { [ -n "$(field released true)" ] && return || return 1; }
  case $body in *'"machine_id":'*) ;; *) return 1 ;; esac
  [ -n "$(field expires_at null)" ] || [ "$(parse_time "$(text expires_at)")" -gt 0 ]
}

# The service writes JSON without spaces.
text() { printf '%s\n' "$body" | sed -n "s/.*[{,]\"$1\":\"\([^\"]*\)\".*/\1/p"; }
field() { printf '%s\n' "$body" | sed -n "s/.*[{,]\"$1\":\($2\)[,}].*/\1/p"; }
code() { text code | sed -n '/^[A-Z_]\{1,64\}$/p'; }
header() { printf '%s\n' "$headers" | awk -v name="$1:" 'tolower($1) == name { sub(/^[^ ]* */, ""); print; exit }'; }
minimum() { if [ "$1" -lt "$2" ]; then echo "$1"; else echo "$2"; fi; }

retry_after() { # whole seconds from 1 to an hour; nothing if the answer has none
  seconds=$(header retry-after | sed 's/^0*//')
  case $seconds in
    *[!0-9]*) ;;
    "") [ -z "$(header retry-after)" ] || echo 1 ;;
    ?????*) echo 3600 ;;
    *) minimum "$seconds" 3600 ;;
  esac
}

parse_time() { # parse_time 2027-01-15T08:00:00Z: Unix seconds; 0 if the text is not a time
  case $1 in
    [0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z) ;;
    *) echo 0 && return ;;
  esac
  # A leading zero would make a number octal, so each field is read with a 1 before it.
  printf '%s\n' "$1" | tr 'TZ:-' '    ' | {
    read -r year month day hour minute second
    month=$((1$month - 100))
    [ "$month" -gt 2 ] || { year=$((year - 1)) month=$((month + 12)); }
    days=$((365 * year + year / 4 - year / 100 + year / 400 + (153 * (month - 3) + 2) / 5 + 1$day - 100 - 719469))
    echo $((((days * 24 + 1$hour - 100) * 60 + 1$minute - 100) * 60 + 1$second - 100))
  }
}

parse_date() { # parse_date "Fri, 15 Jan 2027 08:00:00 GMT": Unix seconds; 0 if the text is not a time
  printf '%s\n' "$1" | {
    read -r _ day month year clock _
    names=JanFebMarAprMayJunJulAugSepOctNovDec
    before=${names%%"${month:-none}"*}
    number=$((${#before} / 3 + 1))
    [ "$number" -gt 9 ] || number=0$number
    parse_time "$year-$number-${day}T${clock}Z"
  }
}

find_fingerprint() { # the hashed id of this machine, as systemd asks for it to be used; nothing if there is none
  for file in /etc/machine-id /var/lib/dbus/machine-id; do
    id=$(cat "$file" 2> /dev/null) || id=
    [ ${#id} -ne 32 ] || { hash "claviger $id" && return; }
  done
}

hash() {
  sum=sha256sum
  command -v sha256sum > /dev/null || sum='shasum -a 256' # on macOS
  printf %s "$1" | $sum | cut -c 1-64
}

open_state() { # reads the state, if it is of this address, key and fingerprint
  if [ -z "${LICENSE_URL-}" ] || [ -z "${LICENSE_KEY-}" ] || [ -z "${LICENSE_STATE-}" ]; then
    echo "Set LICENSE_URL, LICENSE_KEY and LICENSE_STATE" >&2
    return 2
  fi
  case $LICENSE_URL in
    https://?* | http://?*) ;;
    *) echo "Wrong LICENSE_URL: the address of the service must begin with https:// or http://" >&2; return 2 ;;
  esac
  body=$(cat "$LICENSE_STATE" 2> /dev/null) || body=
  fingerprint=${LICENSE_FINGERPRINT:-$(find_fingerprint)}
  fingerprint=${fingerprint:-$(text fingerprint)}
  # A random fingerprint is stored before it is used: otherwise every start would take a new place.
  fingerprint=${fingerprint:-$(hash "$(head -c 32 /dev/urandom | od -A n -t x1)")}
  owner=$(hash "$LICENSE_URL $LICENSE_KEY $fingerprint")
  machine_id=$(text machine_id) until=$(number until) seen=$(number seen) failures=$(number failures)
  [ "$(text owner)" = "$owner" ] && [ -n "$until" ] && [ -n "$seen" ] && [ -n "$failures" ] && return
  machine_id='' until=0 seen=0 failures=0
  write_state
}
number() { field "$1" '[0-9]\{1,12\}'; }
quote() { printf '"%s"' "$(printf %s "$1" | sed 's/["\\]/\\&/g')"; }

write_state() { # writes a new file first, so that a crash leaves the old state or the new one
  id=null
  [ -z "$machine_id" ] || id=$(quote "$machine_id")
  (
    umask 077
    printf '{"owner":"%s","fingerprint":%s,"machine_id":%s,"until":%s,"seen":%s,"failures":%s}' \
      "$owner" "$(quote "$fingerprint")" "$id" "$until" "$seen" "$failures" > "$LICENSE_STATE.$$"
  ) 2> /dev/null && mv -- "$LICENSE_STATE.$$" "$LICENSE_STATE" && return
  echo "cannot write $LICENSE_STATE" >&2
  return 1
}

send() { # send REQUEST FIELDS: sets the answer. No list of processes shows the key, because it is no argument.
  answer=$(
    printf '{"api_key":%s,"fingerprint":%s%s}' "$(quote "$LICENSE_KEY")" "$(quote "$fingerprint")" "$2" |
      curl -q -sS -i --suppress-connect-headers --max-time "$timeout_seconds" --max-filesize 65536 \
        -H 'Content-Type: application/json' --data-binary @- "${LICENSE_URL%/}/v1/machines/$1" 2>&1
  ) || { cause=$(printf '%s\n' "$answer" | sed -n 's/^curl: ([0-9]*) //p' | to_line) && answer=; }
  answer=$(printf '%s\n' "$answer" | tr -d '\r')
  headers=$(printf '%s\n' "$answer" | sed '/^$/,$d')
  body=$(printf '%s\n' "$answer" | sed '1,/^$/d')
  status=$(printf '%s\n' "$headers" | sed -n '1s/^HTTP[^ ]* \([0-9]\{3\}\).*/\1/p')
  status=${status:-000}
}

step() { # step REQUEST: sends a request, decides, and says so
  more=
  [ "$1" != activate ] || more=,\"platform\":$(quote "$(uname -s)")
  [ "$1" != activate ] || [ -z "${LICENSE_NAME-}" ] || more=$more,\"name\":$(quote "$LICENSE_NAME")
  sent_at=$(date +%s)
  send "$1" "$more"
  now=$(date +%s)
  decide "$1" "$sent_at" "$now"
  write_state || :
  case $next in stop) then="stop: $(text error | to_line)" ;; done) then=$next ;; *) then="$next in $wait s" ;; esac
  echo "$1: $(describe_answer "$1"); $(describe); $then" >&2
}

describe() {
  if may_work "$(date +%s)"; then echo "may work until $(to_text "$until")"; else echo "may not work"; fi
}

# The option -r is for BSD and macOS.
to_text() { date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ 2> /dev/null || date -u -r "$1" +%Y-%m-%dT%H:%M:%SZ; }
describe_answer() { # describe_answer REQUEST
  if is_genuine "$1"; then echo "$status $(code)" | sed 's/ $//'; return; fi
  if [ "$status" = 000 ]; then echo "no answer: $cause"; else echo "no answer ($status)"; fi
}
to_line() { tr -cd '\40-\176' | cut -c 1-300; } # one line of printable characters, for the log

pause() { # pause SECONDS: by the local clock, which goes on while the computer sleeps
  # A tenth more at most, so that not all clients come back at the same moment.
  seconds=$(($1 + $1 * $(od -A n -t u1 -N 1 /dev/urandom) / 2550))
  began=$(date +%s) napped=0 passed=0
  while [ "$napped" -lt "$seconds" ] && [ "$passed" -lt "$seconds" ] && [ "$passed" -gt -"$clock_tolerance" ]; do
    nap=$(minimum "$nap_seconds" $((seconds - napped)))
    sleep "$nap" > /dev/null 2>&1 &
    wait $! # a signal ends this at once
    napped=$((napped + nap)) passed=$(($(date +%s) - began))
  done
}

run() { # keeps the place until the service refuses the key
  first_request
  while [ "$next" != stop ]; do
    step "$next"
    pause "$wait"
  done
}

try_often() { # try_often REQUEST: sends it four times at most; does not wait for a place
  for _ in 1 2 3; do
    step "$1"
    [ "$next" = "$1" ] && [ "$status" != 409 ] || return 0
    pause "$wait"
  done
  step "$1"
}

main() {
  case "$# ${1-}" in
    "1 activate" | "1 run" | "1 status" | "1 release") ;;
    "1 help" | "1 --help" | "1 -h") usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  open_state || exit $?
  case $1 in
    activate) try_often activate && may_work "$(date +%s)" ;;
    run) run; return 1 ;;
    status)
      printf '%s\nmachine %s\nfingerprint %s\n' "$(describe)" "${machine_id:-none}" "$fingerprint"
      may_work "$(date +%s)"
      ;;
    release) try_often release && [ "$next" = "done" ] ;;
  esac
}

usage() {
  echo "Usage: claviger_client.sh activate | run | status | release"
  echo "Set LICENSE_URL, LICENSE_KEY and LICENSE_STATE"
}

case ${0##*/} in claviger_client.sh) main "$@" ;; esac
