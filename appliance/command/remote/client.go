// Package remote calls the API of a running appliance for the commands: it finds the appliance's
// URL, its certificate authority and the caller's token, and turns failures into sentences.
//
// The URL is that of --url, of LANDFALL_URL, or of the current context, which landfall login
// stores. The token is that of LANDFALL_TOKEN, or of the context with this URL. If the appliance of
// the current context is a member of a fleet and does not answer, the client asks another member.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"landfall/appliance/config"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/roots"
)

// DefaultURL is the URL of an appliance on this machine.
const DefaultURL = "http://127.0.0.1:8090"

// Environment variables.
const (
	tokenVariable = config.EnvPrefix + "TOKEN"
	urlVariable   = config.EnvPrefix + "URL"
	caVariable    = config.EnvPrefix + "CA"
)

// caFile is the name of the certificate authority in a data directory.
const caFile = "ca.crt"

// Client calls the API of one appliance. The zero value finds the appliance by the flags, the
// environment and the contexts.
type Client struct {
	url   string // of --url
	ca    string // of --ca
	alone bool   // use neither the environment nor the contexts
	only  bool   // use no other member of the appliance's fleet
	// dir is the data directory of the appliance on this machine; nil: any appliance is meant.
	dir *string

	once       sync.Once
	connection *connection
	err        error
}

// connection is the appliance that a client has found.
type connection struct {
	url   string
	token string
	from  string // where the token comes from, for messages
	ca    string // the file with the authority that the caller named; "" for none
	http  *http.Client

	members []string // URLs of the members that are tried if the appliance does not answer
}

// At returns a client for a URL that sends no token.
func At(url string) *Client { return &Client{url: url, alone: true} }

// New returns a client for a URL, with a file of certificates ("" for none).
func New(url, caFile string) *Client { return &Client{url: url, ca: caFile} }

// OnlyThis makes the client ask no other member of the appliance's fleet, for commands that change
// the member itself.
func (c *Client) OnlyThis() { c.only = true }

// AddFlagsOf adds the flags that select the running appliance of a data directory on this machine,
// whose name dir has when the command runs. The client does not use the stored logins, because the
// current one may be at another appliance.
func (c *Client) AddFlagsOf(dir *string, flags *pflag.FlagSet) {
	c.dir = dir
	flags.StringVar(&c.url, "url", "", "URL of the appliance with the data directory, if it runs; default: "+
		"LANDFALL_URL, or "+DefaultURL)
	flags.StringVar(&c.ca, "ca", "", "file with the appliance's certificate authority; default: LANDFALL_CA, or "+
		caFile+" of the data directory")
}

// AddFlags adds the flags that select the appliance.
func (c *Client) AddFlags(flags *pflag.FlagSet) {
	c.AddURLFlag(flags)
	flags.StringVar(&c.ca, "ca", "", "file with the appliance's certificate authority; default: LANDFALL_CA, or the "+
		"authority that landfall login stored")
}

// AddURLFlag adds only the flag of the URL, for commands whose --ca is the authority of another
// server.
func (c *Client) AddURLFlag(flags *pflag.FlagSet) {
	flags.StringVar(&c.url, "url", "", "URL of the running appliance; default: LANDFALL_URL, the appliance of "+
		"landfall login, or "+DefaultURL+"; without a scheme, it is http for an address of this machine and "+
		"https for others")
}

// find finds the appliance once.
func (c *Client) find() (*connection, error) {
	c.once.Do(func() { c.connection, c.err = c.open() })
	return c.connection, c.err
}

func (c *Client) open() (*connection, error) {
	if c.alone {
		return &connection{url: strings.TrimRight(c.url, "/"), http: &http.Client{}}, nil
	}
	contexts, err := c.contexts()
	if err != nil {
		return nil, err
	}
	found := &connection{url: withScheme(cmp.Or(c.url, os.Getenv(urlVariable)))}
	stored := contexts.Find(contexts.Current)
	if found.url != "" {
		stored = contexts.ForURL(found.url)
	} else if stored != nil {
		found.url = stored.URL
		if !c.only {
			found.members = stored.Members
		}
	}
	found.url = strings.TrimRight(cmp.Or(found.url, DefaultURL), "/")
	if parsed, err := url.Parse(found.url); err != nil || parsed.Host == "" ||
		parsed.Scheme != "http" && parsed.Scheme != "https" {
		return nil, fmt.Errorf("the URL %s is invalid; expected a URL such as %s", found.url, DefaultURL)
	}
	found.token, found.from = os.Getenv(tokenVariable), tokenVariable
	if found.token == "" && stored != nil {
		found.token, found.from = stored.Token, "the stored login"
	}
	found.ca = cmp.Or(c.ca, os.Getenv(caVariable))
	pool, err := authorities(found.ca, stored, c.dataDir())
	if err != nil {
		return nil, err
	}
	next := transport(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	outer := &authorizing{token: found.token, url: found.url, next: next}
	if len(found.members) > 0 {
		if outer.next, err = newMembers(stored, next); err != nil {
			return nil, err
		}
	}
	found.http = &http.Client{Transport: outer}
	return found, nil
}

// contexts returns the stored logins that the client may use.
func (c *Client) contexts() (*Contexts, error) {
	if c.dir != nil {
		return new(Contexts), nil
	}
	return LoadContexts()
}

// dataDir returns the data directory of an appliance on this machine.
func (c *Client) dataDir() string {
	if c.dir != nil {
		return *c.dir
	}
	return cmp.Or(os.Getenv(config.EnvPrefix+"DATA_DIR"), config.Default().DataDir)
}

// withScheme adds the scheme to an address without one: http for an address of this machine, where
// an appliance serves both on one port, https for others.
func withScheme(address string) string {
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "http://" + address
	}
	return "https://" + address
}

func transport(settings *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = settings
	return t
}

// authorities returns the certificate authorities that may have signed the appliance's certificate:
// those in the named file, in the context, or in the data directory of an appliance on this
// machine.
func authorities(named string, stored *Context, directory string) (*x509.CertPool, error) {
	if named != "" {
		text, err := os.ReadFile(named)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		pool, ok := roots.With(text)
		if !ok {
			return nil, fmt.Errorf("%s contains no certificate in PEM; give the file %s of the appliance's data "+
				"directory", named, caFile)
		}
		return pool, nil
	}
	if stored != nil && stored.CA != "" {
		pool, _ := roots.With([]byte(stored.CA)) // it was checked at the login
		return pool, nil
	}
	text, err := os.ReadFile(filepath.Join(directory, caFile))
	if err != nil {
		return roots.System(), nil
	}
	pool, _ := roots.With(text) // the appliance wrote it
	return pool, nil
}

// authorizing adds the token to requests to the appliance, and to no other server.
type authorizing struct {
	token string
	url   string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *authorizing) RoundTrip(request *http.Request) (*http.Response, error) {
	if a.token != "" && request.Header.Get("Authorization") == "" && sameURL(request.URL.String(), a.url) {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.next.RoundTrip(request)
}

// URL returns the appliance's URL without a trailing slash.
func (c *Client) URL() (string, error) {
	found, err := c.find()
	if err != nil {
		return "", err
	}
	return found.url, nil
}

// HTTP returns an HTTP client that trusts the appliance and sends the token to it.
func (c *Client) HTTP() (*http.Client, error) {
	found, err := c.find()
	if err != nil {
		return nil, err
	}
	return found.http, nil
}

// AuthorityFile returns the file with the authority that the caller named, by --ca or LANDFALL_CA,
// or "".
func (c *Client) AuthorityFile() (string, error) {
	found, err := c.find()
	if err != nil {
		return "", err
	}
	return found.ca, nil
}

// Credentials returns the token, or "", and an HTTP client that trusts the appliance and does not
// send the token.
func (c *Client) Credentials() (token string, plain *http.Client, err error) {
	found, err := c.find()
	if err != nil {
		return "", nil, err
	}
	if authorizing, ok := found.http.Transport.(*authorizing); ok {
		return found.token, &http.Client{Transport: authorizing.next}, nil
	}
	return "", found.http, nil
}

// Do sends a request to a path. The caller closes the body of the response, which may have any
// status; see [Client.Refusal].
func (c *Client) Do(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response,
	error) {
	found, err := c.find()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, found.url+path, body)
	if err != nil {
		return nil, fmt.Errorf("the URL %s is invalid: %w; expected a URL such as %s", found.url, err, DefaultURL)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := found.http.Do(request)
	if err != nil {
		return nil, found.unreachable(err)
	}
	return response, nil
}

// Call sends in as JSON (nil for no body) to a path and decodes the answer into out (nil to ignore
// it; *[]byte for the raw bytes).
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	body := []byte(nil)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	return c.Send(ctx, method, path, "application/json", bytes.NewReader(body), out)
}

// Send is like Call, with a body of any content type.
func (c *Client) Send(ctx context.Context, method, path, contentType string, body io.Reader, out any) error {
	response, err := c.Do(ctx, method, path, http.Header{"Content-Type": {contentType}}, body)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("read the response of the appliance: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return c.Refusal(method, path, response, answer)
	}
	return read(answer, out)
}

// File is a file of a request.
type File struct {
	Name string // its path in the directory that is sent
	Data []byte
}

// SendFiles posts files as a form, like a browser.
func (c *Client) SendFiles(ctx context.Context, path string, files []File, out any) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, file := range files {
		part, err := form.CreateFormFile(file.Name, filepath.Base(file.Name))
		if err != nil {
			return err
		}
		if _, err := part.Write(file.Data); err != nil {
			return err
		}
	}
	if err := form.Close(); err != nil {
		return err
	}
	return c.Send(ctx, http.MethodPost, path, form.FormDataContentType(), &body, out)
}

func read(answer []byte, out any) error {
	switch target := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*target = answer
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the response does not match the API: %w; check whether another service has this URL", err)
	}
	return nil
}

// RefusedError is an error that the appliance answered.
type RefusedError struct {
	Status int
	Reason string
}

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Refusal returns the error in a response of the appliance, in any format of its APIs.
func (c *Client) Refusal(method, path string, response *http.Response, answer []byte) error {
	refused := &RefusedError{Status: response.StatusCode}
	var shape struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
		// Error is the format of the resource provider of hosted clusters.
		Error arm.Error `json:"error"`
	}
	if err := json.Unmarshal(answer, &shape); err == nil {
		refused.Reason = shape.Reason + shape.Message + shape.Error.Error()
	}
	if refused.Reason == "" {
		refused.Reason = fmt.Sprintf("the appliance answered %s to %s %s", response.Status, method, path)
	}
	if found, err := c.find(); err == nil && response.StatusCode == http.StatusUnauthorized && !c.alone {
		login := "landfall login --url " + found.url
		switch {
		case found.token == "":
			refused.Reason = fmt.Sprintf("the appliance at %s requires a login; run %s", found.url, login)
		case found.from == tokenVariable:
			refused.Reason = fmt.Sprintf("the appliance at %s does not accept the token in %s, which may have ended "+
				"or been revoked; set it to another token, or unset it to use your login", found.url, tokenVariable)
		default:
			refused.Reason = fmt.Sprintf("the appliance at %s does not accept %s, which may have ended; run %s",
				found.url, found.from, login)
		}
	}
	return refused
}

// Unreachable returns the sentence for the error of a request without a response.
func (c *Client) Unreachable(err error) error {
	found, openErr := c.find()
	if openErr != nil {
		return openErr
	}
	return found.unreachable(err)
}

// UnreachableError reports that no appliance answered a request.
type UnreachableError struct{ err error }

// Error returns one sentence with the address and the remedy.
func (e *UnreachableError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.err }

// unreachable returns the error of a request without a response.
func (c *connection) unreachable(err error) error { return &UnreachableError{c.whyUnreachable(err)} }

func (c *connection) whyUnreachable(err error) error {
	address := c.url
	if errors.Is(err, syscall.ECONNREFUSED) && len(c.members) == 0 {
		return fmt.Errorf("no appliance listens at %s; start one with landfall serve, or name its address with --url",
			address)
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err
	}
	if at, ok := errors.AsType[*untrustedError](err); ok {
		address = at.member
	}
	if untrusted(err) && c.ca != "" {
		return fmt.Errorf("the certificate of %s is not signed by the authority in %s; compare it with the file %s of "+
			"the appliance's data directory", address, c.ca, caFile)
	}
	if untrusted(err) {
		return fmt.Errorf("the certificate of %s is not signed by a known authority; run landfall login --url %s, or "+
			"name the appliance's authority (the file %s of its data directory) with --ca", address, address, caFile)
	}
	if lost, ok := errors.AsType[*lostAnswerError](err); ok {
		return lost
	}
	if len(c.members) > 0 {
		return fmt.Errorf("no member of the fleet answers at %s or %s (%w); check the machines, or name the address "+
			"of one with --url", address, strings.Join(c.members, ", "), err)
	}
	return fmt.Errorf("the appliance at %s cannot be reached (%w); check --url", address, err)
}

func untrusted(err error) bool {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	return unknown
}

// Trusting returns a client for a URL that trusts a certificate authority in PEM. file is the file
// that a person named for it, or "".
func Trusting(address, authority, file string) *Client {
	c := &Client{url: address, alone: true}
	c.once.Do(func() {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(authority))
		c.connection = &connection{url: address, ca: file, http: &http.Client{
			Transport: transport(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})}}
	})
	return c
}

// Anonymous returns a client for the same appliance that sends no token.
func (c *Client) Anonymous() *Client { return c.As("") }

// As returns a client for the same appliance that sends a token.
func (c *Client) As(token string) *Client {
	other := &Client{alone: true}
	other.once.Do(func() {
		found, err := c.find()
		if err != nil {
			other.err = err
			return
		}
		next := found.http.Transport
		if outer, ok := next.(*authorizing); ok {
			next = outer.next
		}
		other.connection = &connection{url: found.url, token: token, members: found.members,
			http: &http.Client{Transport: &authorizing{token: token, url: found.url, next: cmp.Or(next,
				http.DefaultTransport)}}}
	})
	return other
}

// WriteJSON writes an answer of the appliance for people and scripts, with indentation.
func WriteJSON(out io.Writer, answer any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(answer)
}
