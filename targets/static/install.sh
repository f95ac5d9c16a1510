#!/bin/sh
# Installs qinglet on any Linux, brings an older one up to date, or removes it. `install.sh --help` says how.
set -u

here=$(cd "$(dirname "$0")" && pwd)
action=install prefix=/usr/local root=${DESTDIR:-}
state='' binary='' init='' dry='' purge='' unverified='' migrated=''

usage() {
	cat <<'END'
usage: install.sh [install | uninstall] [OPTION...]

  --prefix DIR    the program goes to DIR/bin (/usr/local)
  --state DIR     the state's folder (/var/lib/qinglet)
  --binary FILE   the program; else qinglet-TRIPLE for this machine, beside this script
  --unverified    the binary has no SHA256SUMS beside it
  --init NAME     systemd, openrc, busybox or none; else found by looking
  --root DIR      install into a file system at DIR, and start nothing (also: DESTDIR)
  --purge         with uninstall: remove the state too
  --dry-run       say what would be done and change nothing

An upgrade is the same command: the daemon is stopped, the program exchanged, the state brought up to date and the
daemon started; running tasks run on meanwhile. When a step fails, the old program is put back.
END
}

say() { echo "install: $*"; }
fail() { echo "install: $*" >&2; exit 1; }
# Does it, or says so.
run() {
	if [ -n "$dry" ]; then
		echo "would run: $*"
	else
		"$@"
	fi
}

while [ $# -gt 0 ]; do
	case $1 in
		install | uninstall) action=$1 ;;
		--prefix | --state | --binary | --init | --root)
			[ $# -ge 2 ] || { usage >&2; exit 2; }
			case $1 in
				--prefix) prefix=$2 ;;
				--state) state=$2 ;;
				--binary) binary=$2 ;;
				--init) init=$2 ;;
				--root) root=$2 ;;
			esac
			shift
			;;
		--unverified) unverified=yes ;;
		--purge) purge=yes ;;
		--dry-run) dry=yes ;;
		--help | -h) usage; exit 0 ;;
		*) echo "install: what is $1?" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
root=${root%/}
# They go into unit files and through sed.
for path in "$prefix" "${state:-/}"; do
	case $path in
		/*) ;;
		*) fail "$path: give the whole path, from /" ;;
	esac
	case $path in
		*[!A-Za-z0-9/._+-]*) fail "$path: a path here may hold letters, digits and / . _ + - only" ;;
	esac
done
case $init in
	'' | systemd | openrc | busybox | none) ;;
	*) fail "--init $init: must be systemd, openrc, busybox or none" ;;
esac

# --- What is there ---

# The init system by what it leaves behind: running here, or installed in the file system at --root.
find_init() {
	if [ -d "$root/run/systemd/system" ]; then
		echo systemd
	elif [ -x "$root/sbin/openrc-run" ]; then
		echo openrc
	elif [ -n "$root" ] && { [ -x "$root/lib/systemd/systemd" ] || [ -x "$root/usr/lib/systemd/systemd" ]; }; then
		echo systemd
	elif [ -d "$root/etc/init.d" ] && { [ -x "$root/bin/busybox" ] || [ -x "$root/usr/bin/busybox" ]; }; then
		echo busybox
	else
		echo none
	fi
}

# The binary for this machine, beside this script or where `make cross` puts it.
find_binary() {
	case $(uname -m) in
		x86_64 | amd64) triple=x86_64-unknown-linux-musl ;;
		aarch64 | arm64) triple=aarch64-unknown-linux-musl ;;
		armv7* | armv8l) triple=armv7-unknown-linux-musleabihf ;;
		*) fail "there is no binary for $(uname -m); build one and name it with --binary" ;;
	esac
	for folder in "$here" "$here/../../dist"; do
		[ ! -f "$folder/qinglet-$triple" ] || { echo "$folder/qinglet-$triple"; return; }
	done
	fail "qinglet-$triple is not beside $0; name it with --binary"
}

# The checksum that stands beside the binary must be the binary's.
verify() {
	[ -z "$unverified" ] || return 0
	sums=$(dirname "$1")/SHA256SUMS name=$(basename "$1")
	[ -f "$sums" ] || fail "$sums is missing, so nobody can tell whether $name is whole; --unverified installs it all the same"
	want=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1; exit }' "$sums")
	[ -n "$want" ] || fail "$name is not in $sums"
	have=$(sha256sum "$1" | cut -d ' ' -f 1)
	[ "$want" = "$have" ] || fail "$1 is damaged: its checksum is $have, not $want as $sums says"
}

# The file system type at a path, or at the nearest folder above it that exists.
type_at() {
	at=$1
	while [ ! -d "$at" ]; do at=$(dirname "$at"); done
	mount=$(df -P "$at" 2>/dev/null | awk 'NR == 2 { print $6 }')
	awk -v mount="$mount" '$2 == mount { type = $3 } END { print type }' /proc/mounts
}

# --- The service ---

# Whether a daemon of this machine is looked after here.
has_service() { [ -z "$root" ] && [ "$init" != none ]; }

service() {
	[ -z "$root" ] || return 0
	case $init:$1 in
		systemd:stop) [ ! -f /etc/systemd/system/qinglet.service ] || run systemctl stop qinglet ;;
		systemd:start) run systemctl daemon-reload && run systemctl enable qinglet && run systemctl start qinglet ;;
		systemd:forget) run systemctl disable qinglet ;;
		systemd:forgotten) run systemctl daemon-reload ;;
		openrc:stop) [ ! -x /etc/init.d/qinglet ] || run rc-service --ifstarted qinglet stop ;;
		openrc:start) run rc-update -q add qinglet default && run rc-service qinglet start ;;
		openrc:forget) run rc-update -q del qinglet default ;;
		busybox:stop) [ ! -x /etc/init.d/S90qinglet ] || run /etc/init.d/S90qinglet stop ;;
		busybox:start) run /etc/init.d/S90qinglet start ;;
	esac
}

# --- Files ---

# Calls `$1 MODE SOURCE DESTINATION` for each file that this init system needs.
each_file() {
	# Not in a pipe: a failure must end the script.
	while read -r who mode from to; do
		case $who in any | "$init") ;; *) continue ;; esac
		case $to in @PREFIX@*) to=$prefix${to#@PREFIX@} ;; esac
		"$1" "$mode" "$from" "$root$to" || return 1
	done <"$list"
}

# Where a file of the list lies.
source_of() {
	[ "$1" != binary ] || { echo "$binary"; return; }
	for folder in "$here" "$here/../busybox"; do
		[ ! -f "$folder/$1" ] || { echo "$folder/$1"; return; }
	done
	fail "$1 is missing beside $0"
}

# Puts a file beside its place, whole and with its mode, to be moved there in one step.
stage() {
	from=$(source_of "$2") || return 1
	run mkdir -p "$(dirname "$3")" || return 1
	if [ "$2" = binary ]; then
		run cp "$from" "$3.new" || return 1
	elif [ -n "$dry" ]; then
		echo "would write: $3"
	else
		sed "s|@PREFIX@|$prefix|g; s|@STATE@|$state|g; $busybox_settings" "$from" >"$3.new" || return 1
	fi
	run chmod "$1" "$3.new"
}
place() { run mv -f "$3.new" "$3"; }
unstage() { [ -n "$dry" ] || rm -f "$3.new"; }
remove() { [ ! -e "$3" ] || run rm -f "$3"; }

# --- The two actions ---

install_all() {
	[ -n "$binary" ] || binary=$(find_binary) || exit 1
	[ -f "$binary" ] || fail "$binary: there is no such file"
	verify "$binary"
	if has_service; then
		case $(type_at "$state") in
			tmpfs | ramfs) [ -n "$state_given" ] ||
				fail "$state would be in memory and gone after a reboot; name a folder on a disk or flash with --state" ;;
		esac
	fi

	program=$root$prefix/bin/qinglet
	each_file stage || undo 'a file could not be written'
	# Another machine's program would only be noticed after the old one is gone.
	[ -n "$dry$root" ] || "$program.new" --version >/dev/null 2>&1 || undo "$binary does not run on this machine ($(uname -m))"
	service stop || undo 'the old daemon did not stop'
	[ -n "$dry" ] || [ ! -f "$program" ] || ln -f "$program" "$program.old" 2>/dev/null || cp -p "$program" "$program.old"
	if ! each_file place; then
		each_file unstage
		back 'a file could not be put in its place'
	fi
	if has_service; then
		begin
	fi
	run rm -f "$program.old"
	if [ -n "$dry" ]; then
		say 'nothing was changed'
		return
	fi
	say "$program is there"
	if has_service; then
		say "the daemon runs under $init; its state is in $state"
	elif [ -z "$root" ]; then
		say "no service was set up; begin with: qinglet init && qinglet serve"
	fi
}

# Brings the state up to date with the new program and starts it.
begin() {
	if [ -n "$dry" ]; then
		run "$program" --state "$state" init
	else
		done=$("$program" --state "$state" --json init) || back 'the state could not be brought up to date'
		case $done in *'"store":"migrated"'*) migrated=yes ;; esac
	fi
	service start && return
	[ -z "$migrated" ] || fail "the daemon did not start; the state is the new program's already, so the old one stays \
aside as $program.old, and the old store as its copy in $state"
	back 'the daemon did not start'
}

# Before anything was exchanged: takes back what was put beside it.
undo() {
	each_file unstage
	fail "$1; nothing was changed"
}

# After a failed step: the old program, if there was one, comes back and is started.
back() {
	if [ -f "$program.old" ]; then
		mv -f "$program.old" "$program"
		service start
		fail "$1; the old program is back"
	fi
	fail "$1"
}

uninstall_all() {
	service stop || fail 'the daemon did not stop; nothing was removed'
	service forget
	each_file remove || exit 1
	service forgotten
	if [ -n "$purge" ]; then
		run rm -rf "$root$state"
	elif [ -d "$root$state" ]; then
		say "its state stays in $root$state; to remove that too: uninstall --purge"
	fi
}

state_given=$state
[ -n "$state" ] || state=/var/lib/qinglet
[ -n "$init" ] || init=$(find_init)
list=$here/files.list
[ -f "$list" ] || fail "$list is missing"
# The busybox script has its settings as shell lines.
busybox_settings="s|^QINGLET=.*|QINGLET=$prefix/bin/qinglet|; s|^STATE=.*|STATE=$state|"

if [ "$action" = install ]; then
	install_all
else
	uninstall_all
fi
