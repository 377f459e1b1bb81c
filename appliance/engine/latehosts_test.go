package engine

import (
	"testing"
	"time"

	"landfall/appliance/engine/lifecycle"
)

func TestNTP_hostsRegisteredHoursApart(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.pass(3*time.Hour, hosts...)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	late := b.member(hosts[0].env, 4)
	b.reportAll(append(hosts, late))
	late.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}
