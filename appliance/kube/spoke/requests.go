package spoke

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
)

// Users, groups and signers of a kubelet's certificate requests.
const (
	nodePrefix       = "system:node:"
	nodeGroup        = "system:nodes"
	authenticated    = "system:authenticated"
	bootstrapAccount = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
	approvalReason   = "NodeCSRApprove"
)

func bootstrapGroups() []string {
	return []string{authenticated, "system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator"}
}

// Request is an approved certificate request of a host's kubelet.
type Request struct {
	Name       string
	Serving    bool
	ApprovedAt time.Time // UTC
}

// review is the result of a check of one host's certificate requests.
type review struct {
	approve  []*certificates.CertificateSigningRequest // valid requests that are not approved yet
	approved []Request                                 // approved requests
	// refused is a sentence about the first invalid request in the name of the host.
	refused string
	waiting bool // at least one request is not approved yet
}

// reviewRequests checks the requests that were made in the name of a host since its installation
// started. node is nil if the node does not exist or belongs to another machine. Serving
// certificates require an existing node.
func reviewRequests(host Host, since time.Time, node *core.Node,
	requests []certificates.CertificateSigningRequest) review {
	var r review
	denied := ""
	for i := range requests {
		csr := &requests[i]
		serving := csr.Spec.SignerName == certificates.KubeletServingSignerName
		if !serving && csr.Spec.SignerName != certificates.KubeAPIServerClientKubeletSignerName ||
			csr.CreationTimestamp.Time.Before(since) {
			continue
		}
		asked, err := parse(csr)
		if err != nil || !strings.EqualFold(asked.Subject.CommonName, nodePrefix+host.Name) {
			continue // request of another node
		}
		if decided(csr, certificates.CertificateDenied) {
			denied = csr.Name
			continue
		}
		if serving && node == nil {
			r.waiting = true
			continue
		}
		failure := clientFault(csr, asked)
		if serving {
			failure = servingFault(csr, asked, node)
		}
		switch {
		case failure != "" && decided(csr, certificates.CertificateApproved):
		case failure != "" && r.refused == "":
			r.refused = fmt.Sprintf("The certificate request %s is in the name of the host and was not approved: %s. "+
				"Check it in the cluster (oc describe csr %s), and approve or deny it there.", csr.Name, failure,
				csr.Name)
			r.waiting = true
		case failure != "":
		case decided(csr, certificates.CertificateApproved):
			r.approved = append(r.approved, Request{Name: csr.Name, Serving: serving, ApprovedAt: approvedAt(csr)})
		default:
			r.approve = append(r.approve, csr)
		}
	}
	if denied != "" && r.refused == "" && len(r.approve)+len(r.approved) == 0 {
		r.refused = fmt.Sprintf("The host's certificate request %s was denied in the cluster, and the host has made "+
			"no other request. "+
			"If that was a mistake, delete the request (oc delete csr %s): the kubelet then creates a new one.",
			denied, denied)
	}
	return r
}

func parse(csr *certificates.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return nil, fmt.Errorf("the request of %s is not PEM", csr.Name)
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

func decided(csr *certificates.CertificateSigningRequest, how certificates.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions,
		func(c certificates.CertificateSigningRequestCondition) bool { return c.Type == how })
}

func approvedAt(csr *certificates.CertificateSigningRequest) time.Time {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificates.CertificateApproved {
			return c.LastUpdateTime.UTC()
		}
	}
	return time.Time{}
}

// clientFault returns the reason why a request for the kubelet's client certificate is invalid; ""
// if the request is valid.
func clientFault(csr *certificates.CertificateSigningRequest, asked *x509.CertificateRequest) string {
	switch {
	case csr.Spec.Username != bootstrapAccount || !sameSet(csr.Spec.Groups, bootstrapGroups()):
		return fmt.Sprintf("it was made by %s and not by the node bootstrapper", csr.Spec.Username)
	case !slices.Equal(asked.Subject.Organization, []string{nodeGroup}):
		return fmt.Sprintf("its organization is %q and not %s alone", strings.Join(asked.Subject.Organization, ", "),
			nodeGroup)
	case len(asked.DNSNames)+len(asked.EmailAddresses)+len(asked.IPAddresses)+len(asked.URIs) > 0:
		return "it contains names or addresses, which the client certificate of a kubelet must not have"
	case !usagesFor(csr.Spec.Usages, certificates.UsageClientAuth):
		return fmt.Sprintf("its usages are %v", csr.Spec.Usages)
	}
	return ""
}

// servingFault returns the reason why a request for the kubelet's serving certificate is invalid;
// "" if the request is valid. The request may contain only the names and addresses in the node's
// status.
func servingFault(csr *certificates.CertificateSigningRequest, asked *x509.CertificateRequest, node *core.Node) string {
	switch {
	case csr.Spec.Username != nodePrefix+node.Name || asked.Subject.CommonName != csr.Spec.Username:
		return fmt.Sprintf("it was made by %s and not by the node itself", csr.Spec.Username)
	case !slices.Contains(csr.Spec.Groups, authenticated) || !slices.Contains(csr.Spec.Groups, nodeGroup):
		return fmt.Sprintf("its requester is only in the groups %s", strings.Join(csr.Spec.Groups, ", "))
	case !slices.Contains(asked.Subject.Organization, nodeGroup):
		return fmt.Sprintf("its organization is not %s", nodeGroup)
	case !usagesFor(csr.Spec.Usages, certificates.UsageServerAuth):
		return fmt.Sprintf("its usages are %v", csr.Spec.Usages)
	case len(asked.EmailAddresses)+len(asked.URIs) > 0:
		return "it contains an e-mail address or a URI"
	}
	names, addresses := identityOf(node)
	for _, name := range asked.DNSNames {
		if !slices.Contains(names, name) {
			return fmt.Sprintf("it contains the name %q, which is not its node's", name)
		}
	}
	for _, ip := range asked.IPAddresses {
		if !slices.ContainsFunc(addresses, ip.Equal) {
			return fmt.Sprintf("it contains the address %s, which is not its node's", ip)
		}
	}
	return ""
}

func identityOf(node *core.Node) (names []string, addresses []net.IP) {
	names = []string{node.Name}
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case core.NodeInternalIP, core.NodeExternalIP:
			if ip := net.ParseIP(address.Address); ip != nil {
				addresses = append(addresses, ip)
			}
		case core.NodeInternalDNS, core.NodeExternalDNS, core.NodeHostName:
			names = append(names, address.Address)
		}
	}
	return names, addresses
}

// usagesFor reports whether the usages are those of a kubelet's certificate. Older kubelets also
// request the usage "key encipherment".
func usagesFor(usages []certificates.KeyUsage, auth certificates.KeyUsage) bool {
	return sameSet(usages, []certificates.KeyUsage{certificates.UsageDigitalSignature, auth}) ||
		sameSet(usages, []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageKeyEncipherment,
			auth})
}

func sameSet[T ~string](a, b []T) bool {
	first, second := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(first, second)
}
