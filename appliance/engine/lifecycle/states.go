package lifecycle

// State is a state with its meaning, for docs/lifecycle.md.
type State struct {
	Name, Meaning string
}

// HostStates lists the states of a host in their usual order.
func HostStates() []State {
	return []State{
		{HostDiscoveringUnbound,
			"It runs the discovery image of an infra-env that belongs to no cluster; its inventory " +
				"is awaited."},
		{HostInsufficientUnbound, "It can't be bound: it has less than any role needs, or no usable name."},
		{HostDisconnectedUnbound, "Its agent is silent, or can't read its discovery image any more."},
		{HostKnownUnbound, "It can be bound to a cluster."},
		{HostDisabledUnbound, "Of records that older services wrote; nothing enters it. It ends when the agent " +
			"registers."},
		{HostBinding, "It was given to a cluster; its agent ends itself and registers anew."},
		{HostDiscovering, "It runs the discovery image; its inventory is awaited."},
		{HostPendingForInput, "The cluster lacks a setting that a person must give."},
		{HostInsufficient, "A check fails that must pass before an installation."},
		{HostDisconnected, "Its agent is silent, or can't read its discovery image any more."},
		{HostKnown, "It is ready to be installed."},
		{HostDisabled, "Of records that older services wrote; nothing enters it. It ends when the agent registers."},
		{HostPreparing, "It measures its disk and pulls the images of the installation."},
		{HostPreparingFailed, "It could not be prepared. It is known again as soon as its cluster has stopped " +
			"preparing."},
		{HostPrepared, "It is prepared and waits for the others."},
		{HostInstalling, "It was ordered to install; the installer's first word is awaited."},
		{HostInstallingInProgress, "The installer, and then the controller in the cluster, report its stages."},
		{HostPendingUserAction,
			"It booted from the wrong device, or did not come back; a person must correct its boot " +
				"order."},
		{HostInstalled, "It is a node of its cluster."},
		{HostAdded, "It has joined a cluster that was installed before. Where this appliance can't look there, " +
			"approving " +
			"its certificate requests is left to people."},
		{HostFailed, "Its installation, or that of its cluster, failed."},
		{HostCancelled, "Its installation was cancelled."},
		{HostResetting, "Of records that older services wrote; nothing enters it. It ends by itself after the limit."},
		{HostResettingPendingUserAction, "Its cluster was reset; a person must restart it from the discovery image."},
		{HostUnbinding, "It was taken from its cluster; its agent ends itself and registers anew."},
		{HostUnbindingPendingUserAction,
			"It was taken from its cluster after its installation; a person must restart it from the " +
				"discovery image."},
		{HostReclaiming, "It was taken from its cluster and fetches the discovery image."},
		{HostReclaimingRebooting, "It restarts into the discovery image by itself."},
	}
}

// ClusterStates lists the states of a cluster in their usual order.
func ClusterStates() []State {
	return []State{
		{ClusterInsufficient, "A check fails that must pass before an installation."},
		{ClusterPendingForInput, "A setting is missing that a person must give."},
		{ClusterReady, "It can be installed."},
		{ClusterPreparing, "openshift-install runs, and the hosts are prepared."},
		{ClusterInstalling, "Its hosts are being installed."},
		{ClusterPendingUserAction, "A host waits for a person to correct its boot order."},
		{ClusterFinalizing, "Enough hosts are installed; the controller in the cluster does the rest."},
		{ClusterInstalled, "It is installed."},
		{ClusterAddingHosts, "It is installed and takes more hosts."},
		{ClusterFailed, "Its installation failed."},
		{ClusterCancelled, "Its installation was cancelled."},
		{ClusterUnmonitored, "It only describes an image for a site without a service; nothing happens to it."},
	}
}

func StateNames(states []State) []string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.Name
	}
	return names
}
