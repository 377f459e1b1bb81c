package spoke

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"landfall/appliance/sentence"
)

// KubeconfigError reports an invalid kubeconfig.
type KubeconfigError struct {
	From   string // source of the kubeconfig
	Reason string // a clause, such as "it is not YAML"
}

func (e *KubeconfigError) Error() string {
	return fmt.Sprintf("The kubeconfig in %s can't be used: %s. Replace it with a valid kubeconfig of an "+
		"administrator of "+
		"the cluster.", e.From, e.Reason)
}

// MissingError reports that the appliance has no kubeconfig for a cluster.
type MissingError struct{ Where string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("The appliance has no kubeconfig of the cluster: %s. Until it has one, approve the host's "+
		"certificate requests in the cluster manually (oc get csr, oc adm certificate approve).", e.Where)
}

// Reasons of problems, one word each.
const (
	ReasonKubeconfig  = "KubeconfigUnusable"
	ReasonMissing     = "KubeconfigMissing"
	ReasonUnreachable = "ClusterUnreachable"
	ReasonRefused     = "ClusterRefuses"
	ReasonNameTaken   = "NodeNameTaken"
	ReasonRequest     = "CertificateRequestRefused"
)

// Explain returns the reason why a call of a cluster's API failed, and a message with the cause and
// advice for users.
func Explain(err error, server string) (reason, message string) {
	var unusable *KubeconfigError
	var missing *MissingError
	switch {
	case errors.As(err, &unusable):
		return ReasonKubeconfig, unusable.Error()
	case errors.As(err, &missing):
		return ReasonMissing, missing.Error()
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return ReasonRefused,
			fmt.Sprintf("The cluster's API at %s denies this appliance a necessary request: %s. Give the appliance "+
				"the kubeconfig of an administrator.", server, clause(err))
	case certificateFault(err) != "":
		return ReasonRefused,
			fmt.Sprintf("The cluster's API at %s has a certificate that the kubeconfig does not trust: %s. Give the "+
				"appliance a "+
				"kubeconfig with the cluster's current certificate authority.", server, certificateFault(err))
	case unreachable(err):
		return ReasonUnreachable,
			fmt.Sprintf("The cluster's API at %s does not answer: %s. Check that this appliance resolves the name "+
				"and reaches the port, or name the address in joining.addresses; "+
				"until then approve the host's certificate requests in the cluster manually (oc get csr, oc adm "+
				"certificate approve).", server, clause(err))
	}
	return ReasonRefused,
		fmt.Sprintf("The cluster's API at %s answers with an error: %s. The request is retried; check the cluster if "+
			"the error persists.", server, clause(err))
}

// unreachable reports whether the API did not respond.
func unreachable(err error) bool {
	var call *url.Error
	var network net.Error
	return errors.As(err, &call) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

func certificateFault(err error) string {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return clause(unknown)
	case errors.As(err, &wrong):
		return clause(wrong)
	case errors.As(err, &invalid):
		return clause(invalid)
	case errors.As(err, &alert):
		return "it rejects the client certificate: " + clause(alert)
	}
	return ""
}

// clause returns the text of an error on one line, to be used within a sentence.
func clause(err error) string {
	var call *url.Error
	if errors.As(err, &call) {
		err = call.Err // without the URL, because the sentence already contains the address
	}
	return sentence.Shorten(sentence.Clause(err.Error()), 400)
}
