# What the scripts beside this one share. Sourced by bash, not run.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$root"

# Found also where only root's PATH, or no login shell, has it.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
export PATH

say() { printf '==> %s\n' "$*"; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Runs a command and shows it first.
run() {
    say "$*"
    "$@"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root, and there is no sudo: $*"
    fi
}

# install_missing COMMAND=PACKAGE...: installs, by apt, the packages whose commands are not there. What begins with a slash is
# a file instead of a command.
install_missing() {
    local pair missing=()
    for pair in "$@"; do
        case $pair in
            /*) [ -e "${pair%%=*}" ] || missing+=("${pair#*=}") ;;
            *) command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}") ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "please install what Debian calls: ${missing[*]}"
    say "installing ${missing[*]}"
    as_root apt-get update -qq
    without_services as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Runs a command during which newly installed services are not started: the tests start their own etcd.
without_services() {
    local policy=/usr/sbin/policy-rc.d status=0
    if [ -e "$policy" ]; then
        "$@"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    "$@" || status=$?
    as_root rm -f "$policy"
    return "$status"
}

# What every build needs.
install_build_tools() {
    command -v cargo >/dev/null || die "Rust is missing; install it from https://rustup.rs"
    # The compiler and the files it includes are two packages, of which one only recommends the other.
    install_missing cc=build-essential protoc=protobuf-compiler \
        /usr/include/google/protobuf/descriptor.proto=libprotobuf-dev
}

# Devices and namespaces need more than root: the TUN device node too.
need_tun() {
    [ -c /dev/net/tun ] || die "/dev/net/tun is missing: in a container, pass it in (docker: --device /dev/net/tun" \
        "--cap-add NET_ADMIN --cap-add SYS_ADMIN); on a host, have the tun driver in the kernel"
}
