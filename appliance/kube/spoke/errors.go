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

// KubeconfigError is a kubeconfig that can't be used.
type KubeconfigError struct {
	From   string // its source
	Reason string // a clause
}

func (e *KubeconfigError) Error() string {
	return fmt.Sprintf("The kubeconfig in %s can't be used: %s. Put one there that is good, of an administrator of "+
		"the cluster.", e.From, e.Reason)
}

// MissingError is a cluster without a kubeconfig.
type MissingError struct{ Where string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("There is no kubeconfig of the cluster: %s. Until there is one, approve the host's "+
		"certificate requests in the cluster by hand (oc get csr, oc adm certificate approve).", e.Where)
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

// Explain returns the reason for a failed call of a cluster's API, and a sentence that says what
// was tried and what users can do.
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
			fmt.Sprintf("The cluster's API at %s does not let this appliance do what it must: %s. Give the appliance "+
				"the kubeconfig of an administrator.", server, clause(err))
	case certificateFault(err) != "":
		return ReasonRefused,
			fmt.Sprintf("The cluster's API at %s is not the one that the kubeconfig trusts: %s. Give the appliance a "+
				"kubeconfig with the cluster's present certificate authority.", server, certificateFault(err))
	case unreachable(err):
		return ReasonUnreachable,
			fmt.Sprintf("The cluster's API at %s does not answer: %s. Check that this appliance resolves the name "+
				"and reaches the port, or name the address in joining.addresses; "+
				"until then approve the host's certificate requests in the cluster by hand (oc get csr, oc adm "+
				"certificate approve).", server, clause(err))
	}
	return ReasonRefused,
		fmt.Sprintf("The cluster's API at %s answers with an error: %s. It is asked again; look at the cluster if "+
			"that stays.", server, clause(err))
}

// unreachable reports whether an error means that there was no answer.
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
		return "it refuses the client certificate: " + clause(alert)
	}
	return ""
}

// clause returns an error as a part of a sentence, in one line.
func clause(err error) string {
	var call *url.Error
	if errors.As(err, &call) {
		err = call.Err // without the address, which the sentence has, and the query
	}
	return sentence.Shorten(sentence.Clause(err.Error()), 400)
}
