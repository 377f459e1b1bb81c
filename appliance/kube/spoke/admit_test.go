package spoke_test

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	certificates "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/spoke"
	"landfall/appliance/simulate"
)

const (
	apiName  = "api.one.example.com"
	nodes    = "api/v1/nodes"
	requests = "apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// site is a simulated installed cluster with a client.
type site struct {
	*testing.T
	spokes  *simulate.Spokes
	cluster *simulate.Spoke
	access  spoke.Access
}

func newSite(t *testing.T) *site {
	spokes, err := simulate.NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spokes.Close()) })
	return &site{t, spokes, spokes.Cluster(apiName), spoke.Access{
		Kubeconfig: spokes.Kubeconfig(apiName), From: "the test",
		Names: map[string]string{"*.example.com": spokes.Addr()},
	}}
}

func (s *site) open() *spoke.Client {
	s.Helper()
	client, err := spoke.Open(s.access, clockwork.NewRealClock())
	require.NoError(s, err)
	s.Cleanup(client.Close)
	return client
}

func (s *site) kubelet(name string) simulate.Kubelet {
	return simulate.Kubelet{Cluster: s.cluster, Hostname: name, Addresses: []string{"192.168.1.20"}}
}

func (s *site) admit(host spoke.Host) spoke.HostStatus {
	s.Helper()
	client := s.open()
	listed, err := client.Requests(s.Context())
	require.NoError(s, err)
	sight, err := client.Admit(s.Context(), host, listed)
	require.NoError(s, err)
	return sight
}

func (s *site) tick(k simulate.Kubelet) (ready bool) {
	s.Helper()
	ready, err := k.Tick()
	require.NoError(s, err)
	return ready
}

func (s *site) conditions(request string) []any {
	s.Helper()
	conditions, _, err := unstructured.NestedSlice(s.cluster.Object(requests, "", request).Object,
		"status", "conditions")
	require.NoError(s, err)
	return conditions
}

func joining(name string) spoke.Host {
	return spoke.Host{Name: name, Started: time.Now().Add(-time.Minute), Approve: true,
		Labels: map[string]string{"rack": "7"}}
}

func TestAdmit_bothRequests(t *testing.T) {
	s := newSite(t)
	w := s.kubelet("worker-1")
	require.Equal(t, spoke.HostStatus{}, s.admit(joining("Worker-1")), "no request exists yet")

	s.tick(w)
	sight := s.admit(joining("Worker-1"))
	require.False(t, sight.Node)
	require.Len(t, sight.Approved, 1)
	require.False(t, sight.Approved[0].Serving)

	s.tick(w)
	require.Nil(t, s.cluster.Object(nodes, "", "worker-1").GetLabels(), "the node is not ready")
	sight = s.admit(joining("Worker-1"))
	require.True(t, sight.Node)
	require.False(t, sight.Ready)
	require.Len(t, sight.Approved, 2)

	require.True(t, s.tick(w))
	sight = s.admit(joining("Worker-1"))
	require.True(t, sight.Ready)
	require.Empty(t, sight.Problem)
	require.Equal(t, "7", s.cluster.Object(nodes, "", "worker-1").GetLabels()["rack"])
	require.Len(t, s.conditions("csr-client-worker-1"), 1, "a request is approved once")
	require.Len(t, s.conditions("csr-serving-worker-1"), 1)
}

func TestAdmit_deletedRequests(t *testing.T) {
	s := newSite(t)
	w := s.kubelet("worker-1")
	s.tick(w)
	s.admit(joining("worker-1"))
	s.tick(w)
	seen := s.admit(joining("worker-1")).Approved
	s.tick(w)

	other := newSite(t)
	other.cluster.Put(nodes, s.cluster.Object(nodes, "", "worker-1").Object)
	host := joining("worker-1")
	require.False(t, other.admit(host).Ready, "the serving request is not approved")
	host.Known = seen
	require.True(t, other.admit(host).Ready)
}

func TestAdmit_nodeReadyForLong(t *testing.T) {
	s := newSite(t)
	s.node("worker-1", "True", time.Now().Add(-2*time.Hour))
	host := joining("worker-1")
	host.Started = time.Now().Add(-3 * time.Hour)
	require.True(t, s.admit(host).Ready)
	require.NoError(t, s.kubelet("worker-1").RequestCertificate("odd", true,
		func(r *x509.CertificateRequest) { r.DNSNames = []string{"evil"} }))
	require.False(t, s.admit(host).Ready, "a request waits for approval")
}

func (s *site) node(name, ready string, since time.Time) {
	at := since.UTC().Format(time.RFC3339)
	s.cluster.Put(nodes, map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "creationTimestamp": at},
		"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": at}},
			"addresses": []any{map[string]any{"type": "InternalIP", "address": "192.168.1.20"},
				map[string]any{"type": "Hostname", "address": name}},
		},
	})
}

func TestAdmit_nodeNameTaken(t *testing.T) {
	s := newSite(t)
	s.node("worker-1", "True", time.Now().Add(-24*time.Hour))
	require.NoError(t, s.kubelet("worker-1").RequestCertificate("csr", false, nil))
	sight := s.admit(joining("worker-1"))
	require.Equal(t, spoke.ReasonNameTaken, sight.Reason)
	require.Contains(t, sight.Problem, "(oc delete node worker-1) if its machine no longer exists.")
	require.False(t, sight.Node || sight.Ready)
	require.Empty(t, s.conditions("csr"), "the request is not approved")
}

func TestAdmit_oldNodeNotReady(t *testing.T) {
	s := newSite(t)
	s.node("worker-1", "Unknown", time.Now().Add(-24*time.Hour))
	require.NoError(t, s.kubelet("worker-1").RequestCertificate("csr", false, nil))
	sight := s.admit(joining("worker-1"))
	require.Empty(t, sight.Problem)
	require.Len(t, sight.Approved, 1)
}

func TestAdmit_refusedRequests(t *testing.T) {
	type alter = func(*x509.CertificateRequest)
	evil, err := url.Parse("spiffe://evil")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		serving bool
		asked   alter
		spec    map[string]any // fields of the request's spec
		says    string         // part of the problem; "" if the request is ignored
	}{
		"other node": {false,
			func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:worker-2" }, nil, ""},
		"user": {false,
			func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:admin" }, nil, ""},
		"other signer": {false, nil,
			map[string]any{"signerName": "kubernetes.io/kube-apiserver-client"}, ""},
		"invalid request": {false, nil, map[string]any{"request": "bm9uc2Vuc2U="}, ""},
		"client with a DNS name": {false,
			func(r *x509.CertificateRequest) { r.DNSNames = []string{"api.one.example.com"} }, nil,
			"names or addresses"},
		"client with more organizations": {false,
			func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} },
			nil, "system:masters"},
		"client by another user": {false, nil,
			map[string]any{"username": "system:node:worker-1"}, "not by the node bootstrapper"},
		"client with more groups": {false, nil, map[string]any{"groups": []any{"system:masters"}},
			"not by the node bootstrapper"},
		"client with server usage": {false, nil,
			map[string]any{"usages": []any{"digital signature", "client auth", "server auth"}}, "its usages are"},
		"server with another name": {true,
			func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "oauth.one.example.com") }, nil,
			`the name "oauth.one.example.com"`},
		"server with another address": {true,
			func(r *x509.CertificateRequest) { r.IPAddresses = append(r.IPAddresses, net.IPv4(10, 0, 0, 1)) },
			nil, "the address 10.0.0.1"},
		"server with a URI": {true,
			func(r *x509.CertificateRequest) { r.URIs = append(r.URIs, evil) }, nil, "a URI"},
		"server by another node": {true, nil, map[string]any{"username": "system:node:worker-2"},
			"not by the node itself"},
		"server with another organization": {true,
			func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"evil"} }, nil,
			"its organization is not"},
		"server without the group of nodes": {true, nil,
			map[string]any{"groups": []any{"system:authenticated"}}, "only in the groups"},
		"server with client usage": {true, nil, map[string]any{"usages": []any{"client auth"}},
			"its usages are"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.node("worker-1", "False", time.Now())
			require.NoError(t, s.kubelet("worker-1").RequestCertificate("csr", c.serving, c.asked))
			csr := s.cluster.Object(requests, "", "csr")
			for field, value := range c.spec {
				require.NoError(t, unstructured.SetNestedField(csr.Object, value, "spec", field))
			}
			s.cluster.Put(requests, csr.Object)
			sight := s.admit(joining("worker-1"))
			require.Empty(t, sight.Approved)
			require.Empty(t, s.conditions("csr"))
			if c.says == "" {
				require.Empty(t, sight.Problem)
				return
			}
			require.Equal(t, spoke.ReasonRequest, sight.Reason)
			require.Contains(t, sight.Problem, c.says)
			require.Contains(t, sight.Problem, "oc describe csr csr")
		})
	}
}

func TestAdmit_oldAndDeniedRequests(t *testing.T) {
	s := newSite(t)
	require.NoError(t, s.kubelet("worker-1").RequestCertificate("old", false, nil))
	host := joining("worker-1")
	host.Started = time.Now().Add(time.Hour)
	require.Empty(t, s.admit(host).Approved)

	denied := s.cluster.Object(requests, "", "old")
	require.NoError(t, unstructured.SetNestedSlice(denied.Object,
		[]any{map[string]any{"type": string(certificates.CertificateDenied), "status": "True"}}, "status",
		"conditions"))
	s.cluster.Put(requests, denied.Object)
	sight := s.admit(joining("worker-1"))
	require.Empty(t, sight.Approved)
	require.Contains(t, sight.Problem, "request old was denied in the cluster, and the host has made no other request")
}

func TestAdmit_approvedByCluster(t *testing.T) {
	s := newSite(t)
	w := s.kubelet("worker-1")
	s.tick(w)
	host := joining("worker-1")
	host.Approve = false
	require.Empty(t, s.admit(host).Approved)
	s.node("worker-1", "True", time.Now())
	require.True(t, s.admit(host).Ready)
}

func TestOpen_errors(t *testing.T) {
	s := newSite(t)
	good := string(s.access.Kubeconfig)
	for name, kubeconfig := range map[string]struct{ text, says string }{
		"empty":           {"", "is not one of its contexts"},
		"nonsense":        {"{", "can't be used"},
		"unknown context": {good + "\ncurrent-context: other\n", "can't be used"},
		"program": {kubeconfigWith("exec: {command: /bin/sh, apiVersion: "+
			"client.authentication.k8s.io/v1, interactiveMode: Never}", ""), "a program that fetches credentials"},
		"file": {kubeconfigWith("tokenFile: /etc/shadow", ""), "the name of a file"},
		"a CA file": {kubeconfigWith("token: a", "certificate-authority: /etc/passwd"),
			"the name of a file"},
		"invalid certificate": {kubeconfigWith("client-certificate-data: bm8=, client-key-data: bm8=", ""),
			"is not PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := spoke.Open(spoke.Access{Kubeconfig: []byte(kubeconfig.text), From: "the Secret site/one"},
				clockwork.NewRealClock())
			var unusable *spoke.KubeconfigError
			require.ErrorAs(t, err, &unusable)
			require.Contains(t, err.Error(), kubeconfig.says)
			reason, message := spoke.Explain(err, "")
			require.Equal(t, spoke.ReasonKubeconfig, reason)
			require.Contains(t, message, "the Secret site/one")
		})
	}
	t.Run("an expired certificate", func(t *testing.T) {
		_, err := spoke.Open(spoke.Access{Kubeconfig: []byte(kubeconfigWith("client-certificate-data: "+
			expiredCertificate(t), ""))}, clockwork.NewRealClock())
		require.ErrorContains(t, err, "has expired on 20")
	})
	fails := func(s *site) (reason, message string) {
		s.Helper()
		client := s.open()
		_, err := client.Requests(t.Context())
		require.Error(s, err)
		return spoke.Explain(err, client.Server())
	}
	t.Run("no response", func(t *testing.T) {
		s := newSite(t)
		s.access.Names = map[string]string{apiName: "127.0.0.1:1"}
		reason, message := fails(s)
		require.Equal(t, spoke.ReasonUnreachable, reason)
		require.Contains(t, message, "https://api.one.example.com:6443")
		require.Contains(t, message, "oc adm certificate approve")
	})
	t.Run("another certificate authority", func(t *testing.T) {
		s := newSite(t)
		s.access.Kubeconfig = newSite(t).access.Kubeconfig
		reason, message := fails(s)
		require.Equal(t, spoke.ReasonRefused, reason)
		require.Contains(t, message, "that the kubeconfig does not trust")
	})
	t.Run("not an administrator", func(t *testing.T) {
		s := newSite(t)
		s.cluster.Answer(func(*http.Request) int { return http.StatusUnauthorized })
		reason, message := fails(s)
		require.Equal(t, spoke.ReasonRefused, reason)
		require.Contains(t, message, "kubeconfig of an administrator")
	})
	t.Run("server error", func(t *testing.T) {
		s := newSite(t)
		s.cluster.Answer(func(*http.Request) int { return http.StatusInternalServerError })
		_, message := fails(s)
		require.Contains(t, message, "answers with an error")
	})
	t.Run("unknown name with an address", func(t *testing.T) {
		s := newSite(t)
		_, port, err := net.SplitHostPort(s.spokes.Addr())
		require.NoError(t, err)
		s.access.Names, s.access.Addresses = nil, []string{"127.0.0.1"}
		s.access.Kubeconfig = s.spokes.KubeconfigAt("api.one.invalid", port)
		_, err = s.open().Requests(t.Context())
		require.NoError(t, err)
	})
}
