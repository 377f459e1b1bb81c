package remote

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// connectTimeout limits the time for a connection to a member of a fleet, if there are others.
const connectTimeout = 3 * time.Second

// members sends requests to a member of a fleet that answers. It begins with the appliance of the
// context, and stays at a member until that no longer answers.
type members struct {
	urls    []*url.URL // the first one is that of the context
	next    http.RoundTripper
	present atomic.Int32 // index of the member that answered last
}

// newMembers returns the transport for the members that a context names. next is the transport to
// one of them.
func newMembers(stored *Context, next *http.Transport) (*members, error) {
	m := &members{next: next}
	for _, address := range slices.Concat([]string{stored.URL}, stored.Members) {
		parsed, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("the context %s has an invalid URL (%w); run landfall login again", stored.Name, err)
		}
		m.urls = append(m.urls, parsed)
	}
	next.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	next.TLSHandshakeTimeout = connectTimeout
	return m, nil
}

// RoundTrip implements http.RoundTripper. A request may be repeated at another member if the first
// one has not received it, or if it changes nothing.
func (m *members) RoundTrip(request *http.Request) (*http.Response, error) {
	if !sameURL(request.URL.String(), m.urls[0].String()) {
		return m.next.RoundTrip(request)
	}
	if request.Body != nil {
		defer request.Body.Close()
	}
	start := int(m.present.Load())
	var errs []error
	for i := range m.urls {
		at := (start + i) % len(m.urls)
		response, sent, err := m.try(request, m.urls[at])
		if err == nil {
			m.present.Store(int32(at))
			return response, nil
		}
		errs = append(errs, err)
		reads := request.Method == http.MethodGet || request.Method == http.MethodHead
		switch {
		case untrusted(err):
			return nil, &untrustedError{m.urls[at].String(), err}
		case request.Context().Err() != nil:
			return nil, err
		case sent && !reads:
			return nil, &lostAnswerError{m.urls[at].String(), err}
		}
	}
	return nil, errs[0]
}

// lostAnswerError reports that a member received a change, but did not answer.
type lostAnswerError struct {
	member string
	err    error
}

func (e *lostAnswerError) Error() string {
	return fmt.Sprintf("%s received the request, but its answer was lost (%v): the change may have been made; check "+
		"before you repeat it", e.member, e.err)
}

func (e *lostAnswerError) Unwrap() error { return e.err }

// untrustedError reports that the certificate of a member is not signed by a known authority.
type untrustedError struct {
	member string
	err    error
}

func (e *untrustedError) Error() string { return e.member + ": " + e.err.Error() }

func (e *untrustedError) Unwrap() error { return e.err }

// try sends a request to a member. sent reports whether the member may have received it. The body
// stays open, because nothing of it was read if the request was not sent.
func (m *members) try(request *http.Request, member *url.URL) (response *http.Response, sent bool, err error) {
	received := new(atomic.Bool)
	ctx := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { received.Store(true) }})
	copied := request.Clone(ctx)
	copied.URL.Scheme, copied.URL.Host, copied.Host = member.Scheme, member.Host, ""
	if request.Body != nil {
		copied.Body = io.NopCloser(request.Body)
	}
	response, err = m.next.RoundTrip(copied)
	return response, received.Load(), err
}

// SetMembers stores the URLs of the other members of the appliance's fleet. A token is sent to
// them, so URLs without TLS are left out. A login over HTTP, on the appliance's own machine, has no
// certificate authority for them.
func (c *Context) SetMembers(urls []string) {
	c.Members = nil
	for _, member := range urls {
		secure := strings.HasPrefix(c.URL, "https://") && strings.HasPrefix(member, "https://")
		if secure && !sameURL(member, c.URL) {
			c.Members = append(c.Members, strings.TrimRight(member, "/"))
		}
	}
}

// NoteMembers stores the URLs of the members of the appliance's fleet in the login at it, if there
// is one.
func (c *Client) NoteMembers(urls []string) error {
	found, err := c.find()
	if err != nil {
		return err
	}
	contexts, err := LoadContexts()
	if err != nil {
		return err
	}
	stored := contexts.ForURL(found.url)
	if stored == nil {
		return nil
	}
	before := stored.Members
	if stored.SetMembers(urls); slices.Equal(stored.Members, before) {
		return nil
	}
	return contexts.Save()
}
