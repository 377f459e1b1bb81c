package mirror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"landfall/appliance/egress"
	"landfall/appliance/stall"
)

// Reason classifies the failure of an endpoint to provide an image.
type Reason string

// Reasons for failures.
const (
	ReasonUnreachable      Reason = "unreachable"       // not running, wrong address, or a blocked path
	ReasonTimeout          Reason = "timeout"           // no answer in time
	ReasonUnknownAuthority Reason = "unknown-authority" // the bundle lacks its CA
	ReasonCertificate      Reason = "certificate"       // expired, not yet valid, or for another name
	ReasonPlainHTTP        Reason = "plain-http"        // speaks HTTP where HTTPS is required
	ReasonUnauthorized     Reason = "unauthorized"      // 401 or 403: no or wrong credentials
	ReasonNotFound         Reason = "not-found"         // the endpoint does not have the image
	ReasonStatus           Reason = "status"            // any other HTTP status
	ReasonForbidden        Reason = "forbidden-by-rule" // the rules allow no endpoint
	ReasonDenied           Reason = "denied"            // the appliance may not contact the endpoint (package egress)
	ReasonCanceled         Reason = "canceled"          // the caller canceled the request
	ReasonOther            Reason = "other"
)

// Attempt is the result of a request to one endpoint.
type Attempt struct {
	Endpoint
	Reason Reason
	// Answer describes the endpoint's response in words.
	Answer string
	// Err is the underlying error.
	Err error
	// Anonymous is true if the pull secret has no entry for the endpoint.
	Anonymous bool
}

// ImageError reports that no endpoint provided an image, with the answer of each. Its text is one
// sentence.
type ImageError struct {
	// Image is the requested pull spec.
	Image string
	// Attempts lists the attempts in the order of the rules.
	Attempts []Attempt
	// Forbidden is the reason why the rules allow no endpoint. In this case Attempts is empty.
	Forbidden string
}

func (e *ImageError) Error() string {
	if len(e.Attempts) == 0 {
		return fmt.Sprintf("image %s can't be pulled: %s; add a mirror to the rule", e.Image, e.Forbidden)
	}
	var answers []string
	for _, a := range e.Attempts {
		answers = append(answers, fmt.Sprintf("%s (%s) %s", a.Ref.Context().Name(), a.Rule, a.Answer))
	}
	text := fmt.Sprintf("image %s can't be pulled: %s", e.Image, strings.Join(answers, "; "))
	if advice := e.advice(); advice != "" {
		text += "; " + advice
	}
	return text
}

// Unwrap returns the errors of the attempts, so that errors.Is finds a canceled context.
func (e *ImageError) Unwrap() []error {
	var errs []error
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}

// Reason returns the reason of the most relevant attempt, the first mirror. On a disconnected site
// the answer of the source matters little.
func (e *ImageError) Reason() Reason {
	if len(e.Attempts) == 0 {
		return ReasonForbidden
	}
	return e.Attempts[0].Reason
}

// Advice returns advice about the most relevant attempt, or "".
func (e *ImageError) Advice() string {
	if len(e.Attempts) == 0 {
		return "add a mirror to the rule"
	}
	return e.advice()
}

func (e *ImageError) advice() string {
	first := e.Attempts[0]
	host := first.Ref.Context().RegistryStr()
	switch first.Reason {
	case ReasonUnreachable, ReasonTimeout:
		return "check that " + host + " is running and reachable from this machine"
	case ReasonUnknownAuthority:
		return "add the CA that signed the certificate of " + host + " to the mirror's CA bundle"
	case ReasonCertificate:
		return "install a certificate on " + host + " that is valid now and for this name, and check the clocks"
	case ReasonPlainHTTP:
		return "install a certificate on " + host + ", or set insecure = true for it in registries.conf"
	case ReasonUnauthorized:
		if first.Anonymous {
			return "add an entry for " + host + " to the pull secret"
		}
		return "check the entry for " + host + " in the pull secret"
	case ReasonNotFound:
		return "mirror the image to " + first.Ref.Context().Name()
	}
	return ""
}

var (
	errPlainHTTP = errors.New("plain HTTP requires a rule with insecure = true")
	errNoBlob    = errors.New("the blob does not exist")
)

// Failed returns the error for an endpoint that provided an image but failed to provide a part of
// it.
func Failed(image string, from Endpoint, err error, secret authn.Keychain) *ImageError {
	return &ImageError{Image: image, Attempts: []Attempt{newAttempt(from, err,
		hasCredentials(secret, from.Ref.Context()))}}
}

func newAttempt(e Endpoint, err error, hadCredentials bool) Attempt {
	reason, answer := classify(err)
	if reason == ReasonUnauthorized {
		if hadCredentials {
			answer += " to the pull secret's credentials"
		} else {
			answer += ", and the pull secret has no entry for it"
		}
	}
	return Attempt{Endpoint: e, Reason: reason, Answer: answer, Err: err, Anonymous: !hadCredentials}
}

// classify returns the reason and the text of a failed request. The library joins errors if it
// tried HTTPS and then HTTP; the order of the cases selects the more informative error.
func classify(err error) (Reason, string) {
	var status *transport.Error
	var unknownCA x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var notTLS tls.RecordHeaderError
	var dns *net.DNSError
	var netErr net.Error
	var denied *egress.DeniedError
	var stalled *stall.Error
	switch {
	case errors.As(err, &denied):
		return ReasonDenied, "was not contacted: " + denied.Error()
	case errors.As(err, &stalled):
		return ReasonTimeout, fmt.Sprintf("stopped in the middle of an answer, and sent nothing for %s", stalled.Limit)
	case errors.Is(err, context.Canceled):
		return ReasonCanceled, "did not answer before the request was canceled"
	case errors.As(err, &unknownCA):
		return ReasonUnknownAuthority, "has a certificate signed by an unknown authority"
	case errors.As(err, &hostname):
		return ReasonCertificate, "has a certificate for another name: " + hostname.Error()
	case errors.As(err, &invalid):
		return ReasonCertificate, "has a certificate that is not valid: " + invalid.Error()
	case errors.As(err, &status):
		return classifyStatus(status)
	case errors.Is(err, errNoBlob):
		return ReasonNotFound, "answered that it has no such layer"
	case errors.As(err, &dns) && dns.IsNotFound:
		return ReasonUnreachable, fmt.Sprintf("has a name, %s, that can't be resolved", dns.Name)
	case errors.As(err, &dns) && !dns.IsTimeout && dns.Server != "":
		return ReasonUnreachable, fmt.Sprintf("has a name, %s, for which the DNS server %s failed (%s)", dns.Name,
			dns.Server, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReasonUnreachable, "refused the connection"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return ReasonTimeout, "did not answer in time"
	case errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch):
		return ReasonPlainHTTP, "speaks plain HTTP where HTTPS is required"
	case errors.Is(err, errPlainHTTP):
		return ReasonPlainHTTP, "would receive plain HTTP, which no rule allows"
	case isDialError(err):
		return ReasonUnreachable, "could not be reached: " + innermost(err)
	default:
		return ReasonOther, "failed: " + innermost(err)
	}
}

func classifyStatus(e *transport.Error) (Reason, string) {
	answer := fmt.Sprintf("answered %d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		answer += fmt.Sprintf(" (%s)", d.Code)
		switch d.Code {
		case transport.ManifestUnknownErrorCode, transport.NameUnknownErrorCode, transport.BlobUnknownErrorCode:
			return ReasonNotFound, answer
		}
	}
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ReasonUnauthorized, answer
	case http.StatusNotFound:
		return ReasonNotFound, answer
	default:
		return ReasonStatus, answer
	}
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// innermost removes the operations and addresses from errors of package net. Otherwise a changing
// port would make each error of the same fault different.
func innermost(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// Passing reports whether an error is temporary, so that the same request may succeed later.
func Passing(err error) bool { return worthRetrying(err) }

// worthRetrying reports whether a connection error is temporary. An unreachable registry is not
// retried: the next endpoint follows.
func worthRetrying(err error) bool {
	var temporary interface{ Temporary() bool }
	switch {
	case isDialError(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNRESET):
		return true
	default:
		return errors.As(err, &temporary) && temporary.Temporary()
	}
}
