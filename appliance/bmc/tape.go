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

	"github.com/jonboulle/clockwork"
)

const (
	// answerLimit is how much of an answer is read, in bytes.
	answerLimit = 4 << 20
	// keptBody is how much of a body is kept for people, in bytes.
	keptBody = 4 << 10
	// keptExchanges is how many exchanges of a conversation are kept: the first half of them, and
	// the newest.
	keptExchanges = 120
)

// heard is an answer.
type heard struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
}

// tape carries requests to a BMC and takes down what was said. It is used by one goroutine at a
// time.
type tape struct {
	base     http.RoundTripper
	clock    clockwork.Clock
	password string
	said     Conversation
	last     heard
	before   map[string]string // path -> the last answer, as it is kept
	answered func(http.Header) // hears of each answer
}

// RoundTrip implements http.RoundTripper. The whole answer is read here, so that it is kept also
// when nobody reads it.
func (t *tape) RoundTrip(r *http.Request) (*http.Response, error) {
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
	exchange.Request, exchange.Headers = t.readable(sent), t.headers(r.Header, "If-Match", "Authorization",
		"X-Auth-Token")
	t.last = heard{method: r.Method, path: r.URL.RequestURI(), header: http.Header{}}
	began := t.clock.Now()
	response, err := t.base.RoundTrip(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(response.Body, answerLimit))
		err = errors.Join(err, response.Body.Close())
	}
	exchange.Took = t.clock.Since(began)
	if err != nil {
		exchange.Error = t.redact(cause(err).Error())
		t.keep(exchange)
		return nil, err
	}
	exchange.Status, exchange.Answer = response.StatusCode, t.readable(body)
	exchange.Answered = t.headers(response.Header, "Date", "ETag", "Location", "Retry-After", "Allow", "Server",
		"X-Auth-Token")
	t.keep(exchange)
	t.last.status, t.last.header, t.last.body = response.StatusCode, response.Header, body
	if t.answered != nil {
		t.answered(response.Header)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// asBefore stands for an answer that is the same as the one before at that path.
const asBefore = "(as before)"

func (t *tape) keep(e Exchange) {
	if e.Answer != "" && t.before[e.Path] == e.Answer {
		e.Answer = asBefore
	} else {
		t.before[e.Path] = e.Answer
	}
	t.said.Exchanges = append(t.said.Exchanges, e)
	if len(t.said.Exchanges) > keptExchanges {
		const half = keptExchanges / 2
		t.said.Exchanges = append(t.said.Exchanges[:half], t.said.Exchanges[half+1:]...)
		t.said.Left++
	}
}

// headers are those of the given names; of credentials only that they were there.
func (t *tape) headers(from http.Header, names ...string) []string {
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
			value = strings.TrimSpace(kind + " " + hidden)
		}
		kept = append(kept, name+": "+t.redact(value))
	}
	return kept
}

func (t *tape) readable(body []byte) string {
	text := t.redact(string(body))
	if len(text) > keptBody {
		return strings.ToValidUTF8(text[:keptBody], "") + fmt.Sprintf("… (%d bytes in all)", len(body))
	}
	return strings.ToValidUTF8(text, "�")
}

func (t *tape) redact(text string) string { return redact(text, t.password) }

// hidden stands where a secret was.
const hidden = "(hidden)"

var (
	secretFields = regexp.MustCompile(
		`(?i)("(?:[a-z]*password|token|x-auth-token|authtoken|sessionkey|apikey|api_key|secret|csrftoken)"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	secretQuery = regexp.MustCompile(`(?i)\b(api_key|apikey|token|image_token|signature|password)=[^&\s"'<>\\]+`)
	secretPaths = regexp.MustCompile(`(/(?:byapikey|bytoken)/)[^/\s"'<>\\]+`)
	// of short URLs; BMCs show the name alone, too
	shortCodes   = regexp.MustCompile(`\b([a-z2-7]{4})[a-z2-7]{12}(\.iso)`)
	sessionPaths = regexp.MustCompile(`(/Sessions/)[^/\s"'<>\\?,}]+`)
	sessionIDs   = regexp.MustCompile(`("@odata\.type"\s*:\s*"#Session\.[^}]*?"Id"\s*:\s*)"[^"]*"`)
)

// redact takes secrets out of a text: by the names of fields, by the form of paths, and the
// password wherever it stands.
func redact(text, password string) string {
	text = secretFields.ReplaceAllString(text, `${1}"`+hidden+`"`)
	text = secretQuery.ReplaceAllString(text, "${1}="+hidden)
	text = secretPaths.ReplaceAllString(text, "${1}"+hidden)
	text = shortCodes.ReplaceAllString(text, "${1}…${2}")
	text = sessionPaths.ReplaceAllString(text, "${1}"+hidden)
	text = sessionIDs.ReplaceAllString(text, `${1}"`+hidden+`"`)
	if password != "" {
		text = strings.ReplaceAll(text, password, hidden)
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(password)), hidden)
	}
	return text
}

// newTape returns a tape of one conversation.
func newTape(base http.RoundTripper, clock clockwork.Clock, password, about string, start time.Time) *tape {
	return &tape{base: base, before: map[string]string{}, clock: clock, password: password,
		said: Conversation{About: about, Start: start, Exchanges: []Exchange{}}}
}
