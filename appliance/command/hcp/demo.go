package hcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"landfall/appliance/command/remote"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate/hypershift"
	"landfall/appliance/simulate/workagent"
	"landfall/web/hosted"
	"landfall/web/maestro"
)

// Demo brings up a hosted cluster at an appliance without authentication. The transport is the real
// one. The management cluster, its agent and HyperShift's operator are simulated; no control plane
// runs.
type Demo struct {
	Client *remote.Client
	Out    io.Writer
	Exit   bool   // end when the hosted cluster is available
	Busy   string // port that another program uses, so that the appliance does not serve the APIs on the loopback
}

// demoHosts is the number of free hosts of the simulated management cluster.
const demoHosts = 3

// Run creates a management cluster and a hosted cluster, and simulates the rest until the context
// ends. Those of a former demo in the same data directory stay.
func (d *Demo) Run(ctx context.Context) error {
	if err := d.Client.Call(ctx, http.MethodPost, hosted.ManagementRoute, record.Management{Consumer: "mc1",
		BaseDomain: "hosted.example.com", Address: "192.0.2.10", PodNetworks: []string{"10.128.0.0/14"},
		ServiceNetworks: []string{"172.30.0.0/16"}, AgentNamespace: "hall-2", Profiles: []string{"large"},
		AgentImage: "registry.example.com/maestro:v1"},
		nil); err != nil && !isPresent(err) {
		return err
	}
	if err := d.create(ctx); err != nil {
		return err
	}
	var manifests []byte
	if err := d.Client.Call(ctx, http.MethodGet, hosted.ManagementRoute+"/mc1/agent", nil, &manifests); err != nil {
		return err
	}
	options, err := AgentOptions(manifests)
	if err != nil {
		return err
	}
	// The broker has another port at each start of a demo; the manifests keep that of the first.
	var connection maestro.Connection
	if err := d.Client.Call(ctx, http.MethodGet, consumerPath("mc1", "connection"), nil, &connection); err != nil {
		return err
	}
	options.Address = connection.Broker
	operator, err := hypershift.New(demoHosts)
	if err != nil {
		return err
	}
	agent := workagent.NewAgent("mc1", workagent.NewCluster(operator), clockwork.NewRealClock(), 0)
	agentCtx, stop := context.WithCancel(ctx)
	defer stop()
	group, groupCtx := errgroup.WithContext(agentCtx)
	group.Go(func() error { return agent.Run(groupCtx, options) })
	group.Go(func() error {
		err := d.watch(groupCtx)
		if d.Exit || err != nil {
			stop()
		}
		return err
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// create creates the hosted cluster edge1 with two nodes.
func (d *Demo) create(ctx context.Context) error {
	var made hosted.Cluster
	err := d.Client.Call(ctx, http.MethodPost, hosted.ClustersRoute, hosted.NewCluster{Name: "edge1",
		NodePools: []hosted.NewPool{{Name: "workers", Profile: "large", Replicas: 2}}}, &made)
	if isPresent(err) {
		err = d.Client.Call(ctx, http.MethodGet, path("edge1"), nil, &made)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "\nA hosted cluster is on its way. Its management cluster, the agent there and HyperShift's "+
		"operator are simulated.\n  RESOURCE_ID=%s\n", made.ResourceID)
	if d.Busy != "" {
		fmt.Fprintf(d.Out, "Another program uses port %s, so this demo does not serve the APIs on the ports 8443, "+
			"8001 and 8002.\nStop that program and start the demo again if you need them.\n", d.Busy)
		return nil
	}
	fmt.Fprintf(d.Out, "  curl -s \"localhost:8443${RESOURCE_ID}?api-version=%s\" | jq\n", arm.DefaultVersion)
	return nil
}

// isPresent reports whether the appliance refused to create something that is there already.
func isPresent(err error) bool {
	refused, ok := errors.AsType[*remote.RefusedError](err)
	return ok && refused.Status == http.StatusConflict
}

// AgentOptions returns the connection of an agent, from the manifests that an administrator would
// apply to a management cluster.
func AgentOptions(manifests []byte) (options workagent.Options, err error) {
	for document := range bytes.SplitSeq(bytes.TrimPrefix(manifests, []byte("---\n")), []byte("\n---\n")) {
		var secret struct {
			Kind string            `json:"kind"`
			Data map[string]string `json:"stringData"`
		}
		if err := yaml.Unmarshal(document, &secret); err != nil {
			return options, fmt.Errorf("read the agent's manifests: %w", err)
		}
		if secret.Kind != "Secret" {
			continue
		}
		var config struct {
			BrokerHost string `json:"brokerHost"`
		}
		if err := yaml.Unmarshal([]byte(secret.Data["config.yaml"]), &config); err != nil {
			return options, fmt.Errorf("read the agent's configuration: %w", err)
		}
		certificate, err := tls.X509KeyPair([]byte(secret.Data["tls.crt"]), []byte(secret.Data["tls.key"]))
		if err != nil {
			return options, fmt.Errorf("read the agent's certificate: %w", err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(secret.Data["ca.crt"]))
		return workagent.Options{Address: config.BrokerHost, Poll: time.Second, Retry: time.Second, TLS: &tls.Config{
			Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS12}}, nil
	}
	return options, errors.New("the agent's manifests have no Secret")
}

// watch prints each change of the hosted cluster until it and its nodes are ready.
func (d *Demo) watch(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := ""
	for {
		var found hosted.Detail
		if err := d.Client.Call(ctx, http.MethodGet, path("edge1"), nil, &found); err != nil {
			return err
		}
		ready := found.State == record.Succeeded
		var text strings.Builder
		fmt.Fprintf(&text, "edge1: %s.", found.State)
		if found.Reason != "" {
			text.WriteString(" " + found.Reason)
		}
		for _, pool := range found.NodePools {
			ready = ready && pool.State == record.Succeeded
			fmt.Fprintf(&text, " %s: %d of %d nodes.", pool.Name, pool.Ready, pool.Wanted)
		}
		if text.String() != last {
			last = text.String()
			fmt.Fprintln(d.Out, last)
		}
		if ready {
			fmt.Fprintf(d.Out, "The hosted cluster is available: %s\n", found.APIURL)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
