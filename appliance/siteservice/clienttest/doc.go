// Package clienttest tests the services of the site with real clients and servers: udhcpc, dig,
// chronyd, tftp and dnsmasq. It needs them and network namespaces, and therefore has a build tag:
// .ci/install-siteclients installs them, and `make test` runs `go test -tags siteclients` here.
package clienttest
