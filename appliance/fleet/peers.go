package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
	"landfall/appliance/stall"
	"landfall/store/blob"
)

// Paths of the requests of members for a member itself.
const (
	snapshotPath  = peerPath + "snapshot"
	contentPath   = peerPath + "content/"
	leavePath     = peerPath + "leave"
	conditionPath = peerPath + "condition"
	imagePath     = peerPath + "image/"
	blobPath      = peerPath + "blob/"
	contactsPath  = peerPath + "contacts"
	readsPath     = peerPath + "reads"
	trailPath     = peerPath + "trail/"
	verifiedPath  = peerPath + "verified/"
	surplusPath   = peerPath + "surplus/"
)

// Snapshots writes snapshots: backups with the keys.
type Snapshots interface {
	Write(ctx context.Context, to io.Writer, withKey bool) error
}

// Take stores a file that another member sends, by its SHA-256.
type Take func(ctx context.Context, sum string, content io.Reader) error

// Peers handles the requests of other members for this member itself: it gives them snapshots and
// contents.
type Peers struct {
	Snapshots Snapshots // nil while this member has no database
	Contents  Contents  // the same
	Hosts     Contacts  // nil while this member does not lead
	Trail     Trail     // the audit trail of this member, from its files
	// Reads returns which machines read images of this member, for JSON. It is nil while this
	// member does not follow.
	Reads func() (any, error)
	// Condition returns the condition of this member. missing are the contents that it lacks.
	Condition func(missing []string) Condition
	// Kept returns those of some contents that this member has to keep.
	Kept func(ctx context.Context, sums []string) ([]string, error)
	// Permit returns nil if a follower may remove a content; see [Copies.Permit]. It is nil while
	// this member does not lead.
	Permit func(ctx context.Context, follower, sum string, own Contents) error
	// Image opens a live ISO that was imported, by its ID. Its error is fs.ErrNotExist if it is not
	// here.
	Image func(id string) (*os.File, error)
	// Blob does the same for a blob of images that were pushed to the registry, by its SHA-256.
	Blob func(sum string) (*os.File, error)
	// TakeBlob stores such a blob. It is nil while this member does not follow, and without a
	// registry.
	TakeBlob Take
	// Leave makes this member leave the fleet.
	Leave  func() error
	Refuse Refuse
	Logger *slog.Logger
}

// ServeHTTP implements http.Handler. A member that stops in the middle of a transfer does not hold
// it up: see [stallLimit].
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = newOutgoing(w)
	name, ofContent := strings.CutPrefix(r.URL.Path, contentPath)
	id, ofImage := strings.CutPrefix(r.URL.Path, imagePath)
	sum, ofBlob := strings.CutPrefix(r.URL.Path, blobPath)
	checked, ofVerified := strings.CutPrefix(r.URL.Path, verifiedPath)
	surplus, ofSurplus := strings.CutPrefix(r.URL.Path, surplusPath)
	switch {
	case r.Method == http.MethodPost && r.URL.Path == leavePath:
		if err := p.Leave(); err != nil {
			p.Refuse(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == snapshotPath && p.Snapshots == nil,
		(ofContent || ofVerified || ofSurplus) && p.Contents == nil:
		p.Refuse(w, r, fault.New(fault.Unavailable, "this member has no database now; it waits for a snapshot of "+
			"another member"))
	case ofContent && r.Method == http.MethodPut:
		p.take(w, r, name, p.Contents.StoreContent)
	case ofBlob && r.Method == http.MethodPut && p.TakeBlob != nil:
		p.take(w, r, sum, p.TakeBlob)
	case ofBlob && r.Method == http.MethodPut:
		p.Refuse(w, r, fault.New(fault.Unavailable, "this member takes no blobs now; it does not follow, or its "+
			"configuration has no registry"))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		p.Refuse(w, r, fault.New(fault.Invalid, "members use the method GET, not %s", r.Method))
	case strings.HasPrefix(r.URL.Path, trailPath):
		p.trail(w, r)
	case r.URL.Path == contactsPath:
		p.contacts(w, r)
	case r.URL.Path == readsPath && p.Reads != nil:
		p.reads(w, r)
	case r.URL.Path == conditionPath:
		p.condition(w, r)
	case r.URL.Path == snapshotPath:
		w.Header().Set("Content-Type", "application/x-tar")
		if err := p.Snapshots.Write(r.Context(), w, true); err != nil {
			p.Logger.WarnContext(r.Context(), "A snapshot for another member failed.",
				"member", sender(r), "error", err)
			panic(http.ErrAbortHandler) // the member must not take it for complete
		}
	case ofContent:
		p.content(w, r, name)
	case ofVerified:
		p.verified(w, r, checked)
	case ofSurplus:
		p.permit(w, r, surplus)
	case ofImage:
		p.file(w, r, p.Image, "live ISO", id)
	case ofBlob:
		p.file(w, r, p.Blob, "blob", sum)
	default:
		p.Refuse(w, r, p.unknown(r))
	}
}

// unknown returns the error for a path that members do not have.
func (p *Peers) unknown(r *http.Request) error {
	return fault.New(fault.NotFound, "members have no path %s; the members may have different versions of Landfall: "+
		"upgrade the older one", r.URL.Path)
}

// Condition is what a member says about itself when another one asks.
type Condition struct {
	Leads   bool      `json:"leads"`   // false for a program that does not say so
	Applied uint64    `json:"applied"` // number of the newest record in its database
	Clock   time.Time `json:"clock"`
	// Missing are the first of the contents that it lacks, by their SHA-256, and MissingCount is
	// the number of those that it has to keep.
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missing_count"`
	// MissingLiveISOs is the number of live ISOs of other members that it lacks.
	MissingLiveISOs int `json:"missing_live_isos"`
	// MissingBlobs is the number of blobs of pushed images that it lacks.
	MissingBlobs int `json:"missing_blobs"`
}

// maxMissing is the number of missing contents that a condition lists. maxCondition is its size in
// bytes.
const (
	maxMissing   = 1000
	maxCondition = 1 << 20
)

func (p *Peers) condition(w http.ResponseWriter, r *http.Request) {
	var missing, kept []string
	if p.Contents != nil {
		var err error
		if missing, err = p.Contents.MissingContents(r.Context()); err == nil {
			kept, err = p.Kept(r.Context(), missing)
		}
		if err != nil {
			p.Refuse(w, r, err)
			return
		}
	}
	answer := p.Condition(missing[:min(len(missing), maxMissing)])
	answer.MissingCount = len(kept)
	writeJSON(w, answer)
}

// writeJSON answers another member. If that fails, the member has gone.
func writeJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// begin sends the header of an answer in JSON.
func begin(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return http.NewResponseController(w).Flush()
}

func (p *Peers) content(w http.ResponseWriter, r *http.Request, sum string) {
	content, _, err := p.Contents.OpenContent(sum)
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.New(fault.NotFound, "this member does not have the content %s", sum)
	}
	if err != nil {
		p.Refuse(w, r, err)
		return
	}
	defer content.Close()
	http.ServeContent(w, r, "", time.Time{}, content)
}

func (p *Peers) file(w http.ResponseWriter, r *http.Request, open func(string) (*os.File, error), what, id string) {
	file, err := open(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.New(fault.NotFound, "this member does not have the %s %s", what, id)
	}
	if err != nil {
		p.Refuse(w, r, err)
		return
	}
	defer file.Close()
	http.ServeContent(w, r, "", time.Time{}, file)
}

// take stores a file that the leader sends.
func (p *Peers) take(w http.ResponseWriter, r *http.Request, sum string, store Take) {
	content := newTaken(w, r)
	err := store(r.Context(), sum, content)
	content.end()
	if errors.Is(err, blob.ErrOther) {
		err = fault.Wrap(fault.Invalid, err)
	}
	if err != nil {
		p.Refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Client asks other members.
type Client struct {
	http  *http.Client
	clock clockwork.Clock
}

// NewClient returns a client with the credential of a member.
func NewClient(credential *Credential, clock clockwork.Clock) *Client {
	return &Client{&http.Client{Transport: &http.Transport{TLSClientConfig: credential.Client(),
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: handshakeTime,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute}}, clock}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Snapshot returns a snapshot of a member. The caller closes it.
func (c *Client) Snapshot(ctx context.Context, of Peer) (io.ReadCloser, error) {
	return c.ask(ctx, asked{method: http.MethodGet, of: of, at: snapshotPath})
}

// Leave makes another member leave the fleet. The error is a fault.Conflict with its reason if it
// stays.
func (c *Client) Leave(ctx context.Context, member Peer) error {
	return c.do(ctx, asked{method: http.MethodPost, of: member, at: leavePath, explains: true})
}

// Content returns a content that a member has, by its SHA-256. The caller closes it.
func (c *Client) Content(ctx context.Context, of Peer, sum string) (io.ReadCloser, error) {
	return c.ask(ctx, asked{method: http.MethodGet, of: of, at: contentPath + sum})
}

// Condition asks a member for its condition.
func (c *Client) Condition(ctx context.Context, of Peer) (condition Condition, err error) {
	body, err := c.ask(ctx, asked{method: http.MethodGet, of: of, at: conditionPath})
	if err != nil {
		return Condition{}, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxCondition)).Decode(&condition); err != nil {
		return Condition{}, fmt.Errorf("read the condition of the member %s: %w", of.Name, err)
	}
	return condition, nil
}

// SendContent makes a member store a content.
func (c *Client) SendContent(ctx context.Context, to Peer, sum string, content io.Reader, size int64) error {
	return c.do(ctx, asked{method: http.MethodPut, of: to, at: contentPath + sum, body: io.NopCloser(content),
		size: size})
}

// Image returns a live ISO of a member, from an offset on. The caller closes it.
func (c *Client) Image(ctx context.Context, of Peer, id string, offset int64) (io.ReadCloser, error) {
	return c.ask(ctx, asked{method: http.MethodGet, of: of, at: imagePath + id, from: offset})
}

// Blob returns a blob of pushed images of a member, from an offset on. The caller closes it.
func (c *Client) Blob(ctx context.Context, of Peer, sum string, offset int64) (io.ReadCloser, error) {
	return c.ask(ctx, asked{method: http.MethodGet, of: of, at: blobPath + sum, from: offset})
}

// HasBlob returns nil if a member has a blob of pushed images, and fs.ErrNotExist if it does not.
func (c *Client) HasBlob(ctx context.Context, member Peer, sum string) error {
	return c.do(ctx, asked{method: http.MethodHead, of: member, at: blobPath + sum})
}

// SendBlob makes a member store a blob of pushed images.
func (c *Client) SendBlob(ctx context.Context, to Peer, sum string, content io.Reader, size int64) error {
	return c.do(ctx, asked{method: http.MethodPut, of: to, at: blobPath + sum, body: io.NopCloser(content),
		size: size})
}

// asked describes a request for a member.
type asked struct {
	method string
	of     Peer
	at     string
	body   io.Reader
	size   int64 // of the body; 0: none, or unknown
	from   int64 // offset in the answer
	pauses bool  // the member may work for long before it sends the next byte
	named  bool  // another member may not answer in place of that one

	explains bool // a refusal has a reason for a person
}

// do sends a request whose answer has no content.
func (c *Client) do(ctx context.Context, a asked) error {
	body, err := c.ask(ctx, a)
	if err != nil {
		return err
	}
	return body.Close()
}

// ask returns the content of an answer. The caller closes it. Unless the member may pause, reading
// fails with a *stall.Error if it does.
func (c *Client) ask(ctx context.Context, a asked) (io.ReadCloser, error) {
	if a.pauses {
		return c.send(ctx, a)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	content, err := c.send(ctx, a)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	stalled := &stall.Error{From: "the member " + a.of.Name, Limit: stallLimit}
	return stall.NewBody(ctx, cancel, content, stalled, c.clock), nil
}

func (c *Client) send(ctx context.Context, a asked) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, a.method, "https://"+a.of.host()+a.at, a.body)
	if err != nil {
		return nil, err
	}
	if a.size > 0 {
		request.ContentLength = a.size
	}
	if a.from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", a.from))
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the member %s: %w", a.of.Name, err)
	}
	switch by := answer.TLS.PeerCertificates[0].Subject.CommonName; {
	case a.named && by != a.of.Name:
		err = fmt.Errorf("the member %s answered at its URL %s; give each member a URL of its own", by, a.of.URL)
	case answer.StatusCode == http.StatusNotFound:
		err = fs.ErrNotExist
	case answer.StatusCode/100 == 2 && (a.from > 0) == (answer.StatusCode == http.StatusPartialContent):
		return answer.Body, nil
	case a.explains:
		err = refusal(a.of, answer)
	default:
		err = errors.New(answer.Status)
	}
	path, _, _ := strings.Cut(a.at, "?")
	return nil, errors.Join(fmt.Errorf("ask the member %s for %s: %w", a.of.Name, path, err), answer.Body.Close())
}

// refusal returns the error for a person whose request a member has refused.
func refusal(of Peer, answer *http.Response) error {
	var body struct {
		Reason string `json:"reason"`
	}
	err := json.NewDecoder(io.LimitReader(answer.Body, maxCondition)).Decode(&body)
	if err != nil || body.Reason == "" {
		body.Reason = answer.Status
	}
	kind := fault.Unavailable
	if answer.StatusCode == http.StatusConflict {
		kind = fault.Conflict
	}
	return &fault.Error{Kind: kind, Err: err, Reason: fmt.Sprintf("the member %s answers: %s", of.Name, body.Reason)}
}
