package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/mirror"
	"landfall/ignition"
	"landfall/store"
)

// RegisterInfraEnv creates an infra-env, bound to a cluster when one is named.
func (e *Engine) RegisterInfraEnv(ctx context.Context, params *models.InfraEnvCreateParams) (*models.InfraEnv, error) {
	if _, err := mirror.ParsePullSecret(swag.StringValue(params.PullSecret)); err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence(err), Err: err}
	}
	if strings.TrimSpace(swag.StringValue(params.Name)) == "" {
		return nil, invalid("An infra-env needs a name.")
	}
	if err := refuseImageOptions(params.ImageType, params.KernelArguments); err != nil {
		return nil, err
	}
	id := strfmt.UUID(uuid.NewString())
	err := e.update(ctx, func(c *change) error {
		version, arch := params.OpenshiftVersion, params.CPUArchitecture
		var clusterID strfmt.UUID
		if params.ClusterID != nil && *params.ClusterID != "" {
			cluster, err := c.cluster(params.ClusterID.String())
			if err != nil {
				return err
			}
			clusterID = *params.ClusterID
			version, arch = orText(version, cluster.API.OpenshiftVersion), orText(arch, cluster.API.CPUArchitecture)
			if arch != cluster.API.CPUArchitecture {
				return invalid("The infra-env is for %s, its cluster %s for %s.", arch, cluster.API.Name, cluster.API.CPUArchitecture)
			}
		}
		image, err := e.releaseImage(version, arch, "")
		if err != nil && clusterID == "" && (version == "" || e.Images.Agent == "") {
			return err // nothing would say which agent its hosts run
		}
		if err == nil {
			version, arch = image.OpenshiftVersion, image.CPUArchitecture
		}
		created := c.now
		row := &infraEnvRecord{PullSecret: *params.PullSecret}
		row.API = models.InfraEnv{
			ID: &id, Kind: swag.String("InfraEnv"), Href: swag.String(apiRoot + "/infra-envs/" + id.String()),
			Name: params.Name, OpenshiftVersion: version, CPUArchitecture: orText(arch, "x86_64"), ClusterID: clusterID,
			PullSecretSet: true, SSHAuthorizedKey: swag.StringValue(params.SSHAuthorizedKey), Proxy: params.Proxy,
			AdditionalNtpSources: orDefault(params.AdditionalNtpSources, strings.Join(e.NTPSources, ",")), AdditionalTrustBundle: params.AdditionalTrustBundle,
			IgnitionConfigOverride: params.IgnitionConfigOverride, UserName: "admin", CreatedAt: &created, UpdatedAt: &created,
		}
		if row.API.Proxy == nil {
			row.API.Proxy = &models.Proxy{HTTPProxy: swag.String(""), HTTPSProxy: swag.String(""), NoProxy: swag.String("")}
		}
		imageType := params.ImageType
		if imageType == "" {
			imageType = models.ImageTypeFullIso
		}
		row.API.Type = &imageType
		if err := setStaticNetwork(&row.API, params.StaticNetworkConfig); err != nil {
			return err
		}
		row.API.DownloadURL = e.imageURL(&row.API)
		if err := e.checkDiscovery(row); err != nil {
			return err
		}
		c.saveInfraEnv(row)
		if clusterID != "" {
			if err := clusterEnvs.Add(c.tx, clusterID.String()+"/"+id.String()); err != nil {
				return err
			}
		}
		return c.infraEnvEvent(row, eventInfraEnvRegistered, models.EventSeverityInfo, "Infra-env %s was created; its discovery image can be downloaded.", *row.API.Name)
	})
	if err != nil {
		return nil, err
	}
	return e.InfraEnv(id.String())
}

// refuseImageOptions says when an infra-env is saved what its image can't have yet, rather than when a machine boots.
func refuseImageOptions(imageType models.ImageType, arguments models.KernelArguments) error {
	if imageType == models.ImageTypeMinimalIso {
		return invalid("This appliance does not make minimal ISOs yet; choose image_type %s.", models.ImageTypeFullIso)
	}
	if len(arguments) > 0 {
		return invalid("This appliance does not put kernel arguments into images yet; leave kernel_arguments out.")
	}
	return nil
}

// imageURL is where an infra-env's image is downloaded. It ends in ".iso" and has no query, as BMCs insist.
func (e *Engine) imageURL(env *models.InfraEnv) string {
	file := "full.iso"
	if *env.Type == models.ImageTypeMinimalIso {
		file = "minimal.iso"
	}
	return e.URL + "/byid/" + env.ID.String() + "/" + env.OpenshiftVersion + "/" + env.CPUArchitecture + "/" + file
}

// setStaticNetwork keeps the hosts' network descriptions as the API shows them: a JSON text.
func setStaticNetwork(env *models.InfraEnv, hosts []*models.HostStaticNetworkConfig) error {
	if len(hosts) == 0 {
		env.StaticNetworkConfig = ""
		return nil
	}
	text, err := json.Marshal(hosts)
	if err != nil {
		return err
	}
	env.StaticNetworkConfig = string(text)
	return nil
}

// InfraEnv returns an infra-env as the API shows it.
func (e *Engine) InfraEnv(id string) (*models.InfraEnv, error) {
	row, err := e.infraEnvRow(id)
	if err != nil {
		return nil, err
	}
	return &row.API, nil
}

func (e *Engine) infraEnvRow(id string) (*infraEnvRecord, error) {
	var row *infraEnvRecord
	err := e.DB.View(func(tx *store.Tx) error {
		var err error
		row, err = infraEnvRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("There is no infra-env %s.", id)
		}
		return err
	})
	return row, err
}

// InfraEnvs returns all infra-envs, or those of one cluster.
func (e *Engine) InfraEnvs(clusterID string) ([]*models.InfraEnv, error) {
	envs := []*models.InfraEnv{}
	err := e.DB.View(func(tx *store.Tx) error {
		return infraEnvRows.Each(tx, "", func(_ string, row *infraEnvRecord) error {
			if clusterID == "" || row.API.ClusterID.String() == clusterID {
				envs = append(envs, &row.API)
			}
			return nil
		})
	})
	return envs, err
}

// UpdateInfraEnv alters an infra-env. Fields that are absent stay as they are. Images downloaded from now on have the new
// content; a download under way ends on the old one.
func (e *Engine) UpdateInfraEnv(ctx context.Context, id string, params *models.InfraEnvUpdateParams) (*models.InfraEnv, error) {
	if params.PullSecret != "" {
		if _, err := mirror.ParsePullSecret(params.PullSecret); err != nil {
			return nil, &Error{Kind: Invalid, Reason: sentence(err), Err: err}
		}
	}
	if err := refuseImageOptions(params.ImageType, params.KernelArguments); err != nil {
		return nil, err
	}
	err := e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		before := discoveryDigest(row)
		if params.PullSecret != "" {
			row.PullSecret = params.PullSecret
		}
		assign(&row.API.SSHAuthorizedKey, params.SSHAuthorizedKey)
		assign(&row.API.AdditionalNtpSources, params.AdditionalNtpSources)
		assign(&row.API.AdditionalTrustBundle, params.AdditionalTrustBundle)
		if params.IgnitionConfigOverride != "" {
			row.API.IgnitionConfigOverride = params.IgnitionConfigOverride
		}
		if params.Proxy != nil {
			row.API.Proxy = params.Proxy
		}
		if params.ImageType != "" {
			row.API.Type = &params.ImageType
		}
		if params.OpenshiftVersion != nil && *params.OpenshiftVersion != "" {
			image, err := e.releaseImage(*params.OpenshiftVersion, row.API.CPUArchitecture, "")
			if err != nil {
				return err
			}
			row.API.OpenshiftVersion = image.OpenshiftVersion
		}
		if params.StaticNetworkConfig != nil {
			if err := setStaticNetwork(&row.API, params.StaticNetworkConfig); err != nil {
				return err
			}
		}
		row.API.DownloadURL = e.imageURL(&row.API)
		if discoveryDigest(row) == before {
			return nil
		}
		if err := e.checkDiscovery(row); err != nil {
			return err
		}
		row.API.UpdatedAt = &c.now
		c.saveInfraEnv(row)
		return c.infraEnvEvent(row, eventImageUpdated, models.EventSeverityInfo, "The discovery image of infra-env %s was changed; download it again.", *row.API.Name)
	})
	if err != nil {
		return nil, err
	}
	return e.InfraEnv(id)
}

// DeregisterInfraEnv deletes an infra-env. It is refused with kind Conflict while hosts that booted its image are known.
func (e *Engine) DeregisterInfraEnv(ctx context.Context, id string) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		hosts := 0
		if err := hostRows.Keys(c.tx, id+"/", func(string) error { hosts++; return nil }); err != nil {
			return err
		}
		if hosts > 0 {
			return conflict("Infra-env %s still has %d hosts; delete them first.", *row.API.Name, hosts)
		}
		return c.removeInfraEnv(id, row)
	})
}

func (c *change) removeInfraEnv(id string, row *infraEnvRecord) error {
	if row.API.ClusterID != "" {
		if err := clusterEnvs.Remove(c.tx, row.API.ClusterID.String()+"/"+id); err != nil {
			return err
		}
	}
	delete(c.infraEnvs, id)
	return errors.Join(
		infraEnvRows.Delete(c.tx, id),
		c.infraEnvEvent(row, eventInfraEnvDeregistered, models.EventSeverityInfo, "Infra-env %s was deleted.", *row.API.Name),
	)
}

// unbindInfraEnvs deletes the infra-envs that were made for a cluster that is being deleted.
func (c *change) unbindInfraEnvs(clusterID string) error {
	var ids []string
	prefix := clusterID + "/"
	if err := clusterEnvs.Keys(c.tx, prefix, func(key string) error { ids = append(ids, strings.TrimPrefix(key, prefix)); return nil }); err != nil {
		return err
	}
	for _, id := range ids {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		if err := c.removeInfraEnv(id, row); err != nil {
			return err
		}
	}
	return nil
}

// Discovery is the config that a discovery image carries, with what names the image.
type Discovery struct {
	Ignition []byte
	Name     string    // the infra-env's
	Version  string    // OpenShift version whose base ISO is asked for
	Arch     string    // RPM name
	Modified time.Time // when the config last changed
	Type     models.ImageType
}

// Discovery returns the discovery config of an infra-env. The agent's image comes from the configuration or from the
// release payload, which is asked of the mirror the first time; an [Error] of kind Unavailable says what is missing.
func (e *Engine) Discovery(ctx context.Context, id string) (*Discovery, error) {
	row, err := e.infraEnvRow(id)
	if err != nil {
		return nil, err
	}
	agent, err := e.agentImage(ctx, row)
	if err != nil {
		return nil, err
	}
	config, err := e.discoveryConfig(row, agent)
	if err != nil {
		return nil, err
	}
	text, err := ignition.Discovery(config)
	if err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence(err), Err: err}
	}
	return &Discovery{
		Ignition: text, Name: *row.API.Name, Version: row.API.OpenshiftVersion, Arch: row.API.CPUArchitecture,
		Modified: *row.API.UpdatedAt, Type: *row.API.Type,
	}, nil
}

// checkDiscovery renders the discovery config once, so that what is wrong with it is said when the infra-env is saved
// and not when a machine boots.
func (e *Engine) checkDiscovery(row *infraEnvRecord) error {
	config, err := e.discoveryConfig(row, "checked-when-downloaded")
	if err != nil {
		return err
	}
	if err := checkProxies(config.Proxy.HTTP, config.Proxy.HTTPS); err != nil {
		return err
	}
	if _, err := ignition.Discovery(config); err != nil {
		return &Error{Kind: Invalid, Reason: sentence(err), Err: err}
	}
	return nil
}

// checkProxies refuses proxies that no program could use.
func checkProxies(proxies ...string) error {
	for _, proxy := range proxies {
		if proxy == "" {
			continue
		}
		if parsed, err := url.Parse(proxy); err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return invalid("The proxy %q is not a URL, such as http://proxy.example.com:3128.", redact(proxy, parsed))
		}
	}
	return nil
}

// redact leaves the password out of a URL, or out of what was meant for one.
func redact(text string, parsed *url.URL) string {
	if parsed != nil && parsed.User != nil {
		return parsed.Redacted()
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

func (e *Engine) discoveryConfig(row *infraEnvRecord, agentImage string) (ignition.DiscoveryConfig, error) {
	env := &row.API
	config := ignition.DiscoveryConfig{
		InfraEnvID: env.ID.String(), ServiceURL: e.URL, AgentImage: agentImage, PullSecretToken: row.Token, PullSecret: row.PullSecret,
		ServiceCA: e.ServiceCA, TrustBundle: joinBundles(string(e.Mirror.CABundle()), env.AdditionalTrustBundle),
		SSHKeys: lines(env.SSHAuthorizedKey), NTPSources: commaList(env.AdditionalNtpSources),
		Overrides: env.IgnitionConfigOverride, OpenshiftVersion: env.OpenshiftVersion,
	}
	if !e.Mirror.Empty() {
		config.RegistriesConf = e.Mirror.RegistriesConf()
	}
	if env.Proxy != nil {
		config.Proxy = ignition.Proxy{HTTP: swag.StringValue(env.Proxy.HTTPProxy), HTTPS: swag.StringValue(env.Proxy.HTTPSProxy), No: swag.StringValue(env.Proxy.NoProxy)}
	}
	if env.StaticNetworkConfig != "" {
		var hosts []*models.HostStaticNetworkConfig
		if err := json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts); err != nil {
			return config, err
		}
		for _, host := range hosts {
			network := ignition.HostNetwork{YAML: host.NetworkYaml}
			for _, nic := range host.MacInterfaceMap {
				network.Interfaces = append(network.Interfaces, ignition.NetworkInterface{MAC: nic.MacAddress, Name: nic.LogicalNicName})
			}
			config.StaticNetwork = append(config.StaticNetwork, network)
		}
	}
	return config, nil
}

// discoveryDigest tells whether an infra-env's image would differ.
func discoveryDigest(row *infraEnvRecord) string {
	api := row.API
	api.UpdatedAt = nil
	text, err := json.Marshal(infraEnvRecord{API: api, PullSecret: row.PullSecret, Token: row.Token})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func joinBundles(bundles ...string) []byte {
	var kept []string
	for _, bundle := range bundles {
		if text := strings.TrimSpace(bundle); text != "" {
			kept = append(kept, text)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []byte(strings.Join(kept, "\n") + "\n")
}

func lines(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

func commaList(lists ...string) []string {
	var kept []string
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			if part = strings.TrimSpace(part); part != "" && !slices.Contains(kept, part) {
				kept = append(kept, part)
			}
		}
	}
	return kept
}

func orText(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
