package engine

// state is a state of a lifecycle with what it means, for docs/lifecycle.md.
type state struct {
	name, meaning string
}

// hostStates lists the states of a host in the order in which it comes through them.
func hostStates() []state {
	return []state{
		{discoveringUnbound, "It runs the discovery image of an infra-env that belongs to no cluster; its inventory " +
			"is awaited."},
		{insufficientUnbound, "It can't be bound: it has less than any role needs, or no usable name."},
		{disconnectedUnbound, "Its agent is silent, or can't read its discovery image any more."},
		{knownUnbound, "It can be bound to a cluster."},
		{disabledUnbound, "Of records that older services wrote; nothing enters it. It ends when the agent registers."},
		{binding, "It was given to a cluster; its agent ends itself and registers anew."},
		{discovering, "It runs the discovery image; its inventory is awaited."},
		{pendingForInput, "The cluster lacks a setting that a person must give."},
		{insufficient, "A check fails that must pass before an installation."},
		{disconnected, "Its agent is silent, or can't read its discovery image any more."},
		{known, "It is ready to be installed."},
		{disabled, "Of records that older services wrote; nothing enters it. It ends when the agent registers."},
		{preparing, "It measures its disk and pulls the images of the installation."},
		{preparingFailed, "It could not be prepared. It is known again as soon as its cluster has stopped preparing."},
		{prepared, "It is prepared and waits for the others."},
		{installing, "It was ordered to install; the installer's first word is awaited."},
		{inProgress, "The installer, and then the controller in the cluster, report its stages."},
		{pendingUserAction, "It booted from the wrong device, or did not come back; a person must correct its boot " +
			"order."},
		{installed, "It is a node of its cluster."},
		{added, "It has joined a cluster that was installed before. Where this appliance can't look there, approving " +
			"its certificate requests is left to people."},
		{failed, "Its installation, or that of its cluster, failed."},
		{cancelled, "Its installation was cancelled."},
		{resetting, "Of records that older services wrote; nothing enters it. It ends by itself after the limit."},
		{resetPending, "Its cluster was reset; a person must restart it from the discovery image."},
		{unbinding, "It was taken from its cluster; its agent ends itself and registers anew."},
		{unbindingPending, "It was taken from its cluster after its installation; a person must restart it from the " +
			"discovery image."},
		{reclaiming, "It was taken from its cluster and fetches the discovery image."},
		{reclaimRebooting, "It restarts into the discovery image by itself."},
	}
}

// clusterStates lists the states of a cluster in the order in which it comes through them.
func clusterStates() []state {
	return []state{
		{clusterInsufficient, "A check fails that must pass before an installation."},
		{clusterPending, "A setting is missing that a person must give."},
		{clusterReady, "It can be installed."},
		{clusterPreparing, "openshift-install runs, and the hosts are prepared."},
		{clusterInstalling, "Its hosts are being installed."},
		{clusterUserAction, "A host waits for a person to correct its boot order."},
		{clusterFinalizing, "Enough hosts are installed; the controller in the cluster does the rest."},
		{clusterInstalled, "It is installed."},
		{clusterAddingHosts, "It is installed and takes more hosts."},
		{clusterFailed, "Its installation failed."},
		{clusterCancelled, "Its installation was cancelled."},
		{clusterUnmonitored, "It only describes an image for a site without a service; nothing happens to it."},
	}
}

func stateNames(states []state) []string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.name
	}
	return names
}
