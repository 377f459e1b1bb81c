package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/command/cluster"
	"landfall/appliance/command/output"
	"landfall/appliance/engine/operator"
	"landfall/appliance/simulate"
)

// demoPullSecret is the pull secret of the demo's cluster. The simulated registry requires no
// credentials, but the API requires a pull secret.
const demoPullSecret = `{"auths":{"quay.io":{"auth":"ZGVtbzpkZW1v"}}}`

const demoDomain = "landfall.test"

// pollInterval is the interval between two requests for a state.
const pollInterval = 200 * time.Millisecond

// install creates a cluster like any client of the API, boots hosts for it, installs it and
// downloads its kubeconfig.
func (d *demo) install(ctx context.Context, site *demoSite, address string, logger *slog.Logger) error {
	api := clientAt(address)
	cluster, err := d.newCluster(ctx, api, site.release.Version)
	if err != nil {
		return err
	}
	env, err := newInfraEnv(ctx, api, cluster)
	if err != nil {
		return err
	}
	d.print("  hosts  landfall simulate hosts --url %s --infra-env %s --first %d --count 1   adds another host\n",
		address,
		*env.ID, d.hosts+1)

	hosts := &simulate.HostGroup{URL: address, InfraEnvID: env.ID.String(), Count: d.hosts, Speed: d.speed,
		Faults: d.parsedFaults, Logger: logger, KeepFailed: !d.exit, Spokes: site.spokes}
	group, groupCtx := errgroup.WithContext(ctx)
	groupCtx, stopHosts := context.WithCancel(groupCtx)
	defer stopHosts()
	group.Go(func() error {
		err := hosts.Run(groupCtx)
		if groupCtx.Err() != nil {
			return nil
		}
		return err
	})
	var installed *models.Cluster
	group.Go(func() (err error) {
		installed, err = d.watch(groupCtx, api, *cluster.ID)
		if err != nil && d.exit {
			stopHosts()
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := d.fetchKubeconfig(ctx, api, installed); err != nil {
		return err
	}
	return d.reportDegraded(installed)
}

// newCluster creates the cluster "demo", or demo-2 and so on if a kept data directory already has
// one.
func (d *demo) newCluster(ctx context.Context, api *client, version string) (*models.Cluster, error) {
	known, err := api.clusters(ctx)
	if err != nil {
		return nil, err
	}
	name := "demo"
	for n := 2; slices.ContainsFunc(known, func(c *models.Cluster) bool { return c.Name == name }); n++ {
		name = fmt.Sprintf("demo-%d", n)
	}
	params := &models.ClusterCreateParams{
		Name: &name, BaseDNSDomain: demoDomain, OpenshiftVersion: &version, PullSecret: conv.Pointer(demoPullSecret),
		ControlPlaneCount: conv.Pointer[int64](int64(min(d.hosts, 3))),
	}
	for _, name := range d.operators {
		params.OlmOperators = append(params.OlmOperators, &models.OperatorCreateParams{Name: name})
	}
	if d.hosts > 1 {
		network := simulate.DefaultNetwork().Masked().Addr().As4()
		params.APIVips = []*models.APIVip{{IP: models.IP(fmt.Sprintf("%d.%d.%d.4", network[0], network[1],
			network[2]))}}
		params.IngressVips = []*models.IngressVip{{IP: models.IP(fmt.Sprintf("%d.%d.%d.5", network[0], network[1],
			network[2]))}}
	}
	cluster := new(models.Cluster)
	if err := api.call(ctx, http.MethodPost, apiPath+"/clusters", params, cluster); err != nil {
		return nil, fmt.Errorf("create the cluster %s: %w", name, err)
	}
	return cluster, nil
}

func newInfraEnv(ctx context.Context, api *client, cluster *models.Cluster) (*models.InfraEnv, error) {
	env := new(models.InfraEnv)
	params := &models.InfraEnvCreateParams{
		Name: conv.Pointer(cluster.Name + "_infra-env"), ClusterID: cluster.ID,
		PullSecret:       conv.Pointer(demoPullSecret),
		OpenshiftVersion: cluster.OpenshiftVersion, ImageType: models.ImageTypeFullIso,
	}
	if err := api.call(ctx, http.MethodPost, apiPath+"/infra-envs", params, env); err != nil {
		return nil, fmt.Errorf("create the infra-env of the cluster %s: %w", cluster.Name, err)
	}
	return env, nil
}

// watch follows the cluster until it is installed, and returns it. It starts the installation when
// all hosts are ready.
func (d *demo) watch(ctx context.Context, api *client, id strfmt.UUID) (*models.Cluster, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	line := cluster.NewProgress(d.errOut)
	defer line.End()
	started := false
	var reasons reasons
	for {
		cluster, err := api.cluster(ctx, id.String())
		if err != nil {
			return nil, fmt.Errorf("read the cluster: %w", err)
		}
		line.Show(cluster)
		for _, reason := range reasons.observe(cluster) {
			line.End()
			d.print("%s\n", reason)
		}
		switch status := conv.Value(cluster.Status); {
		case status == models.ClusterStatusInstalled:
			return cluster, nil
		case status == models.ClusterStatusError || status == models.ClusterStatusCancelled:
			return nil, fmt.Errorf("the cluster %s is in the state %s: %s", cluster.Name, status,
				conv.Value(cluster.StatusInfo))
		case status == models.ClusterStatusReady && !started && d.ready(cluster):
			if err := api.call(ctx, http.MethodPost, clusterPath(id)+"/actions/install", nil, nil); err != nil {
				return nil, fmt.Errorf("start the installation: %w", err)
			}
			started = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the cluster %s is still %s (%s): %w", cluster.Name, conv.Value(cluster.Status),
				waitingFor(cluster), ctx.Err())
		case <-ticker.C:
		}
	}
}

func clusterPath(id strfmt.UUID) string { return apiPath + "/clusters/" + url.PathEscape(id.String()) }

// ready reports whether all hosts of the demo can be installed; the cluster itself needs only the
// control plane.
func (d *demo) ready(cluster *models.Cluster) bool {
	readyHosts := 0
	for _, host := range cluster.Hosts {
		if conv.Value(host.Status) == models.HostStatusKnown {
			readyHosts++
		}
	}
	return readyHosts >= d.hosts
}

// reasons finds the reasons that keep a cluster from being installed. A cluster and its hosts are
// insufficient for some moments at the beginning, so only a reason that many observations in a row
// have found counts.
type reasons struct {
	seen map[strfmt.UUID]observed
}

type observed struct {
	reason string
	times  int
}

// reasonObservations are three seconds of polling.
const reasonObservations = 15

// observe returns the reasons that have lasted, each once.
func (r *reasons) observe(cluster *models.Cluster) (lasting []string) {
	if r.seen == nil {
		r.seen = map[strfmt.UUID]observed{}
	}
	note := func(id *strfmt.UUID, subject string, status, info *string) {
		last, reason := r.seen[*id], ""
		if conv.Value(status) == models.HostStatusInsufficient {
			reason = subject + " can't be installed yet. " + conv.Value(info)
		}
		if last.reason != reason {
			last = observed{reason: reason}
		}
		if last.times++; last.times == reasonObservations && reason != "" {
			lasting = append(lasting, reason)
		}
		r.seen[*id] = last
	}
	note(cluster.ID, "The cluster "+cluster.Name, cluster.Status, cluster.StatusInfo)
	for _, host := range cluster.Hosts {
		note(host.ID, "The host "+host.RequestedHostname, host.Status, host.StatusInfo)
	}
	return lasting
}

// waitingFor returns the reason why a cluster waits: its status text and the status texts of its
// hosts, each once.
func waitingFor(cluster *models.Cluster) string {
	texts := []string{conv.Value(cluster.StatusInfo)}
	for _, host := range cluster.Hosts {
		if info := conv.Value(host.StatusInfo); !slices.Contains(texts, info) {
			texts = append(texts, info)
		}
	}
	return strings.Join(texts, " ")
}

func (d *demo) fetchKubeconfig(ctx context.Context, api *client, cluster *models.Cluster) error {
	d.print("The cluster %s is installed.\n", cluster.Name)
	var kubeconfig []byte
	path := clusterPath(*cluster.ID) + "/downloads/credentials?file_name=kubeconfig"
	if err := api.call(ctx, http.MethodGet, path, nil, &kubeconfig); err != nil {
		return fmt.Errorf("download the kubeconfig: %w", err)
	}
	if len(kubeconfig) == 0 {
		return errors.New("the appliance returned an empty kubeconfig")
	}
	if d.kubeconfig == "" {
		return nil
	}
	out, finish, err := output.OpenFile(d.kubeconfig, output.Private, d.out)
	if err != nil {
		return fmt.Errorf("write the kubeconfig of --kubeconfig: %w", err)
	}
	_, err = out.Write(kubeconfig)
	if err = finish(err); err != nil {
		return fmt.Errorf("write the kubeconfig: %w; choose another file with --kubeconfig", err)
	}
	d.print("Its kubeconfig is in %s.\n", d.kubeconfig)
	return nil
}

// reportDegraded reports the operators that failed. Without --exit, the demo continues.
func (d *demo) reportDegraded(installed *models.Cluster) error {
	names := operator.Failed(installed)
	switch {
	case len(names) == 0:
		return nil
	case d.exit:
		return fmt.Errorf("the cluster %s is installed but degraded; failed OLM operators: %s; without --exit, "+
			"the demo continues, and landfall operator list --cluster %s shows the causes", installed.Name,
			strings.Join(names, ", "), installed.Name)
	}
	d.print("%s\n", cluster.Degradation(installed))
	return nil
}

// minor returns the part of a version that selects a live ISO: 4.20 of 4.20.8.
func minor(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	return major + "." + second
}
