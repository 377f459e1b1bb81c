package bmc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"landfall/appliance/egress"
	"landfall/appliance/sentence"
)

// Error is the error of an operation on a server.
type Error struct {
	Type ErrorType
	Code string // code of the vendor or of a message registry, if the BMC reported one
	// Message is a sentence about the failure, its place and the remedy.
	Message string
	Err     error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, such as the BMC's response.
func (e *Error) Unwrap() error { return e.Err }

// failure is an error response of a BMC, or a request without a response.
type failure struct {
	method, path string
	plain        bool // the messages are the text of an answer without Redfish's messages
	notJSON      bool // a successful response is not a JSON object, such as a web page
	taskEnded    bool // the task of an accepted request ended without success
	status       int  // 0 if there was no response
	messages     []message
	err          error // set if there was no response or no JSON
}

// message is a message of a Redfish error or task (DSP0266, "Error responses").
type message struct{ id, text, resolution string }

// Error returns the text of the BMC's response.
func (f *failure) Error() string {
	if f.status == 0 {
		return fmt.Sprintf("%s %s: %v", f.method, f.path, f.err)
	}
	detail := f.text()
	switch {
	case f.notJSON:
		detail = "the response is not a JSON object"
	case detail == "":
		detail = http.StatusText(f.status)
	}
	return fmt.Sprintf("%s %s returned %d: %s", f.method, f.path, f.status, detail)
}

// Unwrap returns the reason why there was no response, or no JSON.
func (f *failure) Unwrap() error { return f.err }

// text returns the messages of the BMC, shortened to 300 characters.
func (f *failure) text() string {
	var texts []string
	for _, m := range f.messages {
		if m.text != "" && !slices.Contains(texts, m.text) {
			texts = append(texts, strings.TrimRight(m.text, "."))
		}
	}
	detail := []rune(strings.Join(texts, "; "))
	if len(detail) > 300 {
		detail = append(detail[:300], '…')
	}
	return string(detail)
}

// vendorCode matches the codes of Dell's Lifecycle Controller, which the vendor's manuals explain.
var vendorCode = regexp.MustCompile(`\b(RAC|VRM|SYS|SWC|LIC|JCP|IDRAC)[0-9]{3,4}\b`)

// code returns the error code to look up in a manual, or "".
func (f *failure) code() string {
	for _, m := range f.messages {
		if found := vendorCode.FindString(m.id); found != "" {
			return found
		}
	}
	for _, m := range f.messages {
		if found := vendorCode.FindString(m.text); found != "" {
			return found
		}
	}
	for _, m := range f.messages {
		if parts := strings.Split(m.id, "."); len(parts) > 1 && parts[len(parts)-1] != "GeneralError" {
			return parts[len(parts)-1]
		}
	}
	return ""
}

// mentions reports whether the id or the text of a message contains one of the words. It ignores
// case.
func (f *failure) mentions(words ...string) bool {
	for _, m := range f.messages {
		all := strings.ToLower(m.id + " " + m.text)
		for _, word := range words {
			if strings.Contains(all, strings.ToLower(word)) {
				return true
			}
		}
	}
	return false
}

// The failures that the boot sequence distinguishes.
func (f *failure) sessionsFull() bool {
	return f.mentions("RAC0218", "maximum number of user sessions", "CreateLimitReachedForResource", "session limit")
}

func (f *failure) inUse() bool {
	return f.mentions("VRM0021", "already", "ResourceInUse", "in use", "MaxVirtualMediaConnectionEstablished") &&
		!f.refusedSession()
}

func (f *failure) refusedSession() bool { return strings.Contains(f.path, "/Sessions") }

func (f *failure) notReady() bool {
	return f.mentions("SYS518", "UnableToModifyDuringSystemPOST", "InvalidOperationForSystemState",
		"ServiceTemporarilyUnavailable",
		"ServiceInUnknownState", "not ready", "during POST", "try again")
}

func (f *failure) imageUnreachable() bool {
	return f.mentions("RAC0904", "remote file", "CouldNotEstablishConnection", "ResourceAtUriUnauthorized",
		"unable to access the", "unable to mount",
		"could not be reached", "not accessible", "unreachable", "failed to fetch", "unable to locate the ISO")
}

func (f *failure) imageRefused() bool {
	return f.mentions("StringValueTooLong", "too long", "ValueFormatError", "extension", ".iso", "query")
}

func (f *failure) licenseMissing() bool { return f.mentions("licen", "LIC0", "not activated") }

func (f *failure) propertyMissing(parameter string) bool {
	if !f.mentions("ParameterMissing", "PropertyMissing", "missing", "requir", "must be specified", "must specify") {
		return false
	}
	return f.mentions(parameter)
}

func (f *failure) propertyUnknown() bool {
	return f.mentions("PropertyUnknown", "ParameterUnknown", "ParameterNotSupported", "PropertyNotWritable",
		"not in the list of valid properties", "unknown property")
}

// alreadyDone reports whether the BMC rejected a change because the system already has the
// requested state.
func (f *failure) alreadyDone() bool {
	return (f.status == http.StatusBadRequest || f.status == http.StatusConflict) &&
		f.mentions("already", "same state", "is off", "is on", "powered off", "powered on", "NoOperation")
}

// unanswered reports whether the BMC itself did not respond. It may have carried out the request.
func (f *failure) unanswered() bool {
	return f.status == 0 || f.status == http.StatusBadGateway || f.status == http.StatusGatewayTimeout
}

func (f *failure) retryable() bool {
	return f.status >= 500 && f.status != http.StatusNotImplemented && !f.inUse() && !f.imageUnreachable() &&
		!f.sessionsFull()
}

// asFailure returns the failure in the chain of an error.
func asFailure(err error) (*failure, bool) { return errors.AsType[*failure](err) }

// readFailure parses an error response. If the body is not a Redfish error, it becomes the text of
// a message.
func readFailure(method, path string, status int, body []byte) *failure {
	f := &failure{method: method, path: path, status: status}
	fields, err := decodeObject(body)
	if err != nil {
		if text := plainText(body); text != "" {
			f.plain = true
			f.messages = append(f.messages, message{text: text})
		}
		return f
	}
	whole := fields
	if wrapped, ok := fields["error"].(map[string]any); ok {
		whole = wrapped
	}
	f.messages = readMessages(whole, "@Message.ExtendedInfo")
	if first := (message{id: whole.text("code"), text: whole.text("message")}); first.text != "" &&
		(f.text() == "" || !strings.HasSuffix(first.id, "GeneralError") && !strings.HasSuffix(first.id,
			"ExtendedInfo")) {
		f.messages = append(f.messages, first)
	}
	return f
}

func readMessages(o object, list string) []message {
	var found []message
	items, ok := o.at(list).([]any)
	if !ok {
		return nil
	}
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			m := object(fields)
			found = append(found, message{m.text("MessageId"), m.text("Message"), m.text("Resolution")})
		}
	}
	return found
}

var tags = regexp.MustCompile(`<[^>]*>`)

func plainText(body []byte) string {
	text := []rune(strings.Join(strings.Fields(tags.ReplaceAllString(string(body), " ")), " "))
	if len(text) > 200 {
		text = text[:200]
	}
	return string(text)
}

// explain returns an *Error with a sentence for users about a failed activity.
func (s *session) explain(kind ErrorType, activity string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	result := &Error{Type: kind, Err: err}
	subject := fmt.Sprintf("The BMC of %s at %s", s.name, s.address.URL)
	f, answered := asFailure(err)
	if !answered || f.status == 0 {
		result.Message = s.explainNoResponse(subject, activity, err)
		return result
	}
	result.Code = f.code()
	code := ""
	if result.Code != "" {
		code = " (" + result.Code + ")"
	}
	detail := ""
	if text := f.text(); text != "" && (s.known || !f.plain) {
		detail = `; it reports: "` + text + `"`
	}
	switch {
	case f.notJSON:
		result.Message = fmt.Sprintf("%s does not respond as a Redfish service: its response to %s (status %d) is not "+
			"JSON, so we can't %s; check the address and the port, which may be those of a web page.", subject, f.path,
			f.status, activity)
	case f.sessionsFull():
		result.Message = fmt.Sprintf("%s has no free session%s, so we can't %s; close sessions in its web page, or "+
			"wait "+
			"until they expire%s.", subject, code, activity, detail)
	case f.status == http.StatusUnauthorized:
		result.Message = fmt.Sprintf("%s rejects the user name %q with this password, so we can't %s; give the right "+
			"credentials, and check that the account is not locked; an inspection of the server (landfall bmc "+
			"inspect) tries them at once.", subject, s.username, activity)
	case f.licenseMissing():
		result.Message = fmt.Sprintf("%s needs a license to %s%s; several vendors require a paid license for remote "+
			"virtual media%s.", subject, activity, code, detail)
	case f.status == http.StatusForbidden:
		result.Message = fmt.Sprintf("%s does not allow the user %q to %s%s; give it the role Administrator or "+
			"Operator%s.", subject, s.username, activity, code, detail)
	case f.imageUnreachable():
		result.Message = fmt.Sprintf("%s could not fetch the image %s%s; check that it reaches this address and port "+
			"from its own network, by plain http if it does not trust the certificate%s.", subject, s.redactedImage(),
			code, detail)
	case f.notReady():
		result.Message = fmt.Sprintf("%s was not ready to %s%s; the operation is retried%s.", subject, activity,
			code, detail)
	case f.status == http.StatusNotFound:
		result.Message = fmt.Sprintf("%s has no %s, so we can't %s; check the path in its address, or "+
			"omit it, and check that its firmware supports Redfish%s.", subject, f.path, activity, detail)
	case f.status == http.StatusTooManyRequests || f.status >= 500:
		result.Message = fmt.Sprintf("%s failed to %s with status %d%s; if the error persists, restart the BMC%s.",
			subject,
			activity, f.status, code, detail)
	default:
		result.Message = fmt.Sprintf("%s refused to %s with status %d%s; see its request log%s.", subject, activity,
			f.status,
			code, detail)
	}
	return result
}

// explainNoResponse returns a sentence about a request without a response.
func (s *session) explainNoResponse(subject, activity string, err error) string {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var dns *net.DNSError
	var timeout net.Error
	var denied *egress.DeniedError
	var connection *net.OpError
	switch {
	case errors.As(err, &denied):
		return sentence.New(denied)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("%s has a certificate that is not valid now (%s); give the BMC a new one, set "+
			"its clock, or disable the verification.", subject, strings.TrimPrefix(invalid.Error(), "x509: "))
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return fmt.Sprintf("%s has a certificate that is not trusted, such as a self-signed one; give its CA, or "+
			"disable the verification.", subject)
	case errors.As(err, &hostname):
		return fmt.Sprintf("%s has a certificate for another name (%s); use that name in the address, or disable "+
			"the verification.", subject, strings.TrimPrefix(hostname.Error(), "x509: "))
	case errors.As(err, &record):
		return fmt.Sprintf("%s does not use TLS at this port; add +http to the scheme if plain http is intended.",
			subject)
	case errors.As(err, &alert):
		return fmt.Sprintf("%s aborted the TLS handshake (%v); its firmware may support only an old version of TLS, "+
			"update it.", subject, alert)
	case errors.As(err, &dns):
		return fmt.Sprintf("%s can't be reached, because its name %s is not found in DNS; correct that, or use its IP "+
			"address.", subject, dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		scheme, _, _ := strings.Cut(s.address.URL, ":")
		return fmt.Sprintf("%s refuses connections, so we can't %s; check that it has power and that Redfish (%s) "+
			"is enabled.", subject, activity, scheme)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s did not respond in time to the request to %s; check that it has power and is "+
			"reachable from "+
			"here.", subject, activity)
	case errors.As(err, &connection) && connection.Op == "dial":
		return fmt.Sprintf("%s can't be reached (%v), so we can't %s; check its address, that it has power, and the "+
			"network between.", subject, innermostError(err), activity)
	}
	return fmt.Sprintf("%s closed the connection during the request to %s (%v); the request is retried.", subject,
		activity, innermostError(err))
}

// innermostError returns the innermost error, without the URL that an HTTP client adds.
func innermostError(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
