package bmc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jonboulle/clockwork"
)

const (
	// maxResponse limits the part of a response that is read, in bytes.
	maxResponse = 4 << 20
	// maxLoggedBody limits the part of a body that is logged, in bytes.
	maxLoggedBody = 4 << 10
	// maxExchanges limits the exchanges in a request log. The log keeps the first half of them and
	// the newest.
	maxExchanges = 120
)

// response is a response of a BMC.
type response struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
}

// recorder is a round tripper that logs exchanges. It must be used by one goroutine at a time.
type recorder struct {
	base       http.RoundTripper
	clock      clockwork.Clock
	password   string
	log        RequestLog
	response   response
	carried    bool              // the current request contains the password
	bodies     map[string]string // path -> body of the last response, as logged
	onResponse func(http.Header) // called after each response
}

// RoundTrip implements http.RoundTripper. It reads the whole response, so that the log contains the
// body even if the caller does not read it.
func (t *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "landfall")
	exchange := Exchange{At: t.clock.Now().UTC(), Method: r.Method, Path: t.redact(r.URL.RequestURI())}
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, errors.Join(err, r.Body.Close())
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sent)), nil }
	}
	_, secret, basic := r.BasicAuth()
	t.carried = basic && secret != "" || t.password != "" && bytes.Contains(sent, []byte(t.password))
	exchange.Request, exchange.RequestHeaders = t.readable(sent), t.headers(r.Header, "If-Match", "Authorization",
		"X-Auth-Token")
	t.response = response{method: r.Method, path: r.URL.RequestURI(), header: http.Header{}}
	began := t.clock.Now()
	response, err := t.base.RoundTrip(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
		err = errors.Join(err, response.Body.Close())
	}
	exchange.Duration = t.clock.Since(began)
	if err != nil {
		exchange.Error = t.redact(innermostError(err).Error())
		t.add(exchange)
		return nil, err
	}
	exchange.Status, exchange.Response = response.StatusCode, t.readable(body)
	exchange.ResponseHeaders = t.headers(response.Header, "Date", "ETag", "Location", "Retry-After", "Allow", "Server",
		"X-Auth-Token")
	t.add(exchange)
	t.response.status, t.response.header, t.response.body = response.StatusCode, response.Header, body
	if t.onResponse != nil {
		t.onResponse(response.Header)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// sameAsBefore replaces a response body that equals the previous body at the same path.
const sameAsBefore = "(as before)"

func (t *recorder) add(e Exchange) {
	if e.Response != "" && t.bodies[e.Path] == e.Response {
		e.Response = sameAsBefore
	} else {
		t.bodies[e.Path] = e.Response
	}
	t.log.Exchanges = append(t.log.Exchanges, e)
	if len(t.log.Exchanges) > maxExchanges {
		const half = maxExchanges / 2
		t.log.Exchanges = append(t.log.Exchanges[:half], t.log.Exchanges[half+1:]...)
		t.log.Omitted++
	}
}

// headers returns the named headers. Credentials are replaced, so that the log shows only their
// presence.
func (t *recorder) headers(from http.Header, names ...string) []string {
	var kept []string
	for _, name := range names {
		value := from.Get(name)
		switch {
		case value == "":
			continue
		case name == "Authorization" || name == "X-Auth-Token":
			kind, _, basic := strings.Cut(value, " ")
			if !basic {
				kind = ""
			}
			value = strings.TrimSpace(kind + " " + redacted)
		}
		kept = append(kept, name+": "+t.redact(value))
	}
	return kept
}

func (t *recorder) readable(body []byte) string {
	text := t.redact(string(body))
	if len(text) > maxLoggedBody {
		return strings.ToValidUTF8(text[:maxLoggedBody], "") + fmt.Sprintf("… (%d bytes in all)", len(body))
	}
	return strings.ToValidUTF8(text, "�")
}

// redact hides secrets. A server can repeat a short password only if it has just received it, and
// elsewhere the same word is an ordinary one.
func (t *recorder) redact(text string) string {
	if len(t.password) < shortPassword && !t.carried {
		return redact(text, "")
	}
	return redact(text, t.password)
}

// redacted replaces a secret.
const redacted = "(hidden)"

var (
	secretFields = regexp.MustCompile(
		`(?i)("(?:[a-z]*password|token|x-auth-token|authtoken|sessionkey|apikey|api_key|secret|csrftoken)"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	secretQuery = regexp.MustCompile(`(?i)\b(api_key|apikey|token|image_token|signature|password)=[^&\s"'<>\\]+`)
	secretPaths = regexp.MustCompile(`(/(?:byapikey|bytoken)/)[^/\s"'<>\\]+`)
	// codes of short URLs; BMCs also report the file name alone
	shortCodes   = regexp.MustCompile(`\b([a-z2-7]{4})[a-z2-7]{12}(\.iso)`)
	sessionPaths = regexp.MustCompile(`(/Sessions/)[^/\s"'<>\\?,}]+`)
	sessionIDs   = regexp.MustCompile(`("@odata\.type"\s*:\s*"#Session\.[^}]*?"Id"\s*:\s*)"[^"]*"`)
)

// redact removes secrets from a text: values of secret fields, secret parts of paths, and every
// occurrence of the password.
func redact(text, password string) string {
	text = secretFields.ReplaceAllString(text, `${1}"`+redacted+`"`)
	text = secretQuery.ReplaceAllString(text, "${1}="+redacted)
	text = secretPaths.ReplaceAllString(text, "${1}"+redacted)
	text = shortCodes.ReplaceAllString(text, "${1}…${2}")
	text = sessionPaths.ReplaceAllString(text, "${1}"+redacted)
	text = sessionIDs.ReplaceAllString(text, `${1}"`+redacted+`"`)
	if password != "" {
		text = hide(text, password)
		text = hide(text, base64.StdEncoding.EncodeToString([]byte(password)))
	}
	return text
}

// shortPassword is the length below which a password may be a part of ordinary words. Hiding it
// there would make the text unreadable, and would reveal the password.
const shortPassword = 8

// hide replaces a secret in a text. A short secret is replaced only where it is a word by itself.
func hide(text, secret string) string {
	if len(secret) >= shortPassword {
		return strings.ReplaceAll(text, secret, redacted)
	}
	var out strings.Builder
	for at := 0; ; {
		found := strings.Index(text[at:], secret)
		if found < 0 {
			out.WriteString(text[at:])
			return out.String()
		}
		start, end := at+found, at+found+len(secret)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		out.WriteString(text[at:start])
		if inWord(before) || inWord(after) {
			out.WriteString(text[start:end])
		} else {
			out.WriteString(redacted)
		}
		at = end
	}
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// newRecorder returns a recorder of one session.
func newRecorder(base http.RoundTripper, clock clockwork.Clock, password, about string, start time.Time) *recorder {
	return &recorder{base: base, bodies: map[string]string{}, clock: clock, password: password,
		log: RequestLog{Job: about, Start: start, Exchanges: []Exchange{}}}
}
