package simulate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"net"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Paths of the objects that a kubelet uses.
const (
	nodesPath    = "api/v1/nodes"
	requestsPath = "apis/certificates.k8s.io/v1/certificatesigningrequests"
	poolsPath    = "apis/machineconfiguration.openshift.io/v1/machineconfigpools"
)

// Kubelet is the kubelet of a host that joins a cluster. It requests a client certificate and
// becomes a node after its approval. It then requests a serving certificate and becomes ready after
// its approval. Its whole state is in the cluster, so that another Kubelet can continue.
type Kubelet struct {
	Cluster   *Spoke
	Hostname  string
	Addresses []string // IP addresses
}

// Tick does the next step. It reports whether the node is ready.
func (k Kubelet) Tick() (ready bool, err error) {
	client, serving := "csr-client-"+k.Hostname, "csr-serving-"+k.Hostname
	node := k.Cluster.Object(nodesPath, "", k.Hostname)
	switch {
	case k.Cluster.Object(requestsPath, "", client) == nil:
		return false, k.RequestCertificate(client, false, nil)
	case !k.approved(client):
		return false, nil
	case node == nil:
		k.putNode(false)
		return false, k.RequestCertificate(serving, true, nil)
	case k.Cluster.Object(requestsPath, "", serving) == nil:
		return false, k.RequestCertificate(serving, true, nil)
	case !k.approved(serving):
		return false, nil
	case !isReady(node):
		k.putNode(true)
	}
	return true, nil
}

// RequestCertificate creates a certificate signing request. alter, if set, modifies it.
func (k Kubelet) RequestCertificate(name string, serving bool, alter func(*x509.CertificateRequest)) error {
	asked := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + k.Hostname,
		Organization: []string{"system:nodes"}}}
	spec := map[string]any{
		"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": []any{"digital signature",
			"client auth"},
		"username": "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper",
		"groups": []any{"system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator",
			"system:authenticated"},
	}
	if serving {
		spec = map[string]any{
			"signerName": "kubernetes.io/kubelet-serving", "usages": []any{"digital signature", "server auth"},
			"username": "system:node:" + k.Hostname, "groups": []any{"system:nodes", "system:authenticated"},
		}
		asked.DNSNames = []string{k.Hostname}
		for _, address := range k.Addresses {
			asked.IPAddresses = append(asked.IPAddresses, net.ParseIP(address))
		}
	}
	if alter != nil {
		alter(asked)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, asked, key)
	if err != nil {
		return err
	}
	spec["request"] = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST",
		Bytes: der}))
	k.Cluster.Put(requestsPath, map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
		"metadata": map[string]any{"name": name}, "spec": spec,
	})
	return nil
}

func (k Kubelet) approved(name string) bool {
	csr := k.Cluster.Object(requestsPath, "", name)
	if csr == nil {
		return false
	}
	return conditionOf(csr, "Approved") == "True"
}

func (k Kubelet) putNode(ready bool) {
	node := k.Cluster.Object(nodesPath, "", k.Hostname)
	if node == nil {
		node = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": k.Hostname}}}
	}
	addresses := []any{map[string]any{"type": "Hostname", "address": k.Hostname}}
	for _, address := range k.Addresses {
		addresses = append(addresses, map[string]any{"type": "InternalIP", "address": address})
	}
	status := "False"
	if ready {
		status = "True"
	}
	node.Object["status"] = map[string]any{
		"addresses": addresses,
		"conditions": []any{map[string]any{"type": "Ready", "status": status,
			"lastTransitionTime": meta.NewTime(time.Now()).UTC().Format(time.RFC3339)}},
	}
	k.Cluster.Put(nodesPath, node.Object)
}

func isReady(node *unstructured.Unstructured) bool { return conditionOf(node, "Ready") == "True" }

// conditionOf returns the status of a condition, or "".
func conditionOf(u *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == kind {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}

// joinNodes runs the kubelets of this group's restarted hosts that join an installed cluster. The
// controller does not report these hosts, because the appliance reads the cluster.
func (cl *cluster) joinNodes(state *models.Cluster) {
	if cl.group.Spokes == nil || conv.Value(state.Kind) != models.ClusterKindAddHostsCluster {
		return
	}
	spoke := cl.group.Spokes.Cluster("api." + state.Name + "." + state.BaseDNSDomain)
	for _, h := range state.Hosts {
		if h.ID == nil {
			continue
		}
		ours := cl.group.otherHost(*h.ID)
		stage := stageOf(h)
		if ours != nil {
			cl.group.Spokes.claim(*h.ID)
		}
		if ours == nil || !ours.isUpFromDisk() || conv.Value(h.Kind) != models.HostKindAddToExistingClusterHost ||
			!isAfterReboot(stage) || stage == models.HostStageDone {
			delete(cl.restarted, *h.ID)
			continue
		}
		if fault, has := failAt(ours); has && isAfterReboot(fault.Stage) {
			continue
		}
		since, ok := cl.restarted[*h.ID]
		if !ok {
			since = cl.group.Clock.Now()
			cl.restarted[*h.ID] = since
		}
		if cl.group.Clock.Since(since) < cl.group.scaled(joinedTime) {
			continue
		}
		kubelet := Kubelet{Cluster: spoke, Hostname: h.RequestedHostname,
			Addresses: []string{ours.machine.address.Addr().String()}}
		if _, err := kubelet.Tick(); err != nil {
			cl.group.log.Warn("A kubelet could not request its certificate.", "host", h.RequestedHostname, "error", err)
		}
	}
}
