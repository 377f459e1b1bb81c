// Package spoke speaks with clusters that are installed, by their administrators' kubeconfigs: it
// lets the hosts in that join them later, makes the Machines and BareMetalHosts there that stand
// for servers which are looked after here, and takes nodes out again.
//
//	objects.go   its objects
//	client.go    the way to a cluster's API
//	faults.go    what can be wrong with it, in a sentence
//	requests.go  which certificate requests are approved for a host
//	admit.go     a host that becomes a node
//	machine.go   Machines and BareMetalHosts
//	machineconfig.go  pools that are paused, and the authority that the machine config server is trusted by
//	leave.go     a node that is drained and removed
//	tasks.go     calls that take their time, beside those who want them done
//
// The sources of rules and names are openshift/assisted-service (internal/controller/controllers:
// csr_utils.go, agent_controller.go, bmh_agent_controller.go), openshift/cluster-machine-approver
// and Kubernetes' certificate signers.
package spoke

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	api "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// patience is how long one call may take, and so how long an API that does not answer is waited
// for.
const callTimeout = 15 * time.Second

// Access is what a cluster's API is reached by.
type Access struct {
	Kubeconfig []byte   // of an administrator
	From       string   // where it comes from, for people: "the Secret site/one-admin-kubeconfig"
	Addresses  []string // IP addresses at which the API is tried when its name leads nowhere
	// Names are addresses ("10.0.0.5" or "10.0.0.5:6443") of names that the site's DNS does not
	// know here, by name; "*.example.com" stands for all names below.
	Names map[string]string
}

// Client speaks with one cluster. It is used for a pass of calls and closed then.
type Client struct {
	server    string
	transport *http.Transport
	clock     clockwork.Clock
	skew      atomic.Int64 // nanoseconds by which the cluster's clock is ahead
	objects   objects
}

// Open makes a client. A kubeconfig that can't be used is a *[KubeconfigError]; nothing is called
// yet.
func Open(access Access, clock clockwork.Clock) (*Client, error) {
	config, err := configOf(access, clock.Now())
	if err != nil {
		return nil, err
	}
	unusable := func(err error) error { return &KubeconfigError{access.From, clause(err)} }
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, unusable(err)
	}
	c := &Client{server: config.Host, clock: clock}
	// Not client-go's own transports: those are kept for ever.
	c.transport = &http.Transport{
		TLSClientConfig: tlsConfig, DialContext: dialer(access), TLSHandshakeTimeout: callTimeout, MaxIdleConnsPerHost: 4,
		ForceAttemptHTTP2: true,
	}
	if config.Proxy != nil {
		c.transport.Proxy = config.Proxy
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, clockTransport{c})
	if err != nil {
		return nil, unusable(err)
	}
	caller := &http.Client{Transport: wrapped, Timeout: callTimeout}
	if c.objects, err = newObjects(config, caller); err != nil {
		return nil, unusable(err)
	}
	return c, nil
}

// What there is in every cluster.
var (
	nodeKind    = resource{Version: "v1", Resource: "nodes"}
	podKind     = resource{Version: "v1", Resource: "pods"}
	requestKind = resource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}
)

// node reads a node.
func (c *Client) node(ctx context.Context, name string) (*core.Node, error) {
	node := &core.Node{}
	return node, c.objects.get(ctx, place{kind: nodeKind, name: name}, node)
}

// Close ends the client's connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Server is the URL of the cluster's API.
func (c *Client) Server() string { return c.server }

// thereAt is what a cluster's clock shows at a moment of the appliance's.
func (c *Client) clusterTime(t time.Time) time.Time { return t.Add(time.Duration(c.skew.Load())) }

// configOf reads a kubeconfig. It must hold all that it needs: files of this machine and programs
// that a person names in a Secret are not touched.
func configOf(access Access, now time.Time) (*rest.Config, error) {
	fail := func(reason string) (*rest.Config, error) { return nil, &KubeconfigError{access.From, reason} }
	cluster, user, reason := currentOf(access.Kubeconfig)
	if reason != "" {
		return fail(reason)
	}
	if foreign := outside(cluster, user); foreign != "" {
		return fail("it has " + foreign + "; everything must be in the kubeconfig itself")
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		return fail("its server is no URL")
	}
	if expired := expiry(user.ClientCertificateData, now); expired != "" {
		return fail(expired)
	}
	config := &rest.Config{
		Host: cluster.Server, BearerToken: user.Token, Username: user.Username, Password: user.Password,
		Timeout: callTimeout, UserAgent: "landfall",
		QPS:           -1, // passes are few and short
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		TLSClientConfig: rest.TLSClientConfig{
			CAData: cluster.CertificateAuthorityData, CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
			Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName,
		},
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil {
			return fail("its proxy-url is no URL")
		}
		config.Proxy = http.ProxyURL(proxy)
	}
	return config, nil
}

// currentOf finds what a kubeconfig's current context names; reason is a clause about what it
// lacks, "" for nothing.
func currentOf(kubeconfig []byte) (cluster api.Cluster, user api.AuthInfo, reason string) {
	var held api.Config
	if err := yaml.Unmarshal(kubeconfig, &held); err != nil {
		return cluster, user, clause(err)
	}
	if held.CurrentContext == "" && len(held.Contexts) == 1 {
		held.CurrentContext = held.Contexts[0].Name
	}
	used := slices.IndexFunc(held.Contexts, func(c api.NamedContext) bool { return c.Name == held.CurrentContext })
	if used < 0 {
		return cluster, user, "its current-context names no context"
	}
	of := held.Contexts[used].Context
	clusterAt := slices.IndexFunc(held.Clusters, func(c api.NamedCluster) bool { return c.Name == of.Cluster })
	userAt := slices.IndexFunc(held.AuthInfos, func(u api.NamedAuthInfo) bool { return u.Name == of.AuthInfo })
	if clusterAt < 0 || userAt < 0 {
		return cluster, user, "its current context names a cluster or a user that is not in it"
	}
	return held.Clusters[clusterAt].Cluster, held.AuthInfos[userAt].AuthInfo, ""
}

func outside(cluster api.Cluster, user api.AuthInfo) string {
	switch {
	case user.Exec != nil, user.AuthProvider != nil:
		return "a program that fetches credentials"
	case user.ClientCertificate != "", user.ClientKey != "", user.TokenFile != "", cluster.CertificateAuthority != "":
		return "the name of a file"
	case user.Impersonate != "":
		return "a user to act as"
	}
	return ""
}

// expiry says when a client certificate has ended, or that it is none; "" for one that is good, and
// for none at all.
func expiry(certificate []byte, now time.Time) string {
	if len(certificate) == 0 {
		return ""
	}
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "its client certificate is no PEM"
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "its client certificate can't be read: " + clause(err)
	}
	if now.After(parsed.NotAfter) {
		return "its client certificate has expired on " + parsed.NotAfter.UTC().Format(time.DateOnly)
	}
	return ""
}

// dialer connects to where a name leads, and else to the addresses that are known.
func dialer(access Access) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if known := addressOf(access.Names, host); known != "" {
			if _, _, err := net.SplitHostPort(known); err == nil {
				return d.DialContext(ctx, network, known)
			}
			return d.DialContext(ctx, network, net.JoinHostPort(known, port))
		}
		d.Timeout = callTimeout / 3
		connection, err := d.DialContext(ctx, network, address)
		for _, other := range access.Addresses {
			if err == nil || other == host {
				break
			}
			var failed error
			if connection, failed = d.DialContext(ctx, network, net.JoinHostPort(other, port)); failed == nil {
				return connection, nil
			}
			err = errors.Join(err, failed)
		}
		return connection, err
	}
}

// addressOf finds the address of a name, by itself or by the longest *.domain that it is below.
func addressOf(names map[string]string, host string) string {
	host = strings.ToLower(host)
	if known, ok := names[host]; ok {
		return known
	}
	for rest := host; ; {
		_, below, ok := strings.Cut(rest, ".")
		if !ok {
			return names["*"]
		}
		if known, ok := names["*."+below]; ok {
			return known
		}
		rest = below
	}
}

// timekeeper notes by how much a cluster's clock differs from this machine's, which its answers
// tell.
type clockTransport struct{ c *Client }

// RoundTrip implements http.RoundTripper.
func (t clockTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.c.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if there, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.c.skew.Store(int64(there.Sub(t.c.clock.Now().Truncate(time.Second))))
	}
	return response, nil
}
