#!/bin/sh
# Make the container fit for an init system and a Docker Engine, then become the init system.
set -eu

# Docker mounts it read-only. The inner engine sets forwarding and bridge parameters, which are this container's own.
mount -o remount,bind,rw /proc/sys

# Where the inner engine keeps the cgroups of its containers.
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
    # The container has a cgroup namespace of its own: what it sees is its own part of the tree only.
    mount -o remount,rw /sys/fs/cgroup
    parent=/tandem-lab
else
    # With version 1 the whole tree is seen. Below the container's own cgroup, so that they go when it goes.
    parent=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
fi
echo "CGROUP_PARENT=$parent" >/run/tandem-lab.env

exec /sbin/init
