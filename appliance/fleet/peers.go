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
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/store/blob"
)

// Paths of the requests of members for a member itself.
const (
	snapshotPath  = peerPath + "snapshot"
	contentPath   = peerPath + "content/"
	leavePath     = peerPath + "leave"
	conditionPath = peerPath + "condition"
)

// Snapshots writes snapshots: backups with the keys.
type Snapshots interface {
	Write(ctx context.Context, to io.Writer, withKey bool) error
}

// Peers handles the requests of other members for this member itself: it gives them snapshots and
// contents.
type Peers struct {
	Snapshots Snapshots // nil while this member has no database
	Contents  Contents  // the same
	// Condition returns the condition of this member. missing are the contents that it lacks.
	Condition func(missing []string) Condition
	// Kept returns those of some contents that this member has to keep.
	Kept func(ctx context.Context, sums []string) ([]string, error)
	// Leave makes this member leave the fleet.
	Leave  func() error
	Refuse Refuse
	Logger *slog.Logger
}

// ServeHTTP implements http.Handler.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ofContent := strings.CutPrefix(r.URL.Path, contentPath)
	switch {
	case r.Method == http.MethodPost && r.URL.Path == leavePath:
		if err := p.Leave(); err != nil {
			p.Refuse(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == snapshotPath && p.Snapshots == nil, ofContent && p.Contents == nil:
		p.Refuse(w, r, fault.New(fault.Unavailable, "this member has no database now; it waits for a snapshot of "+
			"another member"))
	case ofContent && r.Method == http.MethodPut:
		p.take(w, r, name)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		p.Refuse(w, r, fault.New(fault.Invalid, "members use the method GET, not %s", r.Method))
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
	default:
		p.Refuse(w, r, fault.New(fault.NotFound, "members have no path %s; the members may have different versions of "+
			"Landfall: upgrade the older one", r.URL.Path))
	}
}

// Condition is what a member says about itself when another one asks.
type Condition struct {
	Applied uint64    `json:"applied"` // number of the newest record in its database
	Clock   time.Time `json:"clock"`
	// Missing are the first of the contents that it lacks, by their SHA-256, and MissingCount is
	// the number of those that it has to keep.
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missing_count"`
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
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the member has gone if it fails
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

// take stores a content that the leader sends.
func (p *Peers) take(w http.ResponseWriter, r *http.Request, sum string) {
	err := p.Contents.StoreContent(r.Context(), sum, r.Body)
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
type Client struct{ http *http.Client }

// NewClient returns a client with the credential of a member.
func NewClient(credential *Credential) *Client {
	return &Client{&http.Client{Transport: &http.Transport{TLSClientConfig: credential.Client(),
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: handshakeTime,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Snapshot returns a snapshot of a member. The caller closes it.
func (c *Client) Snapshot(ctx context.Context, of Peer) (io.ReadCloser, error) {
	return c.ask(ctx, http.MethodGet, of, snapshotPath, http.NoBody, 0)
}

// Leave makes another member leave the fleet.
func (c *Client) Leave(ctx context.Context, member Peer) error {
	body, err := c.ask(ctx, http.MethodPost, member, leavePath, http.NoBody, 0)
	if err != nil {
		return err
	}
	return body.Close()
}

// Content returns a content that a member has, by its SHA-256. The caller closes it.
func (c *Client) Content(ctx context.Context, of Peer, sum string) (io.ReadCloser, error) {
	return c.ask(ctx, http.MethodGet, of, contentPath+sum, http.NoBody, 0)
}

// Condition asks a member for its condition.
func (c *Client) Condition(ctx context.Context, of Peer) (condition Condition, err error) {
	body, err := c.ask(ctx, http.MethodGet, of, conditionPath, http.NoBody, 0)
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
	body, err := c.ask(ctx, http.MethodPut, to, contentPath+sum, io.NopCloser(content), size)
	if err != nil {
		return err
	}
	return body.Close()
}

func (c *Client) ask(ctx context.Context, method string, of Peer, at string, body io.Reader, size int64) (
	io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+of.host()+at, body)
	if err != nil {
		return nil, err
	}
	if size > 0 {
		request.ContentLength = size
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the member %s: %w", of.Name, err)
	}
	if answer.StatusCode/100 != 2 {
		return nil, errors.Join(fmt.Errorf("ask the member %s for %s: it answers %s", of.Name, at, answer.Status),
			answer.Body.Close())
	}
	return answer.Body, nil
}
