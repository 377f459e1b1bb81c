package hosts

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects/agentinstall"
)

// writeBackHost copies changes of a host that were made over REST or in the browser into its
// Agent's spec, so that the Agent does not revert them. An empty role, pool or disk in the spec
// stays empty, because the engine may have chosen the value. changed reports whether the spec was
// changed.
func writeBackHost(spec *agentinstall.AgentSpec, host *view.Host,
	bound *agentinstall.ClusterReference) (changed bool) {
	set := func(to *string, value string) {
		if *to != value {
			*to, changed = value, true
		}
	}
	if host.Named != "" {
		set(&spec.Hostname, host.Named)
	}
	if spec.Role != "" && spec.Role != host.Role {
		spec.Role, changed = host.Role, true
	}
	if spec.MachineConfigPool != "" && host.MachineConfigPoolName != "" {
		set(&spec.MachineConfigPool, host.MachineConfigPoolName)
	}
	if chosen := chosenDisk(spec); chosen != "" && host.InstallationDiskID != "" && !namesDisk(host.Host, chosen) {
		spec.InstallationDiskPath = ""
		set(&spec.InstallationDiskID, host.InstallationDiskID)
	}
	if labels, err := nodeLabelsOf(host.Host); err == nil && !maps.Equal(labels, spec.NodeLabels) {
		spec.NodeLabels, changed = labels, true
	}
	if !sameArguments(spec.InstallerArgs, host.InstallerArgs) {
		set(&spec.InstallerArgs, host.InstallerArgs)
	}
	set(&spec.IgnitionConfigOverrides, host.IgnitionConfigOverrides)
	if referenceKey(spec.ClusterDeploymentName) != referenceKey(bound) {
		spec.ClusterDeploymentName, changed = bound, true
	}
	return changed
}

func referenceKey(r *agentinstall.ClusterReference) string {
	if r == nil {
		return ""
	}
	return r.Namespace + "/" + r.Name
}

// chosenDisk returns the id or path of the disk that a spec specifies.
func chosenDisk(spec *agentinstall.AgentSpec) string {
	if spec.InstallationDiskPath != "" {
		return spec.InstallationDiskPath
	}
	return spec.InstallationDiskID
}

// namesDisk reports whether a name refers to the installation disk of a host, by the disk's id, a
// udev path, or the kernel name.
func namesDisk(host *models.Host, name string) bool {
	if name == host.InstallationDiskID || name == host.InstallationDiskPath {
		return true
	}
	inv, err := inventoryOf(host)
	if err != nil || inv == nil {
		return false
	}
	return slices.ContainsFunc(inv.Disks, func(d agentinstall.HostDisk) bool {
		return d.ID == host.InstallationDiskID && slices.Contains([]string{d.ByPath, d.ByID, d.Path, "/dev/" + d.Name},
			name)
	})
}

func nodeLabelsOf(host *models.Host) (map[string]string, error) {
	if host.NodeLabels == "" {
		return nil, nil
	}
	var labels map[string]string
	err := json.Unmarshal([]byte(host.NodeLabels), &labels)
	return labels, err
}

// installerArguments parses a JSON list; it returns nil for "".
func installerArguments(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var arguments []string
	if err := json.Unmarshal([]byte(text), &arguments); err != nil {
		return nil,
			invalid("installerArgs is not a JSON list of strings, such as [\"--append-karg\", \"console=ttyS0\"]: %v.",
				err)
	}
	return arguments, nil
}

func sameArguments(a, b string) bool {
	first, err := installerArguments(a)
	second, err2 := installerArguments(b)
	return err == nil && err2 == nil && slices.Equal(first, second)
}

// approvesAll reports whether an InfraEnv approves its Agents automatically.
func approvesAll(env *agentinstall.InfraEnv) bool {
	return env.Spec.AgentApproval != nil && env.Spec.AgentApproval.AutoApprove
}

// inheritNodeLabels copies labels of an InfraEnv to the node labels of an Agent. An annotation of
// the InfraEnv lists the labels to copy. Labels of the Agent itself are not changed. Inherited
// labels that the annotation no longer lists are removed.
func inheritNodeLabels(agent *agentinstall.Agent, env *agentinstall.InfraEnv) {
	inherited := commaList(agent.Annotations[annotationInheritedLabels])
	labels := cloned(agent.Spec.NodeLabels)
	var now []string
	for _, name := range commaList(env.Annotations[annotationPropagate]) {
		value, there := env.Labels[name]
		_, own := labels[name]
		if !there || own && !slices.Contains(inherited, name) {
			continue
		}
		labels[name] = value
		now = append(now, name)
	}
	for _, name := range inherited {
		if !slices.Contains(now, name) {
			delete(labels, name)
		}
	}
	if len(now)+len(inherited) == 0 {
		return
	}
	agent.Spec.NodeLabels = labels
	agent.Annotations = cloned(agent.Annotations)
	slices.Sort(now)
	now = slices.Compact(now)
	if agent.Annotations[annotationInheritedLabels] = strings.Join(now, ","); len(now) == 0 {
		delete(agent.Annotations, annotationInheritedLabels)
	}
}

// commaList splits a list at commas and drops empty items.
func commaList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// writeBackInfraEnv copies changes of an infra-env that were made over REST or in the browser into
// its InfraEnv's spec. Fields that the spec leaves to the engine stay empty.
func writeBackInfraEnv(spec *agentinstall.InfraEnvSpec, env *view.InfraEnv) (changed bool) {
	changed = description.CopyInfraEnvToObject(spec, env.InfraEnv)
	if env.Type != nil && spec.ImageType != "" && imageTypeOf(spec, "") != *env.Type {
		spec.ImageType, changed = string(*env.Type), true
	}
	if given := timeServers(spec); given != "" && given != env.AdditionalNtpSources {
		spec.NTPSources, spec.AdditionalNTPSources, changed = nil, commaList(env.AdditionalNtpSources), true
	}
	if proxy := proxyOf(env.Proxy); proxy != orNone(spec.Proxy) {
		if spec.Proxy, changed = &proxy, true; proxy == (agentinstall.Proxy{}) {
			spec.Proxy = nil
		}
	}
	if arguments, err := argumentsOf(env.KernelArguments); err == nil && !slices.Equal(arguments,
		spec.KernelArguments) {
		spec.KernelArguments, changed = arguments, true
	}
	return changed
}

func orNone(p *agentinstall.Proxy) agentinstall.Proxy {
	if p == nil {
		return agentinstall.Proxy{}
	}
	return *p
}

func proxyOf(p *models.Proxy) agentinstall.Proxy {
	if p == nil {
		return agentinstall.Proxy{}
	}
	return agentinstall.Proxy{HTTPProxy: conv.Value(p.HTTPProxy), HTTPSProxy: conv.Value(p.HTTPSProxy),
		NoProxy: conv.Value(p.NoProxy)}
}

func argumentsOf(text *string) ([]agentinstall.KernelArgument, error) {
	if conv.Value(text) == "" {
		return nil, nil
	}
	var arguments []agentinstall.KernelArgument
	err := json.Unmarshal([]byte(*text), &arguments)
	return arguments, err
}
