# Stand-in for OpenWrt's /lib/functions.sh: UCI's shell functions, and what a package's scripts call.

config_load() {
	local word kind value section
	while read -r word kind value; do
		value=${value#\'}
		value=${value%\'}
		case $word in
			config) section=$value ;;
			option) eval "CONFIG_${section}_$kind=\$value" ;;
		esac
	done <"/etc/config/$1"
}
config_get() { eval "$1=\"\${CONFIG_${2}_$3:-\$4}\""; }
config_get_bool() {
	config_get "$@"
	eval "case \$$1 in 1 | on | true | yes | enabled) $1=1 ;; 0 | off | false | no | disabled) $1=0 ;; *) $1=\$4 ;; esac"
}

# The argument is the script's own path, /usr/lib/opkg/info/NAME.postinst.
package_files() { grep "^$2" "/usr/lib/opkg/info/$(basename "${1%.*}").list"; }
default_postinst() {
	local file
	for file in $(package_files "$1" /etc/uci-defaults/); do
		[ ! -f "$file" ] || { (cd "${file%/*}" && . "$file") && rm -f "$file"; }
	done
	for file in $(package_files "$1" /etc/init.d/); do
		[ "$PKG_UPGRADE" = 1 ] || "$file" enable
		"$file" start
	done
}
default_prerm() {
	local file
	for file in $(package_files "$1" /etc/init.d/); do
		[ "$PKG_UPGRADE" = 1 ] || "$file" disable
		"$file" stop
	done
}
