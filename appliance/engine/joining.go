package engine

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/steps"
	"landfall/appliance/sentence"
	"landfall/ignition"
	"landfall/store"
)

// Hosts join a cluster that is installed already: one that this appliance installed and that was
// opened for more hosts, or one that is only known here ("imported"). Each such host is installed
// by itself, with an ignition config that sends it to the cluster's own machine config server. What
// its lifecycle says of it is in package lifecycle.

const (
	kindDisconnected     = "DisconnectedCluster" // newer than the models of the API
	statusUnmonitored    = "unmonitored"         // likewise
	joiningControlPlanes = 3                     // what is assumed of a cluster that is only known here
)

// ImportCluster makes a cluster that exists already known, so that hosts can join it. Its name and
// base domain follow from the API's address when that is api.<name>.<domain>. An object that
// describes it is noted in the same transaction.
func (e *Engine) ImportCluster(ctx context.Context, params *models.ImportClusterParams,
	of ...Object) (*models.Cluster, error) {
	address := strings.TrimSpace(conv.Value(params.APIVipDnsname))
	name, domain := conv.Value(params.Name), ""
	if address == "" {
		return nil, invalid("The address of the cluster's API (api_vip_dnsname) is empty.")
	}
	if _, err := netip.ParseAddr(address); err != nil {
		if problem := network.CheckBaseDomain(address); problem != "" {
			return nil, invalid("The address of the cluster's API %q is neither a DNS name nor an IP address.", address)
		}
		if rest, ok := strings.CutPrefix(address, "api."); ok {
			if first, last, ok := strings.Cut(rest, "."); ok {
				name, domain = first, last
			}
		}
	}
	if err := description.CheckName(name); err != nil {
		return nil, err
	}
	row := e.emptyCluster(name, models.ClusterKindAddHostsCluster, lifecycle.ClusterAddingHosts,
		"The cluster exists already and takes more hosts.")
	api := &row.API
	api.BaseDNSDomain, api.APIVipDNSName, api.OpenshiftVersion = domain, &address, params.OpenshiftVersion
	api.OpenshiftClusterID, api.Imported = *params.OpenshiftClusterID, conv.Pointer(true)
	return e.addCluster(ctx, row, of...)
}

// RegisterDisconnectedCluster makes a cluster known that is installed elsewhere without this
// appliance; it is shown and nothing is done to it.
func (e *Engine) RegisterDisconnectedCluster(ctx context.Context, name, version string) (*models.Cluster, error) {
	if strings.TrimSpace(name) == "" {
		return nil, invalid("The cluster's name is empty.")
	}
	if strings.TrimSpace(version) == "" {
		return nil, invalid("The cluster's OpenShift version is empty.")
	}
	if err := description.CheckName(name); err != nil {
		return nil, err
	}
	row := e.emptyCluster(name, kindDisconnected, statusUnmonitored, "The cluster is installed without this appliance.")
	row.API.OpenshiftVersion = version
	return e.addCluster(ctx, row)
}

// emptyCluster is a cluster of which only the name is known.
func (e *Engine) emptyCluster(name, kind, status, info string) *clusterRecord {
	id := e.newID()
	platform, mode := models.PlatformTypeBaremetal, models.ClusterHighAvailabilityModeFull
	row := &clusterRecord{}
	row.API = models.Cluster{
		ID: &id, Kind: &kind, Href: conv.Pointer(apiRoot + "/clusters/" + id.String()), Name: name, Status: &status,
		StatusInfo:        &info,
		ControlPlaneCount: joiningControlPlanes, HighAvailabilityMode: &mode,
		Platform:              &models.Platform{Type: &platform},
		UserManagedNetworking: conv.Pointer(false), NetworkType: conv.Pointer(models.ClusterNetworkTypeOVNKubernetes),
		Hyperthreading: models.ClusterHyperthreadingAll, VipDhcpAllocation: conv.Pointer(false),
		SchedulableMasters: conv.Pointer(false), SchedulableMastersForcedTrue: conv.Pointer(false),
		Imported: conv.Pointer(false),
		DiskEncryption: &models.DiskEncryption{EnableOn: conv.Pointer(models.DiskEncryptionEnableOnNone),
			Mode: conv.Pointer(models.DiskEncryptionModeTpmv2)},
		ClusterNetworks: []*models.ClusterNetwork{}, ServiceNetworks: []*models.ServiceNetwork{},
		MachineNetworks: []*models.MachineNetwork{},
		APIVips:         []*models.APIVip{}, IngressVips: []*models.IngressVip{},
		MonitoredOperators: []*models.MonitoredOperator{},
		Hosts:              []*models.Host{}, HostNetworks: []*models.HostNetwork{},
		Progress:     &models.ClusterProgressInfo{},
		FeatureUsage: "{}", UserName: "admin",
		LastInstallationPreparation: models.LastInstallationPreparation{
			Status: models.LastInstallationPreparationStatusNotStarted,
			Reason: "The installation has not been started yet."},
	}
	return row
}

func (e *Engine) addCluster(ctx context.Context, row *clusterRecord, of ...Object) (*models.Cluster, error) {
	var fresh clusterRecord
	err := e.update(ctx, func(c *change) error {
		fresh = *row // the function may be run again: each run starts from what was asked for
		fresh.API.CreatedAt, fresh.API.StatusUpdatedAt = c.now, c.dateTime()
		c.saveCluster(&fresh)
		return errors.Join(
			c.noteClusterObject(&fresh, of),
			c.clusterEvent(&fresh, event.ClusterRegistered, models.EventSeverityInfo, "Cluster %s was made known.",
				fresh.API.Name),
		)
	})
	if err != nil {
		return nil, err
	}
	var shown *models.Cluster
	err = e.options.DB.View(func(tx *store.Tx) error {
		shown, err = e.showCluster(tx, &fresh, true)
		return err
	})
	return shown, err
}

// AllowAddHosts opens a cluster that this appliance installed for more hosts. It is refused with
// kind Conflict unless the cluster is installed.
func (e *Engine) AllowAddHosts(ctx context.Context, id string) (*models.Cluster, error) {
	return e.changeCluster(ctx, id, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if err := c.triggerCluster(row, lifecycle.OnAddHosts); err != nil {
			return err
		}
		row.API.Kind = conv.Pointer(models.ClusterKindAddHostsCluster)
		row.API.APIVipDNSName = conv.Pointer(apiAddress(&row.API))
		c.saveCluster(row)
		c.settleCluster(id)
		return errors.Join(
			c.setUsage(row, usageDayTwo, true),
			c.clusterEvent(row, event.ClusterAddsHosts, models.EventSeverityInfo,
				"Cluster %s takes more hosts: boot them from an image of its own infra-env.", row.API.Name),
		)
	})
}

// apiAddress is where hosts that join reach a cluster's API: its virtual address where it has one,
// else its name.
func apiAddress(cluster *models.Cluster) string {
	if !conv.Value(cluster.UserManagedNetworking) && len(cluster.APIVips) > 0 {
		return string(cluster.APIVips[0].IP)
	}
	return "api." + cluster.Name + "." + cluster.BaseDNSDomain
}

// InstallHost installs a host that joins an installed cluster. It is refused with kind NotFound for
// a host of no cluster and with kind Conflict for one that is part of the cluster's own
// installation or that is not known to be fit.
func (e *Engine) InstallHost(ctx context.Context, infraEnvID, hostID string) (*models.Host, error) {
	var h *hostRecord
	var row *clusterRecord
	var config []byte
	// Reading the payload may take its time, so it comes before the transaction, which looks at the
	// host again.
	err := e.options.DB.View(func(tx *store.Tx) error {
		c := newReading(ctx, e, tx)
		var err error
		h, row, config, err = c.joiningHost(infraEnvID, hostID)
		return err
	})
	if err != nil {
		return nil, err
	}
	images := row.Release
	if images == nil {
		if images, err = e.joiningImages(ctx, h, row); err != nil {
			return nil, err
		}
	}
	staged, err := e.options.DB.Stage(ctx, bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, row, _, err := c.joiningHost(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if row.Release == nil {
			row.Release = images
			c.saveCluster(row)
		}
		return c.installJoining(h, row, staged)
	})
}

func (c *change) installJoining(h *hostRecord, row *clusterRecord, config *store.Staged) error {
	if h.API.Role == models.HostRoleAutoAssign {
		h.API.Role = h.API.SuggestedRole
	}
	h.API.Progress = &models.HostProgressInfo{}
	followed, err := c.followed(row.API.ID.String())
	if err != nil {
		return err
	}
	if h.API.ProgressStages = joiningStages(h); followed {
		h.Joining, h.API.ProgressStages = &Joining{Started: c.now}, stagesOf(h, false)
	}
	if _, err := c.triggerHost(h, lifecycle.OnInstall, ""); err != nil {
		return err
	}
	c.saveHost(h)
	c.settleLater(h)
	host, err := c.inventoryHost(h)
	if err != nil {
		return err
	}
	return errors.Join(
		installerFiles.Put(c.tx, row.API.ID.String()+"/"+installconfig.HostIgnition(host), config, c.now),
		c.hostEvent(h, event.HostInstall, models.EventSeverityInfo, "Host %s: the installation was started.",
			c.hostName(h)),
	)
}

// joiningStages are the stages of a host that joins an installed cluster where nobody reports what
// comes after its restart.
func joiningStages(h *hostRecord) []models.HostStage {
	stages := stagesOf(h, false)
	return stages[:slices.Index(stages, models.HostStageRebooting)+1]
}

// joiningHost returns a host that can be installed to join its cluster, and the ignition config
// that it gets.
func (c *change) joiningHost(infraEnvID, hostID string) (*hostRecord, *clusterRecord, []byte, error) {
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return nil, nil, nil, err
	}
	if h.API.ClusterID == nil {
		return nil, nil, nil, notFound("Host %s belongs to no cluster that it could be installed for.", c.hostName(h))
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil {
		return nil, nil, nil, err
	}
	if !h.day2() {
		return nil, nil, nil,
			conflict("Host %s is part of the installation of cluster %s; only a host that joins an installed cluster "+
				"is installed by itself.", c.hostName(h), row.API.Name)
	}
	if *h.API.Status != lifecycle.HostKnown {
		return nil, nil, nil, conflict("Host %s is %s and can't be installed now: %s", c.hostName(h), *h.API.Status,
			*h.API.StatusInfo)
	}
	host, err := c.inventoryHost(h)
	if err != nil {
		return nil, nil, nil, err
	}
	endpoint := steps.MachineConfigServer(&row.API, host)
	h.authorize(&endpoint)
	if endpoint.URL == "" {
		return nil, nil, nil,
			conflict("Cluster %s has no address (api_vip_dns_name) from which host %s could get its configuration.",
				row.API.Name, c.hostName(h))
	}
	pointer, err := endpoint.Pointer()
	if err != nil {
		return nil, nil, nil, err
	}
	config, err := ignition.HostConfig(pointer, ignition.HostEdits{Hostname: host.Hostname(),
		Overrides: h.API.IgnitionConfigOverrides})
	return h, row, config, err
}

// headerName is the form of an HTTP header's name (RFC 9110, token).
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// authorize adds what a host shows the machine config server.
func (h *hostRecord) authorize(endpoint *steps.IgnitionEndpoint) {
	endpoint.Token, endpoint.Headers = h.EndpointToken, h.EndpointHeaders
}

// setEndpoint keeps what people give a host to show the machine config server; an empty token and
// an empty list take it away.
func (h *hostRecord) setEndpoint(params *models.HostUpdateParams) error {
	if params.IgnitionEndpointToken != nil {
		h.EndpointToken = *params.IgnitionEndpointToken
		h.API.IgnitionEndpointTokenSet = h.EndpointToken != ""
	}
	if params.IgnitionEndpointHTTPHeaders == nil {
		return nil
	}
	headers := make(map[string]string)
	for _, header := range params.IgnitionEndpointHTTPHeaders {
		name, value := conv.Value(header.Key), conv.Value(header.Value)
		if !headerName.MatchString(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return invalid("The ignition endpoint's header %q can't be sent: its name or its value has characters "+
				"that a header does not have.", name)
		}
		headers[name] = value
	}
	h.EndpointHeaders = headers
	return nil
}

// joiningImages finds the programs that run on a host which joins a cluster that this appliance did
// not install: those of the release of the cluster's version, or the configured ones.
func (e *Engine) joiningImages(ctx context.Context, h *hostRecord, row *clusterRecord) (*releaseRecord, error) {
	env, err := e.infraEnvRow(h.API.InfraEnvID.String())
	if err != nil {
		return nil, err
	}
	arch := orText(row.API.CPUArchitecture, env.API.CPUArchitecture)
	image, err := e.site().FindRelease(orText(row.API.OpenshiftVersion, env.API.OpenshiftVersion), arch,
		row.API.OcpReleaseImage)
	if err != nil {
		return nil, conflict("Host %s can't be installed: %s", h.API.ID, sentence.Ending(err))
	}
	payload, err := e.payload(ctx, e.infraEnvAccess(&env.API).Releases, image.URL, arch,
		orText(row.PullSecret, env.PullSecret))
	if err != nil {
		return nil, unavailable(err, "The release of cluster %s, which names what runs on its hosts, can't be read: %s",
			row.API.Name, sentence.Ending(err))
	}
	return e.releaseImages(payload)
}

// ResetHost takes a host that joins an installed cluster back from its installation; it must be
// restarted from the discovery image. Other hosts are reset with their cluster and refused with
// kind Conflict.
func (e *Engine) ResetHost(ctx context.Context, infraEnvID, hostID string) (*models.Host, error) {
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if h.API.ClusterID == nil {
			return conflict("Host %s belongs to no cluster.", c.hostName(h))
		}
		if !h.day2() {
			return conflict("Host %s is reset with its cluster; only a host that joins an installed cluster is reset "+
				"by itself.", c.hostName(h))
		}
		moved, err := c.triggerHost(h, lifecycle.OnReset, "")
		if err != nil {
			return err
		}
		if !moved {
			return conflict("Host %s is %s; there is nothing to reset.", c.hostName(h), *h.API.Status)
		}
		c.clearPreparation(h)
		h.API.Progress = &models.HostProgressInfo{}
		c.settleLater(h)
		return c.forgetJoining(h)
	})
}
