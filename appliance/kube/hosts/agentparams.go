package hosts

import (
	"context"
	"maps"
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
)

// statesChangeable are the states in which users can change a host.
var statesChangeable = slices.Concat(statesUndecided, statesReady, []string{models.HostStatusBinding})

// apply updates the host in the engine to its Agent's spec. It does nothing from the start of an
// installation until the host can be changed again.
func (r agents) apply(ctx context.Context, s *agentSnapshot) error {
	host, spec := s.host, &s.object.Spec
	env, id := host.InfraEnvID.String(), host.ID.String()
	wanted, err := installerArguments(spec.InstallerArgs)
	if err != nil {
		return invalid("Fail to unmarshal installer args for host %s in infraEnv %s: %v", id, env, err)
	}
	if !sameArguments(spec.InstallerArgs, host.InstallerArgs) {
		if _, err := r.Engine.SetInstallerArgs(ctx, env, id, wanted); err != nil {
			return err
		}
	}
	if spec.IgnitionConfigOverrides != host.IgnitionConfigOverrides {
		if err := r.Engine.SetHostIgnition(ctx, env, id, spec.IgnitionConfigOverrides); err != nil {
			return withKnownText(err)
		}
	}
	if spec.InstallationDiskID == objects.NoDiskFits {
		name := s.object.Labels[labelBareMetalHost]
		return invalid("no disk of the host fits spec.rootDeviceHints of BareMetalHost %s/%s; correct or remove the hints",
			s.object.Namespace, name)
	}
	params, needed := hostParams(spec, host, s)
	note := record.Object{Key: s.key, Generation: s.object.Generation, Digest: s.digest}
	switch {
	case !needed:
		return r.storeApplied(ctx, host.Key(), note)
	case !slices.Contains(statesChangeable, conv.Value(host.Status)):
		return nil
	}
	_, err = r.Engine.UpdateHost(ctx, env, id, params, note)
	return err
}

// hostParams returns the update that applies an Agent's spec to its host. needed is false if the
// host already has all values.
func hostParams(spec *agentinstall.AgentSpec, host *view.Host,
	s *agentSnapshot) (params *models.HostUpdateParams, needed bool) {
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
	if host.Object.Digest == s.digest {
		return params, needed
	}
	switch {
	case s.token != nil:
		params.IgnitionEndpointToken, needed = s.token, true
	case host.IgnitionEndpointTokenSet:
		params.IgnitionEndpointToken, needed = conv.Pointer(""), true
	}
	if s.fencing != nil {
		params.FencingCredentials, needed = s.fencing, true
	}
	return params, needed
}
