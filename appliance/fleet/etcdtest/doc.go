// Package etcdtest runs Debian's etcd for tests of fleets, and cuts the lines to it. Its tests and
// those that use it need the build tag etcd (make test-fleet).
package etcdtest
