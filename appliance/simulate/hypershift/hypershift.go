// Package hypershift is a stand-in for HyperShift's operator: it computes the status that the
// operator would write into HostedClusters and NodePools. No control plane exists behind it. It
// shows the transport and the states of hosted clusters in demos and tests.
package hypershift

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"hash/fnv"
	"math/big"
	"strings"
	"time"
)

// Object is a Kubernetes object as JSON values.
type Object = map[string]any

// step is the time for which each obstacle of a control plane lasts.
const step = 3 * time.Second

// Operator computes statuses.
type Operator struct {
	// Hosts is the number of hosts that node pools can have together.
	hosts int64
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
}

// New returns an operator for a management cluster with a number of free hosts.
func New(hosts int64) (*Operator, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a simulated control plane: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulated control " +
		"plane"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the CA of a simulated control plane: %w", err)
	}
	ca, err := x509.ParseCertificate(text)
	return &Operator{hosts, ca, key}, err
}

// Reconcile returns the status of an object, or nil for a kind without one. The object's age
// decides how far it is.
func (o *Operator) Reconcile(object Object, now time.Time) Object {
	switch object["kind"] {
	case "HostedCluster":
		return hostedCluster(object, now)
	case "NodePool":
		return o.nodePool(object, now)
	case "ManagedCluster":
		return managedCluster(object, now)
	case "CertificateSigningRequest":
		return o.sign(object, now)
	case "CertificateRevocationRequest":
		return Object{"conditions": []any{condition("PreviousCertificatesRevoked", "True", "", 1)}}
	}
	return nil
}

// Owned returns the objects that the operator makes because of an object.
func (o *Operator) Owned(object Object) []Object {
	if object["kind"] != "HostedCluster" {
		return nil
	}
	namespace := text(object, "metadata", "namespace") + "-" + text(object, "metadata", "name")
	return []Object{{"apiVersion": "v1", "kind": "Secret", "metadata": Object{"name": "root-ca",
		"namespace": namespace},
		"data": Object{"ca.crt": base64.StdEncoding.EncodeToString(certificatePEM(o.ca.Raw))}}}
}

func certificatePEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func condition(kind, status, message string, generation int64) Object {
	return Object{"type": kind, "status": status, "reason": "Simulated", "message": message,
		"observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:00Z"}
}

// obstacles are what a new control plane waits for, one after the other.
var obstacles = []struct{ condition, message string }{
	{"InfrastructureReady", "the services of the control plane are being published"},
	{"EtcdAvailable", "0 of 1 members of etcd are ready"},
	{"KubeAPIServerAvailable", "the API server has no ready pod"},
}

func hostedCluster(object Object, now time.Time) Object {
	generation := number(object, "metadata", "generation")
	passed := int(age(object, now) / step)
	conditions := []any{condition("ValidConfiguration", "True", "", generation),
		condition("SupportedHostedCluster", "True", "", generation),
		condition("ValidReleaseImage", "True", "", generation)}
	for i, obstacle := range obstacles {
		if i >= passed {
			conditions = append(conditions, condition(obstacle.condition, "False", obstacle.message, generation))
			continue
		}
		conditions = append(conditions, condition(obstacle.condition, "True", "", generation))
	}
	available, state := "False", "Partial"
	if passed >= len(obstacles) {
		available, state = "True", "Completed"
	}
	conditions = append(conditions, condition("Available", available, "", generation))
	status := Object{"conditions": conditions}
	if passed > 0 {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(text(object, "metadata", "namespace"))) // never fails
		status["controlPlaneEndpoint"] = Object{"host": "api." + text(object, "spec", "dns", "baseDomain"),
			"port": int64(30000 + sum.Sum32()%2768)}
		status["version"] = Object{"history": []any{Object{"state": state, "image": text(object, "spec", "release",
			"image"), "version": versionOf(text(object, "spec", "release", "image"))}}}
	}
	if passed >= len(obstacles) {
		status["kubeconfig"] = Object{"name": text(object, "metadata", "name") + "-admin-kubeconfig"}
	}
	return status
}

// managedCluster returns the status that the multicluster engine would write. It joins a cluster
// when its control plane is available.
func managedCluster(object Object, now time.Time) Object {
	generation := number(object, "metadata", "generation")
	joined := "False"
	if int(age(object, now)/step) > len(obstacles) {
		joined = "True"
	}
	return Object{"conditions": []any{condition("HubAcceptedManagedCluster", "True", "", generation),
		condition("ManagedClusterJoined", joined, "", generation),
		condition("ManagedClusterConditionAvailable", joined, "", generation)}}
}

// versionOf returns the version in the tag of a pull spec, or "".
func versionOf(image string) string {
	if strings.Contains(image, "@") {
		return ""
	}
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	version, _, _ := strings.Cut(tag, "-")
	return version
}

func (o *Operator) nodePool(object Object, now time.Time) Object {
	generation, wanted := number(object, "metadata", "generation"), number(object, "spec", "replicas")
	if least := number(object, "spec", "autoScaling", "min"); least > 0 {
		wanted = least
	}
	ready := min(wanted, o.hosts, int64(age(object, now)/step))
	conditions := []any{condition("ValidReleaseImage", "True", "", generation)}
	if ready < wanted {
		message := fmt.Sprintf("%d of %d machines are not ready", wanted-ready, wanted)
		if ready == o.hosts {
			message = "no agents are free that match the labels"
		}
		conditions = append(conditions, condition("AllMachinesReady", "False", message, generation),
			condition("Ready", "False", message, generation))
	} else {
		conditions = append(conditions, condition("AllMachinesReady", "True", "", generation),
			condition("Ready", "True", "", generation))
	}
	return Object{"replicas": ready, "version": versionOf(text(object, "spec", "release", "image")),
		"conditions": conditions}
}

// sign returns the status of a certificate signing request with its certificate.
func (o *Operator) sign(object Object, now time.Time) Object {
	encoded, err := base64.StdEncoding.DecodeString(text(object, "spec", "request"))
	block, _ := pem.Decode(encoded)
	if err != nil || block == nil {
		return denied("the request is not PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return denied(err.Error())
	}
	seconds := number(object, "spec", "expirationSeconds")
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()),
		Subject: request.Subject, NotBefore: now.Add(-time.Minute),
		NotAfter: now.Add(time.Duration(seconds) * time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, o.ca,
		request.PublicKey, o.key)
	if err != nil {
		return denied(err.Error())
	}
	return Object{"certificate": base64.StdEncoding.EncodeToString(certificatePEM(raw)),
		"conditions": []any{condition("Approved", "True", "", 1)}}
}

func denied(message string) Object {
	return Object{"conditions": []any{condition("Denied", "True", message, 1)}}
}

// age returns the time since the creation of an object.
func age(object Object, now time.Time) time.Duration {
	created, err := time.Parse(time.RFC3339, text(object, "metadata", "creationTimestamp"))
	if err != nil {
		return 0
	}
	return now.Sub(created)
}

func value(object Object, path []string) any {
	var at any = object
	for _, name := range path {
		inner, ok := at.(Object)
		if !ok {
			return nil
		}
		at = inner[name]
	}
	return at
}

func text(object Object, path ...string) string {
	found, _ := value(object, path).(string)
	return found
}

func number(object Object, path ...string) int64 {
	switch found := value(object, path).(type) {
	case int64:
		return found
	case float64:
		return int64(found)
	case int:
		return int64(found)
	}
	return 0
}
