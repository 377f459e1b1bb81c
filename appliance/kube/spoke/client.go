// Package spoke calls the APIs of installed clusters with kubeconfigs of their administrators. It
// admits hosts that join a cluster later, creates Machines and BareMetalHosts for servers that the
// appliance manages, and removes nodes.
//
//	client.go         the connection to a cluster's API
//	objects.go        objects of a cluster
//	errors.go         errors of a cluster's API as sentences
//	requests.go       rules for the approval of certificate requests
//	admit.go          approval of a host's requests until its node is ready
//	machine.go        Machines and BareMetalHosts
//	machineconfig.go  paused pools, and the certificate authority of the machine config server
//	removal.go        draining and removing a node
//	tasks.go          calls in the background
//
// The rules and names come from openshift/assisted-service (internal/controller/controllers:
// csr_utils.go, agent_controller.go, bmh_agent_controller.go), openshift/cluster-machine-approver
// and the certificate signers of Kubernetes.
//
// Design: docs/design.md#hosts-that-join-installed-clusters.
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

	"landfall/appliance/egress"
)

// callTimeout is the time limit of one call of a cluster's API.
const callTimeout = 15 * time.Second

// Access holds the kubeconfig and the addresses of a cluster's API.
type Access struct {
	Kubeconfig []byte   // kubeconfig of an administrator
	From       string   // source of the kubeconfig in messages: "the Secret site/one-admin-kubeconfig"
	Addresses  []string // IP addresses to try if the server's name does not resolve
	// Names maps names that the site's DNS does not resolve to addresses ("10.0.0.5" or
	// "10.0.0.5:6443"). The name "*.example.com" includes all names in that domain.
	Names map[string]string
	// Egress decides which addresses may be reached, except those in Names; nil allows all.
	Egress *egress.Rules
}

// Client calls the API of one cluster. The caller must close it.
type Client struct {
	server    string
	transport *http.Transport
	clock     clockwork.Clock
	skew      atomic.Int64 // nanoseconds by which the cluster's clock is ahead
	objects   objects
}

// Open returns a client without calling the API. An invalid kubeconfig is a *[KubeconfigError].
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
	// client-go would cache its own transports forever.
	c.transport = &http.Transport{
		TLSClientConfig: tlsConfig, DialContext: dialer(access), TLSHandshakeTimeout: callTimeout,
		MaxIdleConnsPerHost: 4,
		ForceAttemptHTTP2:   true,
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

// Collections of every cluster.
var (
	nodeKind    = resource{Version: "v1", Resource: "nodes"}
	podKind     = resource{Version: "v1", Resource: "pods"}
	requestKind = resource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}
)

// node returns a node.
func (c *Client) node(ctx context.Context, name string) (*core.Node, error) {
	node := &core.Node{}
	return node, c.objects.get(ctx, place{kind: nodeKind, name: name}, node)
}

// Close closes the client's connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Server returns the URL of the cluster's API.
func (c *Client) Server() string { return c.server }

// clusterTime converts a time of the appliance's clock to the cluster's clock.
func (c *Client) clusterTime(t time.Time) time.Time { return t.Add(time.Duration(c.skew.Load())) }

// configOf parses a kubeconfig. The kubeconfig must be self-contained: the appliance does not use
// files and programs that a kubeconfig names.
func configOf(access Access, now time.Time) (*rest.Config, error) {
	fail := func(reason string) (*rest.Config, error) { return nil, &KubeconfigError{access.From, reason} }
	cluster, user, reason := currentOf(access.Kubeconfig)
	if reason != "" {
		return fail(reason)
	}
	if foreign := outside(cluster, user); foreign != "" {
		return fail("it contains " + foreign + "; a kubeconfig must be self-contained")
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		return fail("its server is not a URL")
	}
	if expired := expiry(user.ClientCertificateData, now); expired != "" {
		return fail(expired)
	}
	config := &rest.Config{
		Host: cluster.Server, BearerToken: user.Token, Username: user.Username, Password: user.Password,
		Timeout: callTimeout, UserAgent: "landfall",
		QPS:           -1, // no limit: calls are rare
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		TLSClientConfig: rest.TLSClientConfig{
			CAData: cluster.CertificateAuthorityData, CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
			Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName,
		},
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil {
			return fail("its proxy-url is not a URL")
		}
		config.Proxy = http.ProxyURL(proxy)
	}
	return config, nil
}

// currentOf returns the cluster and user of a kubeconfig's current context. reason is a clause
// about a missing part; "" for none.
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
		return cluster, user, "its current-context is not one of its contexts"
	}
	of := held.Contexts[used].Context
	clusterAt := slices.IndexFunc(held.Clusters, func(c api.NamedCluster) bool { return c.Name == of.Cluster })
	userAt := slices.IndexFunc(held.AuthInfos, func(u api.NamedAuthInfo) bool { return u.Name == of.AuthInfo })
	if clusterAt < 0 || userAt < 0 {
		return cluster, user, "its current context names a cluster or a user that it does not contain"
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
		return "a user to impersonate"
	}
	return ""
}

// expiry returns the reason if a client certificate is invalid or has expired; "" otherwise.
func expiry(certificate []byte, now time.Time) string {
	if len(certificate) == 0 {
		return ""
	}
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "its client certificate is not PEM"
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

// dialer returns a dial function that connects to the address of the name, or else to one of the
// cluster's addresses.
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
		dial := access.Egress.Dialer(d)
		connection, err := dial(ctx, network, address)
		for _, other := range access.Addresses {
			if err == nil || other == host {
				break
			}
			var failed error
			if connection, failed = dial(ctx, network, net.JoinHostPort(other, port)); failed == nil {
				return connection, nil
			}
			err = errors.Join(err, failed)
		}
		return connection, err
	}
}

// addressOf returns the address in the entry of a name itself, or else in the entry of the longest
// *.domain that matches the name.
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

// clockTransport measures the difference between the cluster's clock and the clock of this machine
// by the Date header of responses.
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
