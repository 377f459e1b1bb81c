package lifecycle

// State is a state with its meaning, for docs/lifecycle.md.
type State struct {
	Name, Meaning string
}

// HostStates lists the states of a host in their usual order.
func HostStates() []State {
	return []State{
		{HostDiscoveringUnbound,
			"The agent runs on a host of an infra-env without a cluster. Its inventory has not arrived yet."},
		{HostInsufficientUnbound,
			"The host cannot be bound: it has too little hardware for any role, or an invalid name."},
		{HostDisconnectedUnbound, "The agent has stopped polling, or cannot read the discovery image any more."},
		{HostKnownUnbound, "The host can be bound to a cluster."},
		{HostDisabledUnbound, "Exists only in records of older services; no transition leads here. It ends when the " +
			"agent " +
			"registers."},
		{HostBinding, "The host was bound to a cluster. Its agent restarts and registers again."},
		{HostDiscovering, "The agent runs. The host's inventory has not arrived yet."},
		{HostPendingForInput, "The cluster lacks a setting that a user must enter."},
		{HostInsufficient, "A validation fails that must pass before the installation."},
		{HostDisconnected, "The agent has stopped polling, or cannot read the discovery image any more."},
		{HostKnown, "The host is ready to be installed."},
		{HostDisabled, "Exists only in records of older services; no transition leads here. It ends when the agent " +
			"registers."},
		{HostPreparing, "The host measures its disk and pulls the images for the installation."},
		{HostPreparingFailed, "The preparation of the host failed. The host becomes known again when its cluster " +
			"stops " +
			"preparing."},
		{HostPrepared, "The host is prepared and waits for the other hosts."},
		{HostInstalling, "The installation was ordered. The installer has not reported yet."},
		{HostInstallingInProgress, "The installer, and later the controller in the cluster, report the host's stages."},
		{HostPendingUserAction,
			"The host booted from the wrong device, or did not return from its reboot. A user must correct " +
				"its boot order."},
		{HostInstalled, "The host is a node of its cluster."},
		{HostAdded, "The host has joined a cluster that was installed before. If the appliance cannot reach that " +
			"cluster, a user must approve the host's certificate requests."},
		{HostFailed, "The installation of the host or of its cluster failed."},
		{HostCancelled, "The installation was cancelled."},
		{HostResetting, "Exists only in records of older services; no transition leads here. It ends by itself after " +
			"the " +
			"limit."},
		{HostResettingPendingUserAction,
			"The cluster was reset. A user must restart the host from the discovery image."},
		{HostUnbinding, "The host was unbound from its cluster. Its agent restarts and registers again."},
		{HostUnbindingPendingUserAction,
			"The host was unbound from its cluster after its installation. A user must restart it from the " +
				"discovery image."},
		{HostReclaiming, "The host was unbound from its cluster and downloads the discovery image."},
		{HostReclaimingRebooting, "The host restarts into the discovery image by itself."},
	}
}

// ClusterStates lists the states of a cluster in their usual order.
func ClusterStates() []State {
	return []State{
		{ClusterInsufficient, "A validation fails that must pass before the installation."},
		{ClusterPendingForInput, "The cluster lacks a setting that a user must enter."},
		{ClusterReady, "The cluster can be installed."},
		{ClusterPreparing, "openshift-install runs, and the hosts are prepared."},
		{ClusterInstalling, "The hosts are being installed."},
		{ClusterPendingUserAction, "A host boots from the wrong device. A user must correct its boot order."},
		{ClusterFinalizing, "Enough hosts are installed. The controller in the cluster completes the installation."},
		{ClusterInstalled, "The cluster is installed."},
		{ClusterAddingHosts, "The cluster is installed, and more hosts can join it."},
		{ClusterFailed, "The installation failed."},
		{ClusterCancelled, "The installation was cancelled."},
		{ClusterUnmonitored, "The cluster only describes an image for a site without this service. Its state never " +
			"changes."},
	}
}

// StateNames returns the names of states.
func StateNames(states []State) []string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.Name
	}
	return names
}
