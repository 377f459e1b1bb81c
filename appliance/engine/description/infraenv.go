package description

import (
	"cmp"
	"errors"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
)

// InfraEnv is the description of an infra-env.
type InfraEnv struct {
	API        models.InfraEnv
	PullSecret string
	site       *Site
}

// infraEnvFields is the table of the fields of infra-envs. It is built once, because every creation
// and update reads it. It is not changed.
var infraEnvFields = newInfraEnvFields()

// InfraEnvFields returns the table of the fields of infra-envs. Callers must not change it.
func InfraEnvFields() []Field[InfraEnv] { return infraEnvFields }

// newInfraEnvFields returns the fields of infra-envs in the order in which they are checked and
// set.
func newInfraEnvFields() []Field[InfraEnv] {
	api := func(at func(*models.InfraEnv) *string) func(*InfraEnv) *string {
		return func(d *InfraEnv) *string { return at(&d.API) }
	}
	return []Field[InfraEnv]{
		text("PullSecret", func(d *InfraEnv) *string { return &d.PullSecret }, checkPullSecret),
		imageTypeField(),
		text("AdditionalNtpSources", api(func(e *models.InfraEnv) *string { return &e.AdditionalNtpSources }),
			CheckTimeServers),
		inObject(trimmed(text("SSHAuthorizedKey",
			api(func(e *models.InfraEnv) *string { return &e.SSHAuthorizedKey }), CheckSSHKeys))),
		inObject(trimmed(text("AdditionalTrustBundle",
			api(func(e *models.InfraEnv) *string { return &e.AdditionalTrustBundle }), checkTrustBundle))),
		inObject(clearable(text("IgnitionConfigOverride",
			api(func(e *models.InfraEnv) *string { return &e.IgnitionConfigOverride }), nil))),
		proxyField(),
		versionField(),
		kernelArgumentsField(),
		staticNetworkField(),
	}
}

// trimmed returns a field that removes white space around its texts.
func trimmed[D any](f Field[D]) Field[D] {
	set := f.set
	f.set = func(d *D, value any) error { return set(d, strings.TrimSpace(value.(string))) }
	return f
}

// Cleared is the value that clears a text whose field in requests is no pointer, so that an empty
// text counts as absent.
const Cleared = " "

// clearable returns a field that [Cleared] clears.
func clearable[D any](f Field[D]) Field[D] {
	set := f.set
	f.set = func(d *D, value any) error {
		if value == Cleared {
			value = ""
		}
		return set(d, value)
	}
	return f
}

func imageTypeField() Field[InfraEnv] {
	return Field[InfraEnv]{Name: "ImageType", changeOnly: true,
		check: func(value any) error {
			if value == models.ImageTypeDisconnectedIso {
				return invalid("The appliance cannot make images of the type %s, which contain a registry; "+
					"choose %s or %s.", value, models.ImageTypeFullIso, models.ImageTypeMinimalIso)
			}
			return nil
		},
		set: func(d *InfraEnv, value any) error {
			d.API.Type = conv.Pointer(value.(models.ImageType))
			return CheckImageArchitecture(&d.API, nil)
		},
		get: func(d *InfraEnv) (any, error) { return *d.API.Type, nil }}
}

func proxyField() Field[InfraEnv] {
	f := value("Proxy", func(d *InfraEnv) **models.Proxy { return &d.API.Proxy })
	f.set = func(d *InfraEnv, value any) error {
		d.API.Proxy = newProxy(d.API.Proxy)
		updateProxy(d.API.Proxy, value.(*models.Proxy))
		return nil
	}
	return f
}

func newProxy(requested *models.Proxy) *models.Proxy {
	proxy := &models.Proxy{HTTPProxy: conv.Pointer(""), HTTPSProxy: conv.Pointer(""), NoProxy: conv.Pointer("")}
	updateProxy(proxy, requested)
	return proxy
}

// updateProxy changes the requested parts of a proxy.
func updateProxy(proxy, requested *models.Proxy) {
	if requested == nil {
		return
	}
	for to, from := range map[**string]*string{&proxy.HTTPProxy: requested.HTTPProxy,
		&proxy.HTTPSProxy: requested.HTTPSProxy, &proxy.NoProxy: requested.NoProxy} {
		if from != nil {
			*to = conv.Pointer(*from)
		}
	}
}

func versionField() Field[InfraEnv] {
	return Field[InfraEnv]{Name: "OpenshiftVersion", changeOnly: true,
		set: func(d *InfraEnv, value any) error {
			version := value.(string)
			if version == "" || version == d.API.OpenshiftVersion {
				return nil
			}
			if _, err := d.site.FindRelease(version, d.API.CPUArchitecture, ""); err != nil {
				return err
			}
			d.API.OpenshiftVersion = strings.TrimSuffix(version, multiSuffix) // as it was asked for
			return nil
		},
		get: func(d *InfraEnv) (any, error) { return d.API.OpenshiftVersion, nil }}
}

// CheckNewInfraEnv checks each field of a request for an infra-env on its own.
func CheckNewInfraEnv(params *models.InfraEnvCreateParams) error {
	if strings.TrimSpace(conv.Value(params.Name)) == "" {
		return invalid("An infra-env needs a name.")
	}
	if err := checkPullSecret(conv.Value(params.PullSecret)); err != nil { // also if the request has none
		return err
	}
	return checkAll(infraEnvFields, params)
}

// NewInfraEnv returns the description of a new infra-env. The request must have passed
// [CheckNewInfraEnv]. The cluster is that of the request, or nil. The error names the faults of all
// fields.
func NewInfraEnv(site *Site, params *models.InfraEnvCreateParams, id strfmt.UUID,
	cluster *models.Cluster) (*InfraEnv, error) {
	version, cpu := params.OpenshiftVersion, architecture.Of(params.CPUArchitecture).API()
	api := models.InfraEnv{ID: &id, Name: params.Name, Proxy: newProxy(nil)}
	if cluster != nil {
		api.ClusterID = *cluster.ID
		version = cmp.Or(version, cluster.OpenshiftVersion)
		if cpu == "" && cluster.CPUArchitecture != MultiCPU {
			cpu = cluster.CPUArchitecture
		}
		if !Serves(cluster.CPUArchitecture, cmp.Or(cpu, x86)) {
			return nil, invalid("Specified CPU architecture (%s) doesn't match the cluster (%s); give the infra-env "+
				"the architecture of cluster %s.", cmp.Or(cpu, x86), cluster.CPUArchitecture, cluster.Name)
		}
	}
	release, err := site.FindRelease(version, cpu, "")
	if err != nil && cluster == nil && (version == "" || !site.AgentImage) {
		return nil, err // the image of the hosts' agent is unknown
	}
	version = cmp.Or(strings.TrimSuffix(version, multiSuffix), release.OpenshiftVersion)
	api.OpenshiftVersion, api.CPUArchitecture = version, cmp.Or(cpu, x86)
	api.Type = conv.Pointer(cmp.Or(params.ImageType, models.ImageTypeFullIso))
	d := &InfraEnv{API: api, site: site}
	if err := errors.Join(CheckImageArchitecture(&api, cluster), create(infraEnvFields, d, params)); err != nil {
		return nil, err
	}
	d.API.PullSecretSet = true
	d.API.AdditionalNtpSources = cmp.Or(d.API.AdditionalNtpSources, strings.Join(site.NTPSources, ","))
	return d, nil
}

// UpdateInfraEnv changes the description of an infra-env as requested.
func (s *Site) UpdateInfraEnv(d *InfraEnv, params *models.InfraEnvUpdateParams) error {
	d.site = s
	return FirstOf(setAll(infraEnvFields, d, params), checkAll(infraEnvFields, params))
}

// CreateParams returns the request that creates an identical infra-env without a cluster.
func (d *InfraEnv) CreateParams() (*models.InfraEnvCreateParams, error) {
	params := &models.InfraEnvCreateParams{Name: d.API.Name, CPUArchitecture: d.API.CPUArchitecture}
	return params, state(infraEnvFields, params, d)
}

// InfraEnvUpdateParams returns the request that updates an infra-env to the fields of a create
// request. Fields that an update lacks are left out.
func InfraEnvUpdateParams(create *models.InfraEnvCreateParams) *models.InfraEnvUpdateParams {
	params := &models.InfraEnvUpdateParams{}
	copyFields(infraEnvFields, params, create)
	return params
}
