package clusters

import (
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// workerPool is the MachineConfigPool that new workers belong to. If another pool selects a label
// of the new node, the node moves to that pool, and both pools roll out their configuration.
// Therefore, the worker pool is paused until all hosts with such labels have joined.
const workerPool = "worker"

// pool is the state of a cluster's worker pool.
type pool struct {
	requested, running bool // the requested value, and whether a call to set it is running
	paused, known      bool // the current value, and whether it is known
}

// pausePool pauses a cluster's worker pool while hosts with node labels and another pool are
// joining, and resumes it afterwards.
func (c *Controller) pausePool(key, cluster string) error {
	if c.Spokes == nil {
		return nil
	}
	relevant, paused, err := c.poolUse(cluster)
	if err != nil {
		return err
	}
	c.mu.Lock()
	p := c.pools[key]
	if p == nil && relevant {
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
		c.Loop.RepeatAtStart(deploymentKey(namespace, name))
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

// poolUse reports whether at least one host with node labels and a pool joins or has joined a
// cluster, and whether one is joining now.
func (c *Controller) poolUse(cluster string) (relevant, inProgress bool, err error) {
	var hosts []*view.Host
	if err := c.DB.View(func(tx *store.Tx) (err error) {
		hosts, err = c.Engine.Rows(tx).ReadableClusterHosts(cluster)
		return err
	}); err != nil {
		return false, false, err
	}
	for _, host := range hosts {
		if host.NodeLabels == "" || host.MachineConfigPoolName == "" || *host.Status == models.HostStatusInstalled {
			continue
		}
		relevant = true
		done := host.Progress != nil && host.Progress.CurrentStage == models.HostStageDone
		inProgress = inProgress || !done && slices.Contains([]string{models.HostStatusInstalling,
			models.HostStatusInstallingInProgress}, *host.Status)
	}
	return relevant, inProgress, nil
}
