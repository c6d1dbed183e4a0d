#!/bin/sh
# The virtual machine's first process: mounts what tests need, runs them and writes what came of it to the third disk.
# No module is loaded here: that the kernel loads what a driver asks for is part of what is tested.
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sysfs /sys
mountpoint -q /run || mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts /dev/shm /dev/net /run/results
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+cpu +cpuset" > /sys/fs/cgroup/cgroup.subtree_control
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
ip link set lo up
hostname -F /etc/hostname
export PATH=/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8

cd /pairlab || exit
echo "pairlab: Linux $(uname -r)"
grep -q docker- words && . tests/kernels/docker.sh
xargs -0 python -m pytest -v --color=no --disable-warnings --junit-xml=/run/results/report.xml -p no:cacheprovider < words
tar -c -f /dev/vdc -C /run/results .
sync
echo o > /proc/sysrq-trigger
while :; do sleep 1; done
