package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
)

// Kubelets runs the kubelets of hosts that join installed clusters and are simulated in another
// process (landfall simulate hosts), which cannot access the clusters' APIs. It ignores the hosts
// of groups in this process.
type Kubelets struct {
	URL    string // of the appliance
	Token  string // of an operator; "" if the appliance does not authenticate people
	Spokes *Spokes
	Speed  float64         // factor relative to real hosts
	Clock  clockwork.Clock // nil means the real clock
	Logger *slog.Logger
}

// Run runs the kubelets until the context ends.
func (k *Kubelets) Run(ctx context.Context) error {
	base, err := url.Parse(k.URL)
	if err != nil {
		return fmt.Errorf("read the appliance's URL: %w", err)
	}
	api := newOperator(base, k.Token, http.DefaultTransport)
	clock := k.Clock
	if clock == nil {
		clock = clockwork.NewRealClock()
	}
	ticker := clock.NewTicker(max(pollFloor, time.Duration(float64(watchInterval)/k.Speed)))
	defer ticker.Stop()
	restarted := map[strfmt.UUID]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
		clusters, err := api.joinedClusters(ctx)
		if err != nil {
			continue // the appliance is starting or stopping
		}
		awaited := map[strfmt.UUID]time.Time{}
		for _, cluster := range clusters {
			for _, h := range cluster.Hosts {
				if !k.joins(h) {
					continue
				}
				since, ok := restarted[*h.ID]
				if !ok {
					since = clock.Now()
				}
				awaited[*h.ID] = since
				if clock.Since(since) >= time.Duration(float64(joinedTime)/k.Speed) {
					k.tick(ctx, cluster, h)
				}
			}
		}
		restarted = awaited
	}
}

// joins reports whether a host has restarted to join a cluster and belongs to no group of this
// process.
func (k *Kubelets) joins(h *models.Host) bool {
	stage := stageOf(h)
	return h.ID != nil && conv.Value(h.Kind) == models.HostKindAddToExistingClusterHost && isAfterReboot(stage) &&
		stage != models.HostStageDone && !k.Spokes.isClaimed(*h.ID)
}

func (k *Kubelets) tick(ctx context.Context, cluster *models.Cluster, h *models.Host) {
	kubelet := Kubelet{
		Cluster:  k.Spokes.Cluster("api." + cluster.Name + "." + cluster.BaseDNSDomain),
		Hostname: h.RequestedHostname, Addresses: addressesOf(h),
	}
	if _, err := kubelet.Tick(); err != nil {
		k.Logger.WarnContext(ctx, "A kubelet could not request its certificate.", "host", h.RequestedHostname,
			"error", err)
	}
}

// addressesOf returns the IP addresses in a host's inventory.
func addressesOf(h *models.Host) []string {
	var inventory models.Inventory
	if inventory.UnmarshalBinary([]byte(h.Inventory)) != nil {
		return nil // the appliance stores only readable inventories
	}
	var addresses []string
	for _, nic := range inventory.Interfaces {
		for _, text := range slices.Concat(nic.IPV4Addresses, nic.IPV6Addresses) {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				addresses = append(addresses, prefix.Addr().String())
			}
		}
	}
	return addresses
}

// joinedClusters returns the clusters that hosts can join, with their hosts.
func (c *connection) joinedClusters(ctx context.Context) ([]*models.Cluster, error) {
	list, err := c.installer.V2ListClusters(ctx, installer.NewV2ListClustersParams().WithWithHosts(true))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Payload, func(cluster *models.Cluster) bool {
		return conv.Value(cluster.Kind) != models.ClusterKindAddHostsCluster
	}), nil
}
