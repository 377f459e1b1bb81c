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
)

// Error is why something with a server did not work.
type Error struct {
	Type ErrorType
	Code string // the vendor's or the registry's, where the BMC gave one
	// Message is a sentence: what is wrong, where, what to do.
	Message string
	Err     error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns what the BMC said.
func (e *Error) Unwrap() error { return e.Err }

// failure is an answer of a BMC that is no success, or none at all.
type failure struct {
	method, path string
	status       int // 0: there was no answer
	messages     []message
	err          error // why there was no answer
}

// message is one of a Redfish error or task (DSP0266, "Error responses").
type message struct{ id, text, resolution string }

// Error is what the BMC said, in its words.
func (f *failure) Error() string {
	if f.status == 0 {
		return fmt.Sprintf("%s %s: %v", f.method, f.path, f.err)
	}
	said := f.said()
	if said == "" {
		said = http.StatusText(f.status)
	}
	return fmt.Sprintf("%s %s was answered %d: %s", f.method, f.path, f.status, said)
}

// Unwrap returns why there was no answer.
func (f *failure) Unwrap() error { return f.err }

// said is what the BMC said, cut to a length that people read.
func (f *failure) said() string {
	var texts []string
	for _, m := range f.messages {
		if m.text != "" && !slices.Contains(texts, m.text) {
			texts = append(texts, strings.TrimRight(m.text, "."))
		}
	}
	said := []rune(strings.Join(texts, "; "))
	if len(said) > 300 {
		said = append(said[:300], '…')
	}
	return string(said)
}

// vendorCode is a code of Dell's lifecycle controller, of which the manuals tell more.
var vendorCode = regexp.MustCompile(`\b(RAC|VRM|SYS|SWC|LIC|JCP|IDRAC)[0-9]{3,4}\b`)

// code is the code by which the failure is looked up in a manual, "" if there is none.
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

// mentions tells whether a message has one of the words in its id, or in its text, in any case.
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

// The kinds of failures by which the boot sequence decides.
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

func (f *failure) licence() bool { return f.mentions("licen", "LIC0", "not activated") }

func (f *failure) missing(parameter string) bool {
	if !f.mentions("ParameterMissing", "PropertyMissing", "missing", "requir", "must be specified", "must specify") {
		return false
	}
	return f.mentions(parameter)
}

func (f *failure) unknown() bool {
	return f.mentions("PropertyUnknown", "ParameterUnknown", "ParameterNotSupported", "PropertyNotWritable",
		"not in the list of valid properties", "unknown property")
}

// already tells that a change was refused because it is so already.
func (f *failure) already() bool {
	return (f.status == http.StatusBadRequest || f.status == http.StatusConflict) &&
		f.mentions("already", "same state", "is off", "is on", "powered off", "powered on", "NoOperation")
}

func (f *failure) retryable() bool {
	return f.status >= 500 && f.status != http.StatusNotImplemented && !f.inUse() && !f.imageUnreachable() &&
		!f.sessionsFull()
}

// asFailure finds the failure in an error.
func asFailure(err error) (*failure, bool) { return errors.AsType[*failure](err) }

// readFailure reads an answer that is no success. What is not Redfish's shape counts as a text.
func readFailure(method, path string, status int, body []byte) *failure {
	f := &failure{method: method, path: path, status: status}
	fields, err := decodeObject(body)
	if err != nil {
		if text := plainText(body); text != "" {
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
		(len(f.messages) == 0 || !strings.HasSuffix(first.id, "GeneralError") && !strings.HasSuffix(first.id,
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

// explain makes a sentence of what went wrong while something was done.
func (s *session) explain(kind ErrorType, doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*Error](err); known {
		return err
	}
	told := &Error{Type: kind, Err: err}
	at := fmt.Sprintf("The BMC of %s at %s", s.name, s.address.URL)
	f, answered := asFailure(err)
	if !answered || f.status == 0 {
		told.Message = s.explainSilence(at, doing, err)
		return told
	}
	told.Code = f.code()
	coded := ""
	if told.Code != "" {
		coded = " (" + told.Code + ")"
	}
	said := ""
	if text := f.said(); text != "" {
		said = `; it says: "` + text + `"`
	}
	switch {
	case f.sessionsFull():
		told.Message = fmt.Sprintf("%s has no session free%s, so we can't %s; close some in its web page, or wait "+
			"until they end by themselves%s.", at, coded, doing, said)
	case f.status == http.StatusUnauthorized:
		told.Message = fmt.Sprintf("%s refuses the user name %q with this password, so we can't %s; give the right "+
			"ones, and see that the account is not locked.", at, s.username, doing)
	case f.licence():
		told.Message = fmt.Sprintf("%s needs a licence to %s%s; virtual media over the network is part of a paid one "+
			"with several vendors%s.", at, doing, coded, said)
	case f.status == http.StatusForbidden:
		told.Message = fmt.Sprintf("%s does not allow the user %q to %s%s; give it the role Administrator or "+
			"Operator%s.", at, s.username, doing, coded, said)
	case f.imageUnreachable():
		told.Message = fmt.Sprintf("%s could not fetch the image %s%s; see that it reaches this address and port "+
			"from its own network, by plain http if it does not trust the certificate%s.", at, s.imageShown(),
			coded, said)
	case f.notReady():
		told.Message = fmt.Sprintf("%s was not ready to %s%s; it is tried again%s.", at, doing, coded, said)
	case f.status == http.StatusNotFound:
		told.Message = fmt.Sprintf("%s has no %s, so we can't %s; see that the path in its address is right, or "+
			"leave it out, and that its firmware speaks Redfish%s.", at, f.path, doing, said)
	case f.status == http.StatusTooManyRequests || f.status >= 500:
		told.Message = fmt.Sprintf("%s failed to %s with status %d%s; if that stays so, restart the BMC%s.", at,
			doing, f.status, coded, said)
	default:
		told.Message = fmt.Sprintf("%s refused to %s with status %d%s; see its conversation%s.", at, doing, f.status,
			coded, said)
	}
	return told
}

// explainSilence makes a sentence of a request that has no answer.
func (s *session) explainSilence(at, doing string, err error) string {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("%s has a certificate that is not valid at this time (%s); give the BMC a new one, set "+
			"its clock, or choose not to verify it.", at, strings.TrimPrefix(invalid.Error(), "x509: "))
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return fmt.Sprintf("%s has a certificate that is not trusted, as self-signed ones are; give its CA, or "+
			"choose not to verify it.", at)
	case errors.As(err, &hostname):
		return fmt.Sprintf("%s has a certificate for another name (%s); use that name in the address, or choose not "+
			"to verify it.", at, strings.TrimPrefix(hostname.Error(), "x509: "))
	case errors.As(err, &record):
		return fmt.Sprintf("%s does not speak TLS at this port; put +http behind the scheme if plain http is meant.",
			at)
	case errors.As(err, &alert):
		return fmt.Sprintf("%s broke the TLS handshake off (%v); its firmware may speak an old version of TLS only, "+
			"update it.", at, alert)
	case errors.As(err, &dns):
		return fmt.Sprintf("%s can't be spoken to, since its name %s is not found in DNS; mend that, or use its IP "+
			"address.", at, dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s refuses connections, so we can't %s; see that it has power and that Redfish (https) "+
			"is switched on.", at, doing)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s did not answer in time when it was to %s; see that it has power and is reached from "+
			"here.", at, doing)
	}
	return fmt.Sprintf("%s broke the connection off when it was to %s (%v); it is tried again.", at, doing, cause(err))
}

// cause is the innermost error, without the URL that a client puts before it.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
