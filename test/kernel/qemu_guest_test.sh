#!/bin/bash
# The daemon under a kernel of Debian: it programs a Service, and traffic passes. Runs in a guest of
# qemu_run.sh.
#
#   qemu_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
daemon=$1
ipvsctl=$2

ip link add eth0 type dummy
ip addr add 10.0.0.1/24 dev eth0
ip link set eth0 up

mkdir -p /run/work/www
echo hello >/run/work/www/index.html
cat >/run/work/objects.yaml <<'END'
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: true}}
END
busybox httpd -p 10.0.0.1:8080 -h /run/work/www

of_debian() { uname -v | grep Debian && [ -d "/lib/modules/$(uname -r)" ]; }
programs() {
  "$daemon" --manifests /run/work/objects.yaml --once --hostname-override node &&
    ipvsadm -Ln | grep -A1 -F 'TCP  10.96.0.1:80 rr' | grep -F '10.0.0.1:8080'
}
answers() { [ "$(curl -s -m 10 http://10.96.0.1/)" = hello ]; }
explains() { "$ipvsctl" explain 10.0.0.1 10.96.0.1:80 | grep -F 10.0.0.1:8080; }
read_only() { ! touch "$here/written" && ! [ -e "$here/written" ]; }

check "the kernel is one of Debian, with its modules" of_debian
check "the host's files cannot be changed" read_only
check "the daemon programs a Service" programs
check "its address answers" answers
check "ipvsctl explains it" explains
finish
