// Package follower answers reads on a follower of a fleet from its own copy of the database:
// images, boot files, the page, the live feed, the reads of the registry, and the operations that
// only read rows. It forwards all other requests to the leader.
//
// An operation says in its entry whether a follower may answer it (operation.FromCopy). A request
// for it still goes to the leader
//
//   - if it is from an agent, whose contacts only the leader records,
//   - if it is the first use of a session or a token for some time (uses.go),
//   - if the copy lacks a change that the client may know of, or may lack one (revision.go),
//   - if the answer depends on the media of the leader, or on settings that are damaged here
//     (settings.go),
//   - if it fails here: a refusal counts only if the leader refuses, too.
//
// Without a leader, the copy answers, also with refusals. Some operations are answered here only
// then (operation.WithoutLeader): the audit trails that this member reaches. The metrics are those
// of this member, and never come from the leader (metrics.go).
//
// Design: docs/design.md#reads-on-a-follower.
package follower

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/access/certificate"
	"landfall/appliance/access/machine"
	"landfall/appliance/audittrail"
	"landfall/appliance/config"
	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/mirror/site"
	"landfall/appliance/monitoring"
	"landfall/appliance/osimage"
	"landfall/appliance/registry"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/settings"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/image/progress"
	webregistry "landfall/web/registry"
)

// Leader is the way to the leader. *fleet.Forwarder implements it.
type Leader interface {
	// Led reports whether a member leads.
	Led() bool
	// Admits asks the leader whether it would answer a request that only reads, which is a use of
	// the client's credentials.
	Admits(request *http.Request) bool
	// Seen returns the newest revision in an answer of a leader that passed here. known is false
	// until the present leader has answered, and while the copy gets no changes because this member
	// does not reach etcd.
	Seen() (revision uint64, known bool)
}

// Options configures a [Reader].
type Options struct {
	Config config.Config
	DB     *store.DB
	Key    *sitekey.Key
	Names  []string // host names and URLs of this member
	Port   string   // of the boot listener; "" for none
	Leader Leader
	// Contacts asks the leader for the times of the last contacts of hosts after a time, by the
	// keys of the hosts. from is its name.
	Contacts func(ctx context.Context, after time.Time) (from string, contacts map[string]time.Time, err error)
	Fleet    membership.Service // says also without a leader what the members are
	Trail    audittrail.Reader  // the audit trail of this member
	// LiveISOs is what the libraries of the members share; nil if none are copied.
	// MissingLiveISOs is called with the number of those that are not here yet.
	LiveISOs        *osimage.Shared
	MissingLiveISOs func(int)
	// PushedImages is what the registries of the members share. It is not used without a registry.
	PushedImages *overlay.Shared
	// Observed are the metrics of this member that need no copy of the database.
	Observed monitoring.Parts
	Version  string
	Clock    clockwork.Clock
	Logger   *slog.Logger
	// Refuse answers a request with an error.
	Refuse fleet.Refuse
}

// Reader answers reads from a copy of the database.
type Reader struct {
	Options
	secrets      *sitekey.Box
	issuer       *machine.Issuer   // nil if the appliance does not authenticate machines
	verifier     *machine.Verifier // the same
	certificates *certificate.Verifier
	images       *osimage.Library
	reads        *progress.Recorder // of images
	registry     *registry.Registry // nil if the configuration has none
	watching     sync.WaitGroup     // the look at the media
	credentials  credentials
	settings     *settings.Site
	rules        *site.Rules // nil if they can't be read here
	logins       *webregistry.Logins
	metrics      *Metrics
	uses         *uses
	contacts     contacts
	revision     *revision
	present      atomic.Pointer[part] // nil while all requests go to the leader
	ended        <-chan struct{}      // closed when this member no longer follows
}

// Open opens a reader. Until ctx ends, call [Reader.Run].
func Open(ctx context.Context, options Options) (_ *Reader, err error) {
	r := &Reader{Options: options, uses: newUses(options.Clock), revision: newRevision(), ended: ctx.Done(),
		reads: progress.NewRecorder(options.Clock)}
	if r.secrets, err = options.Key.Box(engine.SecretsPurpose, nil); err != nil {
		return nil, err
	}
	if !r.open() {
		if r.issuer, err = machine.NewIssuer(options.Key, r.secrets); err != nil {
			return nil, err
		}
		r.verifier = machine.NewVerifier(r.issuer, r.keysOf, options.Clock)
	}
	if r.certificates, err = certificate.New(options.Config.TLS.ClientCertificates(options.Clock,
		options.Logger)); err != nil {
		return nil, err
	}
	if r.images, err = osimage.New(osimage.Options{Dir: filepath.Join(options.Config.DataDir, "os-images"),
		Images: options.Config.LiveISOs(), Secrets: r.secrets, Shared: options.LiveISOs, Clock: options.Clock,
		Logger: options.Logger}); err != nil {
		return nil, err
	}
	if options.Config.Registry.Listen != "" {
		if r.registry, err = registry.Open(ctx, options.Config.RegistryOptions(options.DB, options.PushedImages,
			options.Clock, options.Logger)); err != nil {
			return nil, errors.Join(err, r.images.Close())
		}
		if r.logins, err = r.newLogins(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	r.openSettings()
	if r.metrics, err = r.newMetrics(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.loadAll()
	return r, nil
}

// open reports whether clients need not authenticate.
func (r *Reader) open() bool { return r.Config.Auth == config.AuthNone }

func (r *Reader) keysOf(infraEnvID string) (machine.Keys, error) {
	row, err := record.ReadInfraEnv(r.DB, infraEnvID)
	if err != nil {
		return machine.Keys{}, err
	}
	return row.AgentKeys, nil
}

// Close closes the live ISOs and the media of the registry. All requests must have ended.
func (r *Reader) Close() error {
	r.watching.Wait()
	err := r.images.Close()
	if r.registry != nil {
		err = errors.Join(err, r.registry.Close())
	}
	return err
}

// Run follows the changes of the copy, and copies live ISOs and pushed images, until the context
// ends.
func (r *Reader) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return r.follow(running) })
	if r.LiveISOs != nil {
		group.Go(func() error {
			(&osimage.Mirror{Library: r.images, Missing: r.MissingLiveISOs}).Run(running)
			return nil
		})
	}
	if r.registry != nil {
		group.Go(func() error { return r.registry.Overlay.Run(running) })
		r.watching.Go(func() {
			// It may wait for a medium that hangs, for which a takeover does not wait.
			if err := r.registry.Run(running); err != nil {
				r.Logger.Error("The media of the registry are not followed.", "error", err)
			}
		})
	}
	return group.Wait()
}

func (r *Reader) follow(ctx context.Context) error {
	for from := r.revision.get(); ctx.Err() == nil; {
		watcher := r.DB.Watch(ctx, from)
		for changes := range watcher.C() {
			r.apply(changes)
			from = changes[len(changes)-1].Revision
			r.revision.set(from)
		}
		err := watcher.Err()
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return nil
		}
		if !errors.Is(err, store.ErrCompacted) {
			return fmt.Errorf("follow the copy of the database: %w", err)
		}
		from = r.loadAll()
	}
	return nil
}

// loadAll reads everything that memory holds. It returns a revision that this contains.
func (r *Reader) loadAll() uint64 {
	from := r.DB.Revision()
	err := r.credentials.load(r)
	if err == nil {
		err = r.loadSettings()
	}
	if err == nil {
		err = r.replace()
	}
	r.note(err)
	r.revision.set(from)
	return from
}

// note notes the outcome of a load. After a failure, all requests go to the leader.
func (r *Reader) note(err error) {
	if err == nil {
		return
	}
	r.present.Store(nil)
	r.Logger.Error("This member can't answer reads from its copy of the database, and forwards them to the leader.",
		"error", err)
}

// apply drops and reads again what changes have made outdated in memory.
func (r *Reader) apply(changes []store.Change) {
	p := r.present.Load()
	credentials, ofSite, leader, events := false, false, false, false
	for _, change := range changes {
		bucket, key, _ := strings.Cut(strings.TrimPrefix(change.Key, "/"), "/")
		switch {
		case isCredential(change.Key):
			credentials = true
		case isSetting(change.Key):
			ofSite = true
		case change.Key == fleet.LeaderKey():
			leader = true
		case p == nil || !change.Deleted && bucket != "infra-envs":
		case bucket == "infra-envs":
			r.dropInfraEnv(p, key, change.Deleted)
		case bucket == "hosts":
			p.engine.ForgetHost(key)
		case bucket == "events":
			events = true
		}
	}
	if events {
		p.engine.ForgetEvents()
	}
	all := p == nil && (credentials || ofSite || leader) // a load may have failed
	var err error
	if credentials || all {
		err = r.credentials.load(r)
	}
	if err == nil && (ofSite || all) {
		err = r.loadSettings()
	}
	if err == nil && (leader || all) {
		err = r.replace()
	}
	r.note(err)
}

func (r *Reader) dropInfraEnv(p *part, id string, deleted bool) {
	if r.verifier != nil {
		r.verifier.Drop(id)
	}
	if deleted {
		p.downloads.DropInfraEnv(id)
	} else {
		p.downloads.DropCodes(id)
	}
}

// replace makes the part for the networks of the present leader, if they have changed.
func (r *Reader) replace() error {
	networks, err := fleet.Networks(r.DB)
	if err != nil {
		return fmt.Errorf("read the URLs of the leader: %w", err)
	}
	if p := r.present.Load(); p != nil && p.isFor(networks) {
		return nil
	}
	if len(networks) == 0 { // an older program leads
		r.present.Store(nil)
		return nil
	}
	made, err := r.newPart(networks)
	if err == nil {
		r.present.Store(made)
	}
	return err
}

// ImageReads reports which machines read images of this member, by the infra-envs.
func (r *Reader) ImageReads() (map[string][]progress.Report, error) {
	p := r.present.Load()
	if p == nil {
		return nil, nil
	}
	return p.downloads.OwnReads()
}

// Handler returns the handler of a listener. forward handles the requests that go to the leader.
func (r *Reader) Handler(at fleet.Listener, forward http.Handler) http.Handler {
	forward = fleet.Inform(r.DB, forward)
	return r.metrics.Handler(at, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		p := r.present.Load()
		switch {
		case p == nil || p.server(at) == nil || !r.isHere(p.server(at), request):
			forward.ServeHTTP(w, request)
		case r.isFresh(request):
			if p = r.present.Load(); p == nil { // a change for which it waited could not be loaded
				forward.ServeHTTP(w, request)
				return
			}
			p.server(at).ServeHTTP(w, request.WithContext(withForward(request.Context(), forward)))
		case r.Leader.Led():
			forward.ServeHTTP(w, request)
		default:
			w.Header().Set("Retry-After", retryAfter)
			r.Refuse(w, request, errOutdated)
		}
	}))
}
