package clusters

import (
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// workerPool is the MachineConfigPool that workers are in at first. Nodes with labels that another
// pool selects move there, and both have their configuration rolled out for it: that waits until
// all hosts that come so have joined.
const workerPool = "worker"

// pool is what is known of a cluster's worker pool.
type pool struct {
	requested, running bool // whether it is to be paused, by the call that goes on
	paused, known      bool // whether it is, once that was told
}

// pausePool has a cluster's worker pool paused while hosts join that have labels and another pool,
// and go on after them.
func (c *Controller) pausePool(key, cluster string) error {
	if c.Spokes == nil {
		return nil
	}
	concerned, paused, err := c.poolUse(cluster)
	if err != nil {
		return err
	}
	c.mu.Lock()
	p := c.pools[key]
	if p == nil && concerned {
		p = &pool{}
		c.pools[key] = p
	}
	c.mu.Unlock()
	if p == nil || p.known && p.paused == paused && !p.running {
		return nil
	}
	if !p.running {
		p.running, p.requested = true, paused
	}
	namespace, name := objects.SplitKey(key)
	again := func() { c.Loop.Enqueue(deploymentKey(namespace, name)) }
	done, err := c.Spokes.PausePool(cluster, key, workerPool, p.requested, again)
	if !done {
		return nil
	}
	p.running = false
	if err != nil {
		return err
	}
	p.paused, p.known = p.requested, true
	if p.paused != paused {
		again()
	}
	return nil
}

// joinsPool tells whether hosts of a cluster joined it or do that have labels and a pool, and
// whether one is on its way.
func (c *Controller) poolUse(cluster string) (concerned, onItsWay bool, err error) {
	var hosts []*engine.HostView
	if err := c.DB.View(func(tx *store.Tx) (err error) {
		hosts, err = c.Engine.Rows(tx).ClusterHosts(cluster)
		return err
	}); err != nil {
		return false, false, err
	}
	for _, host := range hosts {
		if host.NodeLabels == "" || host.MachineConfigPoolName == "" || *host.Status == models.HostStatusInstalled {
			continue
		}
		concerned = true
		done := host.Progress != nil && host.Progress.CurrentStage == models.HostStageDone
		onItsWay = onItsWay || !done && slices.Contains([]string{models.HostStatusInstalling,
			models.HostStatusInstallingInProgress}, *host.Status)
	}
	return concerned, onItsWay, nil
}
