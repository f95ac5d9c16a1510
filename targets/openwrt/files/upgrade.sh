# shellcheck shell=dash disable=SC2034
# Sourced by sysupgrade. The state is kept file by file while the daemon may be writing to it, so a copy that is
# surely whole goes with it: `qinglet restore` takes it back if the kept files turn out torn.

qinglet_add_backup() {
	local list="$1" copy=/etc/qinglet/before-upgrade.backup state
	state=$(uci -q get qinglet.main.state) || state=/etc/qinglet/state
	[ -d "$state" ] || return 0
	if [ "$CONF_BACKUP_LIST" != 1 ]; then
		rm -f "$copy"
		qinglet --state "$state" backup "$copy" >/dev/null || echo "qinglet: no copy of the state was made" >&2
	fi
	# A name in the list that is not there would end the upgrade.
	[ ! -f "$copy" ] || grep -qxF "$copy" "$list" || echo "$copy" >>"$list"
}

sysupgrade_init_conffiles="$sysupgrade_init_conffiles qinglet_add_backup"
