package hosts

import (
	"context"
	"maps"
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects/agentinstall"
)

// statesChangeable are the states in which a host can be changed by users.
var statesChangeable = slices.Concat(statesUndecided, statesReady, []string{models.HostStatusBinding})

// apply sends the differences between an Agent's spec and its host to the engine. Nothing is sent
// after an installation has started, until the host is back.
func (r agents) apply(ctx context.Context, task *agentSnapshot) error {
	host, spec := task.host, &task.object.Spec
	env, id := host.InfraEnvID.String(), host.ID.String()
	wanted, err := installerArguments(spec.InstallerArgs)
	if err != nil {
		return err
	}
	if !sameArguments(spec.InstallerArgs, host.InstallerArgs) {
		if _, err := r.Engine.SetInstallerArgs(ctx, env, id, wanted); err != nil {
			return err
		}
	}
	if spec.IgnitionConfigOverrides != host.IgnitionConfigOverrides {
		if err := r.Engine.SetHostIgnition(ctx, env, id, spec.IgnitionConfigOverrides); err != nil {
			return err
		}
	}
	params, needed := hostParams(spec, host, task)
	note := record.Object{Key: task.key, Generation: task.object.Generation, Digest: task.digest}
	switch {
	case !needed:
		return r.storeApplied(ctx, host.Key(), note)
	case !slices.Contains(statesChangeable, conv.Value(host.Status)):
		return nil
	}
	_, err = r.Engine.UpdateHost(ctx, env, id, params, note)
	return err
}

// hostParams returns the update that makes a host what its Agent's spec specifies. needed is false
// if there is no difference.
func hostParams(spec *agentinstall.AgentSpec, host *view.Host,
	task *agentSnapshot) (params *models.HostUpdateParams, needed bool) {
	params = &models.HostUpdateParams{}
	if spec.Hostname != "" && spec.Hostname != host.Named {
		params.HostName, needed = &spec.Hostname, true
	}
	if spec.Role != "" && spec.Role != host.Role {
		params.HostRole, needed = conv.Pointer(string(spec.Role)), true
	}
	if spec.MachineConfigPool != "" && spec.MachineConfigPool != host.MachineConfigPoolName {
		params.MachineConfigPoolName, needed = &spec.MachineConfigPool, true
	}
	if disk := chosenDisk(spec); disk != "" && !namesDisk(host.Host, disk) {
		params.DisksSelectedConfig, needed = []*models.DiskConfigParams{{ID: &disk, Role: models.DiskRoleInstall}}, true
	}
	if labels, err := nodeLabelsOf(host.Host); err != nil || !maps.Equal(labels, spec.NodeLabels) {
		params.NodeLabels, needed = []*models.NodeLabelParams{}, true
		for _, name := range slices.Sorted(maps.Keys(spec.NodeLabels)) {
			params.NodeLabels = append(params.NodeLabels, &models.NodeLabelParams{Key: conv.Pointer(name),
				Value: conv.Pointer(spec.NodeLabels[name])})
		}
	}
	if !maps.Equal(host.EndpointHeaders, spec.IgnitionEndpointHTTPHeaders) {
		params.IgnitionEndpointHTTPHeaders, needed = []*models.IgnitionEndpointHTTPHeadersParams{}, true
		for _, name := range slices.Sorted(maps.Keys(spec.IgnitionEndpointHTTPHeaders)) {
			params.IgnitionEndpointHTTPHeaders = append(params.IgnitionEndpointHTTPHeaders,
				&models.IgnitionEndpointHTTPHeadersParams{Key: conv.Pointer(name),
					Value: conv.Pointer(spec.IgnitionEndpointHTTPHeaders[name])})
		}
	}
	if host.Object.Digest == task.digest {
		return params, needed
	}
	switch {
	case task.token != nil:
		params.IgnitionEndpointToken, needed = task.token, true
	case host.IgnitionEndpointTokenSet:
		params.IgnitionEndpointToken, needed = conv.Pointer(""), true
	}
	if task.fencing != nil {
		params.FencingCredentials, needed = task.fencing, true
	}
	return params, needed
}
