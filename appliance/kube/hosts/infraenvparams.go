package hosts

import (
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/kube/objects/agentinstall"
)

// infraEnvInputs holds all inputs of the engine's infra-env: the spec of an InfraEnv and the
// objects it refers to.
type infraEnvInputs struct {
	name       string
	spec       *agentinstall.InfraEnvSpec
	pullSecret string
	clusterID  strfmt.UUID // "" if hosts are bound to a cluster later
	version    string      // OpenShift version; "" is the newest version
	imageType  models.ImageType
	networks   []*models.HostStaticNetworkConfig
	from       []string // the NMStateConfigs of the networks, <namespace>/<name>
	// networked reports that the infra-env gets the networks of the selected NMStateConfigs, even
	// if there are none. Otherwise its networks stay unchanged.
	networked bool
}

// imageTypeOf returns the type of an InfraEnv's image: the specified type, else the default. s390x
// always uses the full image, because it has no minimal image.
func imageTypeOf(spec *agentinstall.InfraEnvSpec, byDefault models.ImageType) models.ImageType {
	switch {
	case spec.CPUArchitecture == models.ClusterCPUArchitectureS390x:
		return models.ImageTypeFullIso
	case spec.ImageType != "":
		return models.ImageType(spec.ImageType)
	case byDefault != "":
		return byDefault
	}
	return models.ImageTypeMinimalIso
}

func (in *infraEnvInputs) create() *models.InfraEnvCreateParams {
	params := &models.InfraEnvCreateParams{
		Name: &in.name, PullSecret: &in.pullSecret, OpenshiftVersion: in.version,
		CPUArchitecture: in.spec.CPUArchitecture, ImageType: in.imageType,
		Proxy:           proxyParams(in.spec.Proxy),
		KernelArguments: kernelArguments(in.spec.KernelArguments), StaticNetworkConfig: in.networks,
	}
	description.CreateInfraEnvFromObject(params, in.spec)
	if sources := timeServers(in.spec); sources != "" {
		params.AdditionalNtpSources = &sources
	}
	if in.clusterID != "" {
		params.ClusterID = &in.clusterID
	}
	return params
}

// update returns an update with all values that the InfraEnv specifies. The engine determines which
// of them have changed. Fields without a value in the InfraEnv, but with a default in the engine,
// stay unchanged.
func (in *infraEnvInputs) update() *models.InfraEnvUpdateParams {
	params := description.InfraEnvUpdateParams(in.create())
	description.UpdateInfraEnvFromObject(params, in.spec)
	if params.KernelArguments == nil {
		params.KernelArguments = models.KernelArguments{}
	}
	if in.spec.OSImageVersion == "" {
		params.OpenshiftVersion = nil
	}
	switch {
	case !in.networked:
		params.StaticNetworkConfig = nil
	case params.StaticNetworkConfig == nil:
		params.StaticNetworkConfig = []*models.HostStaticNetworkConfig{}
	}
	return params
}

// timeServers joins all NTP sources: the engine does not distinguish additional sources from
// exclusive ones.
func timeServers(s *agentinstall.InfraEnvSpec) string {
	return strings.Join(append(append([]string(nil), s.NTPSources...), s.AdditionalNTPSources...), ",")
}

func proxyParams(p *agentinstall.Proxy) *models.Proxy {
	if p == nil {
		p = &agentinstall.Proxy{}
	}
	return &models.Proxy{HTTPProxy: conv.Pointer(p.HTTPProxy), HTTPSProxy: conv.Pointer(p.HTTPSProxy),
		NoProxy: conv.Pointer(p.NoProxy)}
}

func kernelArguments(arguments []agentinstall.KernelArgument) models.KernelArguments {
	var params models.KernelArguments
	for _, a := range arguments {
		params = append(params, &models.KernelArgument{Operation: a.Operation, Value: a.Value})
	}
	return params
}
