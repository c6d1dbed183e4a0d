# Starts a Docker daemon in the virtual machine, as on any host, with an image for its containers that is quickly loaded
# into the daemons of the tests, too: what they run are flowgen, which is mounted, and a few commands of busybox.
dockerd > /run/results/dockerd.log 2>&1 &
rootfs=/tmp/rootfs
mkdir -p $rootfs/bin $rootfs/tmp
chmod 1777 $rootfs/tmp
cp "$(command -v busybox)" $rootfs/bin/busybox
chroot $rootfs /bin/busybox --install -s /bin
tag=$(python -c "from pairlab.testbed.docker import image; print(image.tag())")
tries=0
until docker info > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { tail -n 20 /run/results/dockerd.log; break; }
    sleep 0.2
done
tar -c -C $rootfs . | docker import - "$tag" > /dev/null
rm -r $rootfs
echo "pairlab: Docker $(docker version --format '{{.Server.Version}}')"
