#!/bin/sh
# Makes a small Linux image out of the distribution's own packages and imports it, so that
# no registry is needed:
#
#	sh build.sh TAG ENGINE [ARG...]
#
# ENGINE is the docker or podman program, ARG its global options. The image has busybox
# for sh and all small tools, dash, bash, and Python 3 with its standard library, and what
# the environment's IMAGE_PACKAGES names besides. Any user who may use the engine can run
# it; nothing is installed on the machine.
set -eu

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

[ $# -ge 2 ] || fail "usage: sh build.sh TAG ENGINE [ARG...]"
tag=$1
shift

for tool in apt-get dpkg-deb tar; do
	command -v $tool >/dev/null ||
		fail "the offline image is made of Debian or Ubuntu packages, and this machine has no $tool;" \
			"load any image with sh, bash and python3 into the engine instead, and name it in COFFERDAM_IMAGE"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/cofferdam-image.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
umask 022
root=$dir/root
mkdir -p "$dir/deb" "$dir/lists/partial" "$dir/cache/archives/partial" "$root"

# With an empty status file apt takes nothing for installed, so it names everything that
# the four packages need. Root's downloads would otherwise run as a user who may not enter
# the private directory.
: >"$dir/status"
apt() {
	apt-get -qq -o "Dir::State::status=$dir/status" -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any \
		"$@" </dev/null 2>"$dir/err"
}

# What is only needed to install and configure the packages stays out.
download() {
	apt "$@" -s --no-install-recommends install busybox-static dash bash python3 ${IMAGE_PACKAGES-} >"$dir/plan" || return
	# shellcheck disable=SC2046 # one word a package
	(cd "$dir/deb" && apt "$@" download $(awk '
		$1 == "Inst" && $2 !~ /^(dpkg|tar|mawk|debianutils|debconf|perl-base|readline-common|install-info)$/ {
			print $2 "=" substr($3, 2)
		}' "$dir/plan") >/dev/null)
}

# The machine's package lists may be missing or out of date: private ones need no root and
# leave the machine as it is.
lists=Dir::State::lists=$dir/lists
cache=Dir::Cache=$dir/cache
download || { apt -o "$lists" -o "$cache" update >/dev/null && download -o "$lists" -o "$cache"; } ||
	fail "the packages cannot be downloaded: $(cat "$dir/err")"

# Packages ship files under /bin as well as under /usr/bin; the links have to stand before
# the first of them is unpacked.
for name in bin sbin lib lib64; do
	mkdir -p "$root/usr/$name"
	ln -s "usr/$name" "$root/$name"
done
for deb in "$dir"/deb/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -xf - -C "$root" --keep-directory-symlink --no-same-owner \
		--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/info/*'
done

# Links that no file stands behind are made for busybox's tools; its sh is the image's.
ln -sf busybox "$root/bin/sh"
for tool in $("$root/bin/busybox" --list); do
	[ -e "$root/bin/$tool" ] || [ -e "$root/sbin/$tool" ] || ln -s busybox "$root/bin/$tool"
done
ln -sf python3 "$root/usr/bin/python"

mkdir -p "$root/tmp" "$root/root" "$root/proc" "$root/sys" "$root/dev" "$root/etc"
chmod 1777 "$root/tmp"
printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nobody:x:65534:65534:nobody:/:/bin/sh' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$root/etc/group"

tar -cf - -C "$root" --owner=0 --group=0 --numeric-owner . | "$@" import \
	--change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
	--change 'CMD ["sh"]' - "$tag" >/dev/null 2>"$dir/err" || fail "$* import failed: $(cat "$dir/err")"
