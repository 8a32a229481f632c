# Installs the Debian packages given as arguments and starts no service: what we run
# is private. Runs as root; install.go gives it to sh.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt="apt-get -q -y -o DPkg::Lock::Timeout=600"

# Packages ask this program whether they may start their services. 101 means no.
policy=/usr/sbin/policy-rc.d
# This file tells PostgreSQL's packages not to make and start a cluster.
clusters=/etc/postgresql-common/createcluster.conf
restore() {
	[ -z "${made_policy:-}" ] || rm -f "$policy"
	[ ! -e "$clusters.codehub" ] || mv "$clusters.codehub" "$clusters"
}
trap restore EXIT
trap 'exit 130' INT TERM HUP
if [ ! -e "$policy" ]; then
	made_policy=yes
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

# Package lists may be missing or old; renewing them may fail where they are enough.
$apt update || true
case " $* " in *" postgresql "*)
	$apt install --no-install-recommends postgresql-common
	if [ -e "$clusters" ]; then
		cp -p "$clusters" "$clusters.codehub"
		echo 'create_main_cluster = false' >>"$clusters"
	fi
	;;
esac
$apt install --no-install-recommends "$@"
