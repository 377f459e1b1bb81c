package engine

import "landfall/appliance/engine/lifecycle"

// Names of states for the files that do not use the package lifecycle yet.
const (
	known               = lifecycle.HostKnown
	disconnected        = lifecycle.HostDisconnected
	disabled            = lifecycle.HostDisabled
	preparing           = lifecycle.HostPreparing
	prepared            = lifecycle.HostPrepared
	installed           = lifecycle.HostInstalled
	added               = lifecycle.HostAdded
	failed              = lifecycle.HostFailed
	cancelled           = lifecycle.HostCancelled
	clusterReady        = lifecycle.ClusterReady
	clusterInsufficient = lifecycle.ClusterInsufficient
	clusterPending      = lifecycle.ClusterPendingForInput
	clusterPreparing    = lifecycle.ClusterPreparing
	clusterInstalling   = lifecycle.ClusterInstalling
	clusterUserAction   = lifecycle.ClusterPendingUserAction
	clusterFinalizing   = lifecycle.ClusterFinalizing
	clusterInstalled    = lifecycle.ClusterInstalled
	clusterAddingHosts  = lifecycle.ClusterAddingHosts
	initial             = lifecycle.HostInitial
	onUnbind            = lifecycle.OnUnbind
)

var duringInstall = lifecycle.HostInstallingStates
