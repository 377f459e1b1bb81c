package engine

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
	"landfall/store"
)

const apiRoot = "/api/assisted-install/v2"

// Defaults of a cluster's networks (the Assisted Installer's).
const (
	DefaultClusterNetwork    = "10.128.0.0/14"
	DefaultClusterHostPrefix = 23
	DefaultServiceNetwork    = "172.30.0.0/16"
)

// builtinOperators are watched in every cluster.
var builtinOperators = []string{"console", "cvo"}

// RegisterCluster creates a cluster: its row, the event that people read and the outbox entry that
// AMS must hear are one transaction. An invalid description is refused with an [Error] of kind
// Invalid and leaves nothing. An object that describes it is noted in the same transaction.
func (e *Engine) RegisterCluster(ctx context.Context, params *models.ClusterCreateParams,
	of ...Object) (*models.Cluster, error) {
	row, err := e.newCluster(params)
	if err != nil {
		return nil, err
	}
	id := row.API.ID.String()
	var fresh clusterRecord
	err = e.update(ctx, func(c *change) error {
		fresh = *row // the function may be run again: each run starts from what was asked for
		fresh.API.CreatedAt = c.now
		fresh.API.StatusUpdatedAt = c.dateTime()
		fresh.API.AmsSubscriptionID = strfmt.UUID(outbox.ProvisionalID(id, c.now)) // until AMS gives it one
		c.saveCluster(&fresh)
		c.settleCluster(id)
		return errors.Join(
			c.noteClusterObject(&fresh, of),
			c.clusterEvent(&fresh, eventClusterRegistered, models.EventSeverityInfo, "Cluster %s was created.",
				fresh.API.Name),
			c.recordOperators(&fresh, nil),
		)
	})
	if err != nil {
		return nil, err
	}
	var shown *models.Cluster
	err = e.DB.View(func(tx *store.Tx) error {
		shown, err = e.showCluster(tx, &fresh, true)
		return err
	})
	return shown, err
}

func (e *Engine) newCluster(params *models.ClusterCreateParams) (*clusterRecord, error) {
	if _, err := mirror.ParsePullSecret(conv.Value(params.PullSecret)); err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
	}
	name, domain := conv.Value(params.Name), params.BaseDNSDomain
	if err := checkNames(&name, &domain); err != nil {
		return nil, err
	}
	if err := checkProxies(conv.Value(params.HTTPProxy), conv.Value(params.HTTPSProxy)); err != nil {
		return nil, err
	}
	if err := checkTexts(params.SSHPublicKey, conv.Value(params.AdditionalNtpSource), conv.Value(params.NoProxy),
		conv.Value(params.Tags)); err != nil {
		return nil, err
	}
	image, err := e.releaseImage(conv.Value(params.OpenshiftVersion), params.CPUArchitecture, params.OcpReleaseImage)
	if err != nil {
		return nil, err
	}
	if image.CPUArchitecture == severalArchitectures {
		if err := e.refuseWithout(capabilityMultiarch, "clusters of several architectures"); err != nil {
			return nil, err
		}
	}
	controlPlanes, mode := controlPlane(params.ControlPlaneCount, params.HighAvailabilityMode)
	if err := checkControlPlane(image.OpenshiftVersion, controlPlanes, mode); err != nil {
		return nil, err
	}
	id := e.newID()
	row := &clusterRecord{PullSecret: *params.PullSecret}
	row.API = models.Cluster{
		ID: &id, Kind: conv.Pointer(models.ClusterKindCluster), Href: conv.Pointer(apiRoot + "/clusters/" +
			id.String()),
		Name: name, BaseDNSDomain: domain, OpenshiftVersion: image.OpenshiftVersion, OcpReleaseImage: image.URL,
		CPUArchitecture: image.CPUArchitecture, PullSecretSet: true, SSHPublicKey: params.SSHPublicKey,
		ControlPlaneCount: controlPlanes, HighAvailabilityMode: &mode,
		HTTPProxy: conv.Value(params.HTTPProxy), HTTPSProxy: conv.Value(params.HTTPSProxy),
		NoProxy:             conv.Value(params.NoProxy),
		AdditionalNtpSource: orDefault(params.AdditionalNtpSource, strings.Join(e.NTPSources, ",")),
		Hyperthreading:      orDefault(params.Hyperthreading, models.ClusterHyperthreadingAll),
		NetworkType: conv.Pointer(orDefault(params.NetworkType,
			models.ClusterNetworkTypeOVNKubernetes)),
		VipDhcpAllocation:            conv.Pointer(conv.Value(params.VipDhcpAllocation)),
		SchedulableMasters:           conv.Pointer(conv.Value(params.SchedulableMasters)),
		SchedulableMastersForcedTrue: conv.Pointer(true),
		DiskEncryption:               params.DiskEncryption, IgnitionEndpoint: params.IgnitionEndpoint,
		LoadBalancer: params.LoadBalancer,
		Tags:         conv.Value(params.Tags), FeatureUsage: "{}", UserName: "admin", EmailDomain: "",
		Imported:        conv.Pointer(false),
		ClusterNetworks: params.ClusterNetworks, ServiceNetworks: params.ServiceNetworks,
		MachineNetworks: params.MachineNetworks,
		APIVips:         params.APIVips, IngressVips: params.IngressVips,
		Status: conv.Pointer(clusterInsufficient), StatusInfo: conv.Pointer("The cluster was just created."),
		OrgSoftTimeoutsEnabled: e.softTimeouts(),
		Progress:               &models.ClusterProgressInfo{}, Hosts: []*models.Host{},
		HostNetworks: []*models.HostNetwork{},
		LastInstallationPreparation: models.LastInstallationPreparation{
			Status: models.LastInstallationPreparationStatusNotStarted,
			Reason: "The installation has not been started yet."},
	}
	for _, name := range builtinOperators {
		row.API.MonitoredOperators = append(row.API.MonitoredOperators, &models.MonitoredOperator{
			ClusterID: id, Name: name, OperatorType: models.OperatorTypeBuiltin, TimeoutSeconds: 3600,
		})
	}
	if err := setPlatform(&row.API, params.Platform, params.UserManagedNetworking); err != nil {
		return nil, err
	}
	if row.API.DiskEncryption == nil {
		row.API.DiskEncryption = &models.DiskEncryption{}
	}
	setDefault(&row.API.DiskEncryption.EnableOn, models.DiskEncryptionEnableOnNone)
	setDefault(&row.API.DiskEncryption.Mode, models.DiskEncryptionModeTpmv2)
	if row.API.ClusterNetworks == nil {
		row.API.ClusterNetworks = []*models.ClusterNetwork{{Cidr: DefaultClusterNetwork,
			HostPrefix: DefaultClusterHostPrefix}}
	}
	if row.API.ServiceNetworks == nil {
		row.API.ServiceNetworks = []*models.ServiceNetwork{{Cidr: DefaultServiceNetwork}}
	}
	if row.API.LoadBalancer == nil {
		row.API.LoadBalancer = &models.LoadBalancer{Type: models.LoadBalancerTypeClusterManaged}
	}
	asked := requestedNetworking{params.APIVips, params.IngressVips, params.MachineNetworks,
		params.UserManagedNetworking}
	if err := firstOf(completeNetworks(&row.API), checkRequestedVIPs(&row.API, asked),
		checkDualStack(&row.API)); err != nil {
		return nil, err
	}
	if err := operator.Select(&row.API, params.OlmOperators); err != nil {
		return nil, err
	}
	return row, checkFeatures(&row.API)
}

// completeNetworks checks a cluster's networks and VIPs, stamps them with its id, and fills the
// older single fields of the API.
func completeNetworks(cluster *models.Cluster) error {
	if cluster.MachineNetworks == nil {
		cluster.MachineNetworks = []*models.MachineNetwork{}
	}
	if cluster.APIVips == nil {
		cluster.APIVips = []*models.APIVip{}
	}
	if cluster.IngressVips == nil {
		cluster.IngressVips = []*models.IngressVip{}
	}
	var networks []namedNetwork
	for _, network := range cluster.ClusterNetworks {
		network.ClusterID = *cluster.ID
		networks = append(networks, namedNetwork{"cluster network", string(network.Cidr)})
	}
	for _, network := range cluster.ServiceNetworks {
		network.ClusterID = *cluster.ID
		networks = append(networks, namedNetwork{"service network", string(network.Cidr)})
	}
	for _, network := range cluster.MachineNetworks {
		network.ClusterID = *cluster.ID
		networks = append(networks, namedNetwork{"machine network", string(network.Cidr)})
	}
	if err := checkNetworks(networks); err != nil {
		return err
	}
	for _, vip := range cluster.APIVips {
		vip.ClusterID = *cluster.ID
		if _, err := netip.ParseAddr(string(vip.IP)); err != nil {
			return invalid("The API VIP %q is not an IP address.", vip.IP)
		}
	}
	for _, vip := range cluster.IngressVips {
		vip.ClusterID = *cluster.ID
		if _, err := netip.ParseAddr(string(vip.IP)); err != nil {
			return invalid("The ingress VIP %q is not an IP address.", vip.IP)
		}
	}
	cluster.ClusterNetworkCidr, cluster.ClusterNetworkHostPrefix, cluster.ServiceNetworkCidr, cluster.MachineNetworkCidr = "", 0, "", ""
	if len(cluster.ClusterNetworks) > 0 {
		cluster.ClusterNetworkCidr, cluster.ClusterNetworkHostPrefix = string(cluster.ClusterNetworks[0].Cidr),
			cluster.ClusterNetworks[0].HostPrefix
	}
	if len(cluster.ServiceNetworks) > 0 {
		cluster.ServiceNetworkCidr = string(cluster.ServiceNetworks[0].Cidr)
	}
	if len(cluster.MachineNetworks) > 0 {
		cluster.MachineNetworkCidr = string(cluster.MachineNetworks[0].Cidr)
	}
	return nil
}

type namedNetwork struct{ name, cidr string }

// checkNetworks refuses what is no CIDR and networks that overlap, naming both.
func checkNetworks(networks []namedNetwork) error {
	prefixes := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		prefix, err := netip.ParsePrefix(network.cidr)
		if err != nil {
			return invalid("The %s %q is not a network in CIDR notation, such as 192.168.0.0/24.", network.name,
				network.cidr)
		}
		if prefix != prefix.Masked() {
			return invalid("The %s %s has bits set behind its prefix; the network is %s.", network.name, network.cidr,
				prefix.Masked())
		}
		prefixes[i] = prefix
		for j := range i {
			if prefixes[j].Overlaps(prefix) {
				return invalid("The %s %s overlaps with the %s %s; choose another for one of them.", network.name,
					network.cidr, networks[j].name, networks[j].cidr)
			}
		}
	}
	return nil
}

func checkNames(name, domain *string) error {
	if name != nil {
		if problem := network.CheckClusterName(*name); problem != "" {
			return invalid("%s", problem)
		}
	}
	if domain != nil && *domain != "" {
		if problem := network.CheckBaseDomain(*domain); problem != "" {
			return invalid("%s", problem)
		}
	}
	return nil
}

// releaseImage finds the release for a version (exact, or the newest that begins with it) and an
// architecture; a pull spec in the request wins over the list.
func (e *Engine) releaseImage(version, arch, pullSpec string) (ReleaseImage, error) {
	if arch == "" {
		arch = "x86_64"
	}
	if pullSpec != "" {
		return ReleaseImage{OpenshiftVersion: version, CPUArchitecture: arch, URL: pullSpec}, nil
	}
	if found := e.releaseFor(version, arch); found != nil {
		return *found, nil
	}
	var known []string
	for _, image := range e.ReleaseList {
		known = append(known, image.OpenshiftVersion+" ("+image.CPUArchitecture+")")
	}
	if len(known) == 0 {
		return ReleaseImage{},
			invalid("No OpenShift release is configured; add one under release_images in the configuration.")
	}
	return ReleaseImage{}, invalid("There is no release image for OpenShift %q on %s; the configuration has %s.",
		version, arch, strings.Join(known, ", "))
}

// Cluster returns a cluster as the API shows it, with its hosts.
func (e *Engine) Cluster(id string) (*models.Cluster, error) {
	var shown *models.Cluster
	err := e.DB.View(func(tx *store.Tx) error {
		row, err := clusterRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("There is no cluster %s.", id)
		}
		if err != nil {
			return err
		}
		shown, err = e.showCluster(tx, row, true)
		return err
	})
	return shown, err
}

func (e *Engine) showCluster(tx *store.Tx, row *clusterRecord, withHosts bool) (*models.Cluster, error) {
	shown := row.API
	shown.Hosts = []*models.Host{}
	shown.EnabledHostCount, shown.ReadyHostCount, shown.TotalHostCount = 0, 0, 0
	validations, err := loadValidations(tx, clusterSubject(shown.ID.String()))
	if err != nil {
		return nil, err
	}
	shown.ValidationsInfo = textOf(validations)
	keys, err := clusterHostKeys(tx, shown.ID.String())
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		h, err := hostRows.Get(tx, key)
		if err != nil {
			return nil, err
		}
		shown.TotalHostCount++
		shown.EnabledHostCount++
		if *h.API.Status == known {
			shown.ReadyHostCount++
		}
		if withHosts {
			host, err := e.showHost(tx, h, true)
			if err != nil {
				return nil, err
			}
			shown.Hosts = append(shown.Hosts, host)
		}
	}
	return &shown, nil
}

// UpdateCluster alters a cluster's description. Fields that are absent stay as they are. From the
// moment that its installation is prepared the description is refused with kind Conflict. An object
// that describes it is noted in the same transaction.
func (e *Engine) UpdateCluster(ctx context.Context, id string, params *models.V2ClusterUpdateParams,
	of ...Object) (*models.Cluster, error) {
	if err := e.checkVIPs(id, params); err != nil {
		return nil, err
	}
	return e.changeCluster(ctx, id, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !slices.Contains([]string{clusterPending, clusterReady, clusterInsufficient, clusterAddingHosts},
			*row.API.Status) {
			return conflict("Cluster %s is %s; its description can be changed again when the installation is reset.",
				row.API.Name, *row.API.Status)
		}
		operators, before := operator.Selected(&row.API, true), row.API
		held := row.PullSecret
		if err := applyClusterUpdate(row, params); err != nil {
			return err
		}
		row.PullSecret = e.replaceSecret(held, row.PullSecret)
		if err := errors.Join(c.checkArchitectures(row), c.tellOfProxies(row, before),
			c.noteClusterObject(row, of)); err != nil {
			return err
		}
		c.saveCluster(row)
		c.settleCluster(id)
		return c.recordOperators(row, operators)
	})
}

func applyClusterUpdate(row *clusterRecord, params *models.V2ClusterUpdateParams) error {
	api := &row.API
	if err := checkNames(params.Name, params.BaseDNSDomain); err != nil {
		return err
	}
	if params.PullSecret != nil {
		if _, err := mirror.ParsePullSecret(*params.PullSecret); err != nil {
			return &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
		}
		row.PullSecret, api.PullSecretSet = *params.PullSecret, true
	}
	if err := checkTexts(conv.Value(params.SSHPublicKey), conv.Value(params.AdditionalNtpSource),
		conv.Value(params.NoProxy), conv.Value(params.Tags)); err != nil {
		return err
	}
	if params.VipDhcpAllocation != nil && *params.VipDhcpAllocation != conv.Value(api.VipDhcpAllocation) {
		row.forgetVIPs()
	}
	assign(&api.Name, params.Name)
	assign(&api.BaseDNSDomain, params.BaseDNSDomain)
	assign(&api.AdditionalNtpSource, params.AdditionalNtpSource)
	if err := checkProxies(conv.Value(params.HTTPProxy), conv.Value(params.HTTPSProxy)); err != nil {
		return err
	}
	assign(&api.HTTPProxy, params.HTTPProxy)
	assign(&api.HTTPSProxy, params.HTTPSProxy)
	assign(&api.NoProxy, params.NoProxy)
	assign(&api.Hyperthreading, params.Hyperthreading)
	assign(&api.SSHPublicKey, params.SSHPublicKey)
	assign(&api.Tags, params.Tags)
	for _, field := range []struct {
		to   **bool
		from *bool
	}{{&api.SchedulableMasters, params.SchedulableMasters}, {&api.VipDhcpAllocation, params.VipDhcpAllocation}} {
		if field.from != nil {
			*field.to = field.from
		}
	}
	if params.NetworkType != nil {
		api.NetworkType = params.NetworkType
	}
	if params.APIVipDNSName != nil {
		api.APIVipDNSName = params.APIVipDNSName
	}
	if params.ControlPlaneCount != nil {
		if !validation.AddingHosts(api) {
			if err := checkControlPlane(api.OpenshiftVersion, *params.ControlPlaneCount,
				conv.Value(api.HighAvailabilityMode)); err != nil {
				return err
			}
		}
		api.ControlPlaneCount = *params.ControlPlaneCount
	}
	if params.DiskEncryption != nil {
		api.DiskEncryption = params.DiskEncryption
	}
	if params.IgnitionEndpoint != nil {
		api.IgnitionEndpoint = params.IgnitionEndpoint
	}
	if params.LoadBalancer != nil {
		api.LoadBalancer = params.LoadBalancer
	}
	if err := updatePlatform(api, params.Platform, params.UserManagedNetworking); err != nil {
		return err
	}
	if params.ClusterNetworks != nil {
		api.ClusterNetworks = params.ClusterNetworks
	} else if params.ClusterNetworkCidr != nil {
		api.ClusterNetworks = []*models.ClusterNetwork{{Cidr: models.Subnet(*params.ClusterNetworkCidr),
			HostPrefix: max(conv.Value(params.ClusterNetworkHostPrefix), 1)}}
	}
	if params.ServiceNetworks != nil {
		api.ServiceNetworks = params.ServiceNetworks
	} else if params.ServiceNetworkCidr != nil {
		api.ServiceNetworks = []*models.ServiceNetwork{{Cidr: models.Subnet(*params.ServiceNetworkCidr)}}
	}
	if params.MachineNetworks != nil {
		api.MachineNetworks, row.Follows = params.MachineNetworks, false
	} else if params.MachineNetworkCidr != nil {
		api.MachineNetworks, row.Follows = []*models.MachineNetwork{{Cidr: models.Subnet(*params.MachineNetworkCidr)}},
			false
	}
	if params.APIVips != nil {
		api.APIVips = params.APIVips
	}
	if params.IngressVips != nil {
		api.IngressVips = params.IngressVips
	}
	if err := completeNetworks(api); err != nil || validation.AddingHosts(api) {
		return err
	}
	asked := requestedNetworking{params.APIVips, params.IngressVips, params.MachineNetworks,
		params.UserManagedNetworking}
	if err := firstOf(checkRequestedVIPs(api, asked), checkDualStack(api)); err != nil {
		return err
	}
	if err := operator.UpdateSelection(api, params.OlmOperators); err != nil {
		return err
	}
	return checkFeatures(api)
}

// forgetVIPs takes a cluster's VIPs away, and the machine network with them: who gives them out has
// changed.
func (row *clusterRecord) forgetVIPs() {
	api := &row.API
	api.APIVips, api.IngressVips = []*models.APIVip{}, []*models.IngressVip{}
	api.MachineNetworks, row.Follows = []*models.MachineNetwork{}, false
	row.APILease, row.IngressLease = "", ""
}

// DeregisterCluster deletes a cluster with the infra-envs and hosts that are its own, its files and
// events. Hosts that were bound to it are free again. It is refused with kind Conflict while the
// cluster is being installed.
func (e *Engine) DeregisterCluster(ctx context.Context, id string) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if slices.Contains([]string{clusterPreparing, clusterInstalling, clusterUserAction, clusterFinalizing},
			*row.API.Status) {
			return conflict("Cluster %s is %s; cancel the installation before you delete it.", row.API.Name,
				*row.API.Status)
		}
		return c.removeCluster(id, row)
	})
}

func (c *change) removeCluster(id string, row *clusterRecord) error {
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if err := c.loseCluster(id, h); err != nil {
			return err
		}
	}
	if err := c.unbindInfraEnvs(id); err != nil {
		return err
	}
	if err := c.removeFiles(id); err != nil {
		return err
	}
	delete(c.clusters, id)
	delete(c.judged, id)
	c.ended = append(c.ended, id)
	c.endedObjects[id] = row.Object
	return errors.Join(
		row.Object.forget(c.tx, clusterObjects, id),
		clusterRows.Delete(c.tx, id),
		verdictRows.Delete(c.tx, clusterSubject(id)),
		lifeDeadlines.Clear(c.tx, clusterDeadline(id)),
		pendingWork.Remove(c.tx, id),
		outbox.Close(c.tx, id, c.e.WithoutAMS, c.now),
		c.clusterEvent(row, eventClusterDeregistered, models.EventSeverityInfo, "Cluster %s was deleted.",
			row.API.Name),
	)
}

// loseCluster follows for a host that its cluster is deleted: it goes back to the infra-env that it
// booted from, or goes with the infra-env that was made for the cluster.
func (c *change) loseCluster(id string, h *hostRecord) error {
	env, err := c.infraEnv(h.API.InfraEnvID.String())
	if err != nil {
		return err
	}
	if env.API.ClusterID.String() == id {
		return c.removeHost(h)
	}
	return c.takeFromCluster(h.API.InfraEnvID.String(), h.API.ID.String(), onUnbind)
}

// UISettings returns what the browser keeps with a cluster.
func (e *Engine) UISettings(id string) (string, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return "", err
	}
	return row.UISettings, nil
}

// SetUISettings replaces what the browser keeps with a cluster.
func (e *Engine) SetUISettings(ctx context.Context, id, settings string) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		row.UISettings = settings
		c.saveCluster(row)
		return nil
	})
}

func (e *Engine) clusterRow(id string) (*clusterRecord, error) {
	var row *clusterRecord
	err := e.DB.View(func(tx *store.Tx) error {
		var err error
		row, err = clusterRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("There is no cluster %s.", id)
		}
		return err
	})
	return row, err
}

// consoleURL is where the web console of a cluster will be.
func consoleURL(cluster *models.Cluster) string {
	return "https://console-openshift-console.apps." + cluster.Name + "." + cluster.BaseDNSDomain
}

func consoleURLIfUp(row *clusterRecord) string {
	for _, operator := range row.API.MonitoredOperators {
		if operator.Name == "console" && operator.Status == models.OperatorStatusAvailable {
			return consoleURL(&row.API)
		}
	}
	return ""
}

func assign[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func orDefault(value *string, otherwise string) string {
	if value == nil || *value == "" {
		return otherwise
	}
	return *value
}

func setDefault(field **string, value string) {
	if *field == nil || **field == "" {
		*field = &value
	}
}
