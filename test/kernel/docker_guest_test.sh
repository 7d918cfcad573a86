#!/bin/bash
# Services beside docker itself, with the packet filter FILTER, where docker's iptables writes to PLACE ("nft" or
# "legacy"): a container publishes port 80 of the node, which Services have, too. Runs in a guest of qemu_run.sh;
# exit status 77 without docker.
#
#   docker_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL FILTER PLACE
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"
filter=$3
place=$4
command -v dockerd >/dev/null && command -v docker >/dev/null || { echo "docker is not installed: nothing was tested"; exit 77; }
export DOCKER_HOST=unix:///run/docker.sock

# Everything that docker writes is below the folder; the system is read-only here.
docker_runs() {
  local tool left=120
  mkdir -p "$work/bin" "$work/docker" "$work/etc" "$work/etc-work"
  [ -w /etc ] || mount -t overlay -o "lowerdir=/etc,upperdir=$work/etc,workdir=$work/etc-work" etc /etc || return 1
  for tool in iptables ip6tables iptables-save ip6tables-save iptables-restore ip6tables-restore; do
    ln -sf "/usr/sbin/xtables-$place-multi" "$work/bin/$tool"
  done
  mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup || return 1
  PATH=$work/bin:$PATH dockerd -H "$DOCKER_HOST" --data-root "$work/docker" --exec-root "$work/docker-exec" \
    --pidfile "$work/dockerd.pid" --storage-driver vfs >"$work/docker.log" 2>&1 &
  until docker version; do
    ((left-- > 0)) && kill -0 $! || { tail -40 "$work/docker.log"; return 1; }
    sleep 1
  done
}
docker_gone() { ! pgrep -x dockerd; }
docker_stops() { kill "$(cat "$work/dockerd.pid")" && until_true docker_gone; }

# The page of the container is "docker".
image() {
  mkdir -p "$work/image/bin" "$work/image/www"
  cp "$(command -v busybox)" "$work/image/bin/busybox"
  echo docker >"$work/image/www/index.html"
  tar -C "$work/image" -c . | docker import - page
}
publishes() { docker run -d --name page -p 80:8080 page /bin/busybox httpd -f -p 8080 -h /www; }
has_node() { answers client 10.0.1.1 docker; }
shared_out() { until_true has_node && all_pass; }

# Rules of iptables cannot keep what a chain of nf_tables takes; it is named, with the remedy.
takes() {
  until_true grep 'warning: nf_tables chain .* takes what comes for Services (of .*:80) to another destination' "$work/log" &&
    until_true drops 1 && answers client 10.96.0.1 docker
}
as_expected() {
  if [ "$filter $place" = "iptables nft" ]; then takes; else shared_out && drops 0; fi ||
    { tail -5 "$work/log"; nft list ruleset | head -150; return 1; }
}

comes() { docker_runs && image && all_pass; }
publishes_port() { publishes && as_expected; }
daemon_starts() {
  stop_daemon
  "$daemon" --cleanup
  start_daemon "--packet-filter=$filter" --ipvs-sync-period=5s
  until_true settled && as_expected
}
docker_starts_again() { docker_stops && docker_runs && docker start page && as_expected; }
container_goes() { docker rm -f page && until_true all_pass && until_true drops 0; }

make_cluster
start_daemon "--packet-filter=$filter" --ipvs-sync-period=5s
check "$filter, docker in $place: Services answer" until_true all_pass
check "$filter, docker in $place: docker comes" comes
check "$filter, docker in $place: a container publishes a Service's port" publishes_port
check "$filter, docker in $place: the daemon starts anew beside it" daemon_starts
check "$filter, docker in $place: docker starts anew" docker_starts_again
check "$filter, docker in $place: without the container all pass" container_goes
docker_stops
stop_daemon
finish
