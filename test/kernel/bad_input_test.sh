#!/bin/bash
# What the daemon says and does when what it is given is wrong: the exit status, a message that names
# file, object and field, and everything else in the kernel. Runs in a guest, each case in a network
# namespace of its own.
#
#   bad_input_test.sh PATH_OF_IPVS_PROXIER [--without-modules | --without-some-modules]
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
fixtures=$here/bad_input
# A folder that everybody may read: a clone may be in one that is root's alone.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp "$1" "$work/ipvs-proxier"
as=()

# run_case CONFIGURATION FIXTURE...: one run in a fresh namespace with good.yaml, node.yaml and the fixtures.
run_case() {
  local config=$fixtures/$1
  shift
  rm -rf "$work/in"
  mkdir -m 755 "$work/in"
  cp "$fixtures/good.yaml" "$fixtures/node.yaml" "${@/#/$fixtures/}" "$work/in/"
  cp "$config" "$work/"
  chmod -R a+rX "$work"
  unshare -n bash -c '
    ip link set lo up
    [ -z "${without_ipv6:-}" ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
    "${@:3}" ${mode---once} --config "$2" --manifests "$1/in" >"$1/log" 2>&1
    echo $? >"$1/status"
    ipvsadm-save -n >"$1/ipvs" 2>/dev/null
    ipset save >"$1/sets" 2>/dev/null
    ip -o addr show kube-ipvs0 >"$1/addresses" 2>/dev/null' \
    - "$work" "$work/$(basename "$config")" ${as[@]+"${as[@]}"} "$work/ipvs-proxier"
}

status_is() {
  local status
  status=$(cat "$work/status")
  [ "$status" = "$1" ] || { echo "exit status $status instead of $1"; cat "$work/log"; return 1; }
}

# One line of what was said has each of these words.
says() {
  local lines word
  lines=$(cat "$work/log")
  for word in "$@"; do
    lines=$(grep -F -- "$word" <<<"$lines")
  done
  [ -n "$lines" ] || { echo "no line says all of: $*"; cat "$work/log"; return 1; }
}

# How many lines warn or complain.
complaints_are() {
  local count
  count=$(grep -c -i -E 'warn|error' "$work/log")
  [ "$count" = "$1" ] || { echo "$count complaints instead of $1"; cat "$work/log"; return 1; }
}

has_server() {
  grep -q -F -- "-a -t $1 -r $2 -m -w 1" "$work/ipvs" ||
    { echo "no real server $2 of $1"; cat "$work/ipvs" "$work/log"; return 1; }
}

has_no_service() {
  ! grep -F -- " $1" "$work/ipvs" || { cat "$work/log"; return 1; }
}

good_is_programmed() {
  has_server 10.96.1.1:80 10.244.0.5:8080 &&
    grep -q -x 'add KUBE-CLUSTER-IP 10.96.1.1,tcp:80' "$work/sets" &&
    grep -q -F ' 10.96.1.1/32 ' "$work/addresses"
}

# An error: status 1, the message, and the good Service in the kernel.
fails_with() { status_is 1 && says "$@" && good_is_programmed; }

broken() {
  run_case config-good.yaml "$1"
  fails_with "$@"
}

claims() {
  run_case config-good.yaml "$1"
  fails_with "$1" "Service shop/$2" "$3" && has_server "$4" "$5" &&
    [ "$(grep -c -F -- "-a -t $4" "$work/ipvs")" = 1 ]
}

all_at_once() {
  run_case config-good.yaml broken-yaml.yaml broken-json.json wrong-type.yaml no-ports.yaml \
    bad-ip.yaml two-claims-by-age.yaml unknown-kind.yaml orphan-slice.yaml
  fails_with broken-yaml.yaml && says broken-json.json && says wrong-type.yaml &&
    says no-ports.yaml && says bad-ip.yaml && says two-claims-by-age.yaml && says unknown-kind.yaml &&
    has_server 10.96.1.9:80 10.244.0.92:8080
}

unknown_scheduler() {
  run_case config-unknown-scheduler.yaml
  status_is 1 && says config-unknown-scheduler.yaml ipvs.scheduler nosuch &&
    grep -q -x 'add KUBE-CLUSTER-IP 10.96.1.1,tcp:80' "$work/sets"
}

wrong_configuration() {
  run_case config-wrong-type.yaml
  status_is 1 && says config-wrong-type.yaml ipvs.strictARP
}

unknown_field() {
  run_case config-unknown-field.yaml
  status_is 0 && complaints_are 1 && says config-unknown-field.yaml clusterCIRD && good_is_programmed
}

unset_node_ports() {
  run_case config-node-ports-unset.yaml
  status_is 0 && complaints_are 1 &&
    says config-node-ports-unset.yaml nodePortAddresses 'open on all addresses' && good_is_programmed
}

# misfit CONFIGURATION WORD...: the start ends with that message, whether we are to stay or not.
misfit() {
  local config=$1
  shift
  for mode in --once ''; do
    as=(timeout 60)
    mode=$mode run_case "$config" node-ipv6-pods.yaml
    as=()
    status_is 1 && says error "$config" "$@" && says 'does not fit this node' &&
      [ ! -s "$work/ipvs" ] && [ ! -s "$work/addresses" ] || return 1
  done
}

other_cluster_cidr() {
  without_ipv6=yes misfit config-other-cluster-cidr.yaml clusterCIDR 'the node has IPv4 only'
}

# The same on a host with both families is a doubt.
other_cluster_cidr_of_two() {
  run_case config-other-cluster-cidr.yaml
  status_is 0 && complaints_are 1 && says warn clusterCIDR "first family is IPv4" && good_is_programmed
}

other_pod_cidrs() { misfit config-node-cidr.yaml 'spec.podCIDRs' 'only IPv6 ranges'; }

unknown_kind() {
  run_case config-good.yaml unknown-kind.yaml
  status_is 0 && complaints_are 1 && says unknown-kind.yaml Gizmo && good_is_programmed
}

orphan_slice() {
  run_case config-good.yaml orphan-slice.yaml
  status_is 0 && complaints_are 0 && ! says orphan >/dev/null && good_is_programmed
}

no_permission() {
  as=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
  run_case config-good.yaml
  as=()
  status_is 1 && grep -q -i -E 'permi(tted|ssion)|denied' "$work/log" && [ ! -s "$work/ipvs" ]
}

no_files() {
  unshare -n "$work/ipvs-proxier" --once --config "$fixtures/config-good.yaml" \
    --manifests "$work/absent" >"$work/log" 2>&1
  echo $? >"$work/status"
  status_is 1 && says "$work/absent"
}

missing_module() {
  run_case config-good.yaml
  status_is 1 && says ip_vs
}

# The kernel's modules but for some: in a guest in which none of these is loaded.
hide_modules() {
  local module folder
  folder=$(mktemp -d /run/modules.XXXXXX) || return 1
  cp -rs /usr/lib/uml/modules/. "$folder" || return 1
  for module in "$@"; do
    find "$folder" -name "$module.ko" -delete
  done
  mount --bind "$folder" /lib/modules
}

# One match is missing: only the VIP that needs it is not programmed.
without_match() {
  hide_modules xt_ipvs || return 1
  run_case config-good.yaml source-ranges.yaml
  fails_with xt_ipvs && has_server 10.96.1.7:443 10.244.0.7:8443 && has_no_service 192.0.2.70:443
}

# Addresses cannot be bound: everything but them is programmed.
without_dummy() {
  hide_modules xt_ipvs dummy || return 1
  rmmod dummy 2>/dev/null
  run_case config-good.yaml
  status_is 1 && says 'module dummy' kube-ipvs0 && has_server 10.96.1.1:80 10.244.0.5:8080 &&
    grep -q -x 'add KUBE-CLUSTER-IP 10.96.1.1,tcp:80' "$work/sets"
}

# Nothing of ours can be there.
cleanup_loads_nothing() {
  "$work/ipvs-proxier" --cleanup --config "$fixtures/config-good.yaml" >"$work/log" 2>&1
  echo $? >"$work/status"
  status_is 0 && complaints_are 0 &&
    says 'removed 0 links, 0 local routes, 0 virtual services, 0 jumps, 0 chains, 0 sets, 0 nftables' &&
    ! grep -E '^(ip_vs|ip_set|ip_tables|ip6_tables|dummy) ' /proc/modules
}

if [ "${2:-}" = --without-some-modules ]; then
  check "--cleanup where no module is loaded" cleanup_loads_nothing
  check "without a match only the VIP that needs it is missing" without_match
  check "without dummy links only addresses are missing" without_dummy
  finish
  exit
fi

if [ "${2:-}" = --without-modules ]; then
  check "--cleanup in a kernel without modules" cleanup_loads_nothing
  check "a missing kernel module is named" missing_module
  finish
  exit
fi

good_alone() {
  run_case config-good.yaml
  status_is 0 && complaints_are 0 && good_is_programmed
}

check "the good Service alone is programmed without complaint" good_alone
check "broken YAML" broken broken-yaml.yaml
check "broken JSON" broken broken-json.json
check "a wrong type" broken wrong-type.yaml "Service shop/wrong-type" "spec.ports[0].port"
check "a Service without ports" broken no-ports.yaml "Service shop/no-ports" "spec.ports"
check "a bad IP" broken bad-ip.yaml "Service shop/bad-ip" "spec.clusterIP"
check "two claims to a VIP: the older keeps it" claims two-claims-by-age.yaml young spec. \
  10.96.1.9:80 10.244.0.92:8080
check "two claims to a VIP: the name decides" claims two-claims-by-name.yaml beta spec. \
  10.96.1.8:80 10.244.0.82:8080
check "everything wrong at once" all_at_once
check "an unknown scheduler" unknown_scheduler
check "a wrong type in the configuration" wrong_configuration
check "an unknown configuration field: a warning" unknown_field
check "node ports on all addresses unasked: a warning" unset_node_ports
check "cluster ranges of the other family only, on a host of one: the start ends" other_cluster_cidr
check "on a host of both: a warning" other_cluster_cidr_of_two
check "NodeCIDR with pod ranges of the other family only: the start ends" other_pod_cidrs
check "an unknown kind: a warning" unknown_kind
check "an EndpointSlice without its Service: silence" orphan_slice
check "no permission" no_permission
check "no such file" no_files
finish
