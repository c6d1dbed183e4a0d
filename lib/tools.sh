#!/bin/sh
# Installs what only root can, from Debian's or Ubuntu's packages. All of it is optional: `pairlab doctor` says what
# each adds. What plugins run is in plugins/*/packages.txt. Nothing is started here but what the packages themselves start. With --list, only names them.
set -eu

packages="iperf iperf3 sockperf netcat-openbsd stress-ng tcpdump openvswitch-switch user-mode-linux nftables bird2 docker.io
          mmdebstrap chromium firefox-esr
          latexmk texlive-latex-recommended texlive-pictures texlive-publishers texlive-science poppler-utils
          $(cat "$(dirname "$0")"/../plugins/*/packages.txt)"

if [ "${1:-}" = --list ]; then
    echo $packages
    exit
fi
if ! command -v apt-get > /dev/null; then
    echo "make tools knows apt-get only. Install with your package manager what these are called there:" >&2
    echo $packages >&2
    exit 1
fi
root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || { echo "make tools needs root: run it as root, or install sudo" >&2; exit 1; }
    root="sudo"
fi
export DEBIAN_FRONTEND=noninteractive
$root apt-get update --quiet=2
wanted=""
for package in $packages; do
    # A Docker that is there already, from wherever, stays as it is.
    if [ "$package" = docker.io ] && command -v dockerd > /dev/null; then
        continue
    fi
    if apt-cache show "$package" > /dev/null 2>&1; then
        wanted="$wanted $package"
    else
        echo "make tools: this system has no package $package; going on without it" >&2
    fi
done
# shellcheck disable=SC2086  # the list is meant to be split
$root env DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $wanted
echo "make tools: done. .venv/bin/pairlab doctor shows what this machine can do now."
