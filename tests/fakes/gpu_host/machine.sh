#!/bin/sh
# Makes a host without a GPU look like a GPU machine, for tests, and as it was before. FAKE from end to end. Run on the host, as root:
#   machine.sh on <machine> [without-toolkit] [without-fabric-manager]   play a machine of tests/fixtures/gpu_hosts
#   machine.sh wire          restart Docker, so that it finds the (fake) toolkit; with the NVIDIA runtime where it has no daemon.json
#   machine.sh unwire        take its daemon.json away, and restart it
#   machine.sh off           be no GPU machine any more; what `wire` did is undone, too
# The other fakes are beside this file, the machines in ./machines.
set -eu

home=/usr/local/share/tandem-fake-gpu-host
libraries=/usr/lib/x86_64-linux-gnu
unit=/etc/systemd/system/nvidia-fabricmanager.service
daemon_json=/etc/docker/daemon.json

restart_docker() {
    # systemd refuses a service that is started often, which tests do.
    systemctl reset-failed docker.service docker.socket
    systemctl restart docker.service
}

link() {
    for tool in "$@"; do
        ln -sfn "$home/$tool" "/usr/local/bin/$tool"
    done
}

off() {
    for folder in /proc/driver /sys/bus/pci/devices; do
        if mountpoint --quiet "$folder"; then umount "$folder"; fi
    done
    find /usr/local/bin -lname "$home/*" -delete
    for library in "$libraries"/libnvidia-ml.so.*; do
        if grep -qs FAKE "$library"; then rm "$library"; fi
    done
    for device in /dev/nvidia-nvswitch*; do
        if [ -f "$device" ]; then rm "$device"; fi
    done
    if grep -qs FAKE "$unit"; then
        systemctl stop "${unit##*/}"
        rm "$unit"
        systemctl daemon-reload
    fi
    rm -rf "$home/current" "$home/over"
}

on() {
    machine=$home/machines/$1
    shift
    toolkit=yes fabric_manager=active
    for word in "$@"; do
        case $word in
            without-toolkit) toolkit=no ;;
            without-fabric-manager) fabric_manager=stopped ;;
            *) echo "machine.sh: what is $word?" >&2 && exit 2 ;;
        esac
    done

    off
    cp -R "$machine" "$home/current"
    link nvidia-smi dmesg
    if [ $toolkit = yes ]; then link nvidia-ctk nvidia-container-runtime nvidia-container-runtime-hook; fi
    echo "FAKE, for tests" >"$libraries/libnvidia-ml.so.$(cat "$machine/library")"

    # Mounted over what the kernel of the machine underneath says, which may have GPUs of its own.
    mkdir -p "$home/over/driver" "$home/over/pci"
    if [ -e "$machine/version" ]; then
        mkdir "$home/over/driver/nvidia"
        cp "$machine/version" "$home/over/driver/nvidia/version"
    fi
    while read -r address class; do
        mkdir "$home/over/pci/$address"
        echo 0x10de >"$home/over/pci/$address/vendor"
        echo "$class" >"$home/over/pci/$address/class"
    done <"$machine/pci"
    mount --bind "$home/over/driver" /proc/driver
    mount --bind "$home/over/pci" /sys/bus/pci/devices

    if [ -e "$machine/nvswitch" ]; then
        number=0
        while [ $number -lt "$(cat "$machine/nvswitch")" ]; do
            : >"/dev/nvidia-nvswitch$number"
            number=$((number + 1))
        done
        cp "$home/${unit##*/}" "$unit"
        systemctl daemon-reload
        if [ $fabric_manager = active ]; then systemctl start "${unit##*/}"; fi
    fi
}

wire() {
    if [ ! -e "$daemon_json" ]; then
        printf '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}\n' >"$daemon_json"
    fi
    touch "$home/wired"
    restart_docker
}

unwire() {
    if [ -e "$home/wired" ]; then
        # With the copies that its changes left beside it.
        rm -f "$daemon_json" "$daemon_json".*~ "$home/wired"
        restart_docker
    fi
}

case "${1:-}" in
    on) shift && on "$@" ;;
    off) off && unwire ;;
    wire | unwire) "$1" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
