# Installs those of the Debian packages given as arguments whose programs are missing,
# and starts no service: what we run is private. install.go gives it to sh.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

present() {
	case $1 in
	postgresql) command -v postgres || ls /usr/lib/postgresql/*/bin/postgres ;;
	redis-server) command -v redis-server || command -v valkey-server ;;
	docker.io) command -v dockerd ;;
	iproute2) command -v ip ;;
	e2fsprogs) command -v mkfs.ext4 ;;
	xfsprogs) command -v mkfs.xfs ;;
	systemd-container) command -v systemd-nspawn ;;
	dbus) command -v dbus-daemon ;;
	libc6-dev) ls /usr/include/stdlib.h ;;
	chromium-headless-shell | debootstrap | npm | gcc | g++ | make | python3 | tar | zstd | rclone | rsync | git) command -v "$1" ;;
	# A dynamic one would not run in an image.
	busybox-static) command -v busybox && ! ldd "$(command -v busybox)" ;;
	ca-certificates) ls /etc/ssl/certs/ca-certificates.crt || ls /etc/pki/tls/certs/ca-bundle.crt || ls /etc/ssl/cert.pem ;;
	*) false ;;
	esac >/dev/null 2>&1
}
missing=
for package in "$@"; do
	present "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root=sudo
if ! command -v apt-get >/dev/null || { [ -n "$root" ] && ! command -v sudo >/dev/null; }; then
	echo "These are missing; install them (the names of their Debian packages:$missing) and run this again." >&2
	exit 1
fi
echo "Installing what is missing:$missing"
# shellcheck disable=SC2086 # the packages are words
exec $root sh -euc '
export DEBIAN_FRONTEND=noninteractive
apt="apt-get -q -y -o DPkg::Lock::Timeout=600"

# Packages ask this program whether they may start their services. 101 means no.
policy=/usr/sbin/policy-rc.d
# This file tells the packages of PostgreSQL not to make and start a cluster.
clusters=/etc/postgresql-common/createcluster.conf
restore() {
	[ -z "${made_policy:-}" ] || rm -f "$policy"
	[ ! -e "$clusters.codehub" ] || mv "$clusters.codehub" "$clusters"
}
trap restore EXIT
trap "exit 130" INT TERM HUP
if [ ! -e "$policy" ]; then
	made_policy=yes
	printf "#!/bin/sh\nexit 101\n" >"$policy"
	chmod 755 "$policy"
fi

# Package lists may be missing or old; renewing them may fail where they are enough.
$apt update || true
case " $* " in *" postgresql "*)
	$apt install --no-install-recommends postgresql-common
	if [ -e "$clusters" ]; then
		cp -p "$clusters" "$clusters.codehub"
		echo "create_main_cluster = false" >>"$clusters"
	fi
	;;
esac
$apt install --no-install-recommends "$@"
' install $missing
