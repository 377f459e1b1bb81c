// Package handover hands the images of the appliance's registry over to a registry of the site,
// so that the appliance can leave.
//
//	handover.go  what people ask for and see: start, the person's word, cancellation, status
//	record.go    the row in the store, with sealed secrets
//	run.go       the states of a hand-over, one after the other
//	list.go      what is copied
//	target.go    the connection to the site's registry, and its errors as sentences
//	upload.go    uploads that continue where they broke off
//	trial.go     finds what the registry refuses, before the first gigabyte
//	copy.go      the copy, blob by blob
//	clusters.go  mirror sets, CAs and pull secrets of installed clusters
//	pools.go     the progress of MachineConfigPools
//
// A hand-over moves the name of the appliance's registry, or adds the site's registry to the
// clusters as a second mirror and later removes the first. Rules change only after the prover has
// found every image in the new registry.
//
// Design: docs/registry.md#hand-over.
package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/mirror"
	"landfall/appliance/registry"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// SecretsPurpose is the purpose with which the site's key encrypts the credentials.
const SecretsPurpose sitekey.Purpose = "registry hand-over"

// Way is how clusters come to use the site's registry.
type Way string

// Ways of a hand-over.
const (
	// MoveName moves the DNS name of the appliance's registry. Nothing changes in the clusters.
	MoveName Way = "move-name"
	// AddMirror adds the site's registry to the mirror sets of the clusters, and later removes the
	// appliance's.
	AddMirror Way = "add-mirror"
)

// State is the state of a hand-over.
type State string

// States of a hand-over, in their order.
const (
	Trying   State = "trying"   // a trial upload finds what the registry refuses
	Copying  State = "copying"  // images are copied
	Proving  State = "proving"  // the prover looks for every image in the new registry
	Naming   State = "naming"   // waits until the DNS name leads to the new registry (MoveName)
	Adding   State = "adding"   // clusters get the new registry as the second mirror (AddMirror)
	Asking   State = "asking"   // waits for a person's word to remove the first mirror (AddMirror)
	Removing State = "removing" // clusters lose the first mirror (AddMirror)
	Done     State = "done"     // no cluster depends on the appliance's registry
	Refused  State = "refused"  // it can't go on; a person starts it again
	Stopped  State = "stopped"  // a person has cancelled it
)

// ends reports whether nothing follows a state.
func (s State) ends() bool { return s == Done || s == Refused || s == Stopped }

// Request is what a person asks for.
type Request struct {
	Way Way `json:"way"`
	// To is the site's registry: host or host:port, with AddMirror also with a path below which
	// all repositories lie. With MoveName it is where the name will lead.
	To string `json:"to"`
	CA string `json:"ca,omitempty"` // PEM; verifies the registry's certificate
	// PullSecret has an entry for the registry that may push.
	PullSecret string `json:"pull_secret,omitempty"`
	// NodeSecret has an entry for the registry that nodes get, if they need one to pull.
	NodeSecret string `json:"node_secret,omitempty"`
	// Needed copies only the releases with which dependent clusters were installed.
	Needed bool `json:"needed,omitempty"`
	Plan   bool `json:"plan,omitempty"` // only returns what would be copied
}

// Status describes the hand-over.
type Status struct {
	Way     Way       `json:"way"`
	Name    string    `json:"name"` // host:port of the appliance's registry
	To      string    `json:"to"`
	Needed  bool      `json:"needed"`
	State   State     `json:"state"`
	Message string    `json:"message"` // what it does, waits for, or can't do; a sentence
	By      string    `json:"by"`
	Started time.Time `json:"started"`
	Changed time.Time `json:"changed"` // since when it is in its state
	// Images and Bytes are all to copy, the others those that the registry has.
	Images     int   `json:"images"`
	ImagesDone int   `json:"images_done"`
	Bytes      int64 `json:"bytes"`
	BytesDone  int64 `json:"bytes_done"`
	// SentBytes are those that were uploaded by this start of the appliance.
	SentBytes int64  `json:"sent_bytes"`
	Current   string `json:"current,omitempty"` // the image that is being copied
	// Chunk is the largest part of a blob in a request; 0 is a whole blob.
	Chunk int64 `json:"chunk_bytes"`
	// Incomplete are images that are not copied, because parts of them are on no medium.
	Incomplete []string  `json:"incomplete"`
	Record     *Record   `json:"dns_record,omitempty"` // to set, with MoveName
	Proofs     []Proof   `json:"proofs"`
	Clusters   []Cluster `json:"clusters"`
	Notes      []string  `json:"notes"`
}

// Record is the DNS record that moves the name.
type Record struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
	Present   []string `json:"present_addresses"` // to which the name leads now
	Text      string   `json:"text"`              // lines of a zone file
}

// Proof is the result of the prover for a cluster in the new registry.
type Proof struct {
	ClusterID string    `json:"cluster_id,omitempty"`
	Name      string    `json:"name"`
	Complete  bool      `json:"complete"`
	Images    int       `json:"images"`
	Summary   string    `json:"summary"`
	At        time.Time `json:"at"`
}

// Cluster is an installed cluster with AddMirror.
type Cluster struct {
	ID      string       `json:"id"`
	Name    string       `json:"name"`
	State   ClusterState `json:"state"`
	Message string       `json:"message,omitempty"`
	Pools   []Pool       `json:"pools"`
	// Before are the configurations of the pools before the change that they roll out.
	Before map[string]string `json:"before,omitempty"`
	Since  time.Time         `json:"since"` // of the state
}

// ClusterState is the state of a cluster with AddMirror.
type ClusterState string

// States of a cluster, in their order.
const (
	Waiting     ClusterState = "waiting"       // nothing was changed yet
	RollingIn   ClusterState = "rolling-in"    // its nodes get the second mirror
	Both        ClusterState = "both"          // it has both mirrors
	ToRemove    ClusterState = "to-remove"     // a person has given the word
	RollingOut  ClusterState = "rolling-out"   // its nodes lose the first mirror
	Independent ClusterState = "independent"   // it does not depend on the appliance
	Absent      ClusterState = "not-dependent" // it was deleted, or its rules changed
)

// Pool is the progress of a MachineConfigPool.
type Pool struct {
	Name     string `json:"name"`
	Machines int    `json:"machines"`
	Updated  int    `json:"updated"`
	Paused   bool   `json:"paused,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`
}

// Source is the appliance's registry. *webregistry.Server implements it.
type Source interface {
	Host() string
	Images() ([]registry.Image, error)
	Find(repository, reference string) (*registry.Manifest, error)
	Blob(digest string) (*registry.Blob, error)
	Releases() []registry.Release
	// HandOver makes the registry at a place that of the mirror rules. nil makes the appliance's
	// own that again.
	HandOver(to *registry.Place)
}

// Options configures [New].
type Options struct {
	DB      *store.DB
	Source  Source
	Secrets *sitekey.Box
	// Roots verify the certificate of the appliance's registry (PEM).
	Roots []byte
	// Dependents returns the clusters that depend on the appliance's registry now.
	Dependents func() ([]registry.Dependent, error)
	// Installs returns what the installation of a cluster pulls.
	Installs func(clusterID string) (engine.InstallSource, error)
	// Rules returns the mirror rules of a cluster.
	Rules func(mirror.Level) *mirror.Rules
	// Prove proves the images of an installation through a client.
	Prove func(ctx context.Context, source engine.InstallSource, client *mirror.Client) (engine.MirrorProof, error)
	// Connect opens the API of an installed cluster.
	Connect func(clusterID string) (*spoke.Client, error)
	// Client configures the connections to registries, except for DialContext and Local.
	Client mirror.ClientOptions
	// Lookup resolves names; nil is the resolver of this machine.
	Lookup func(ctx context.Context, host string) ([]string, error)
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Service carries out hand-overs, one at a time. nil belongs to an appliance without a registry.
type Service struct {
	Options
	wake chan struct{}

	changing sync.Mutex // serializes changes of the row

	mu       sync.Mutex
	progress Status // counts of the copy that runs
	cancel   context.CancelFunc
}

// New returns a service. Its Run carries out what is stored.
func New(options Options) *Service {
	if options.Lookup == nil {
		options.Lookup = net.DefaultResolver.LookupHost
	}
	return &Service{Options: options, wake: make(chan struct{}, 1)}
}

// errNone is returned without a hand-over.
var errNone = fault.New(fault.NotFound, "There is no hand-over. Start one with landfall registry hand-over.")

// Status returns the state of the hand-over.
func (s *Service) Status() (*Status, error) {
	row, err := s.read()
	if err != nil {
		return nil, err
	}
	status := row.Status
	s.mu.Lock()
	defer s.mu.Unlock()
	if status.State == Copying || status.State == Trying {
		status.ImagesDone, status.BytesDone, status.SentBytes, status.Current = s.progress.ImagesDone,
			s.progress.BytesDone, s.progress.SentBytes, s.progress.Current
	}
	return &status, nil
}

// Note notes in the status of the registry whether there is a hand-over.
func (s *Service) Note(status *registry.Status) error {
	_, err := s.read()
	status.HandOver = err == nil
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

// Start starts a hand-over, or continues one that was refused or stopped. With Plan it only returns
// what would be copied.
func (s *Service) Start(ctx context.Context, wanted Request) (*Status, error) {
	status, err := s.check(ctx, &wanted)
	if err != nil || wanted.Plan {
		return status, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	before, err := s.read()
	switch {
	case err != nil && !errors.Is(err, errNone):
		return nil, err
	case err == nil && !before.State.ends():
		return nil, fault.New(fault.Conflict, "A hand-over to %s is under way (%s). landfall registry hand-over "+
			"--status shows it; --cancel stops it.", before.To, before.State)
	case err == nil && before.State == Done:
		return nil, fault.New(fault.Conflict, "The registry was handed over to %s. landfall registry hand-over "+
			"--cancel takes it back for new clusters.", before.To)
	case err == nil && before.Way == wanted.Way && before.To == wanted.To:
		status.Clusters = before.Clusters // what was done in the clusters stays known
	case err == nil && before.Way == AddMirror && wanted.Way == AddMirror:
		status.Clusters = append(status.Clusters, slices.DeleteFunc(before.Clusters, func(c Cluster) bool {
			return c.State != Independent
		})...)
	}
	row := &row{Status: *status, CA: wanted.CA}
	if row.PullSecret, err = s.Secrets.Seal(wanted.PullSecret); err != nil {
		return nil, err
	}
	if row.NodeSecret, err = s.Secrets.Seal(wanted.NodeSecret); err != nil {
		return nil, err
	}
	row.State, row.Message = Trying, "The hand-over begins."
	if err := s.write(ctx, row); err != nil {
		return nil, err
	}
	s.Logger.Info("A hand-over of the registry was started.", "to", row.To, "way", row.Way, "by", row.By)
	s.soon()
	return s.Status()
}

// check checks a request, and completes it.
func (s *Service) check(ctx context.Context, wanted *Request) (*Status, error) {
	invalid := func(format string, args ...any) (*Status, error) {
		return nil, fault.New(fault.Invalid, format, args...)
	}
	if wanted.Way != MoveName && wanted.Way != AddMirror {
		return invalid("Select how the clusters come to use the site's registry: %s or %s.", MoveName, AddMirror)
	}
	wanted.To = strings.Trim(wanted.To, "/")
	at, err := parsePlace(wanted.To)
	if err != nil {
		return invalid("%q is not a registry: %v. Use host or host:port.", wanted.To, err)
	}
	name := s.Source.Host()
	host, port := splitHost(name)
	_, literal := netip.ParseAddr(host)
	switch {
	case at.host == name:
		return invalid("%s is the appliance's own registry. Name the site's.", name)
	case wanted.Way == MoveName && at.prefix != "":
		return invalid("The name %s can move only to a registry with the same repository paths, so %s can't have a "+
			"path. Use %s for a registry with a path.", name, wanted.To, AddMirror)
	case wanted.Way == MoveName && literal == nil:
		return invalid("The clusters use the registry by the address %s, and an address is no name that can move. Use "+
			"%s.", host, AddMirror)
	case wanted.Way == MoveName && at.port() != port:
		return invalid("The clusters use the registry at port %s, so the site's registry must listen at this port "+
			"too, and not at %s. Let it listen there, or use %s.", port, at.port(), AddMirror)
	}
	if wanted.CA != "" {
		if _, err := mirror.Parse(mirror.Sources{CABundle: []mirror.Document{{Name: "the CA",
			Data: []byte(wanted.CA)}}}); err != nil {
			return invalid("%v.", err)
		}
	}
	for _, secret := range []struct{ what, text string }{{"pull secret", wanted.PullSecret},
		{"pull secret of the nodes", wanted.NodeSecret}} {
		if secret.text == "" {
			continue
		}
		parsed, err := mirror.ParsePullSecret(secret.text)
		switch {
		case err != nil:
			return invalid("The %s can't be used: %v.", secret.what, err)
		case !parsed.Has(at.host):
			return invalid("The %s has no entry for %s.", secret.what, at.host)
		}
	}
	dependents, err := s.Dependents()
	if err != nil {
		return nil, err
	}
	list, err := s.list(wanted.Needed, dependents)
	if err != nil {
		return nil, err
	}
	if len(list.images) == 0 {
		return nil, fault.New(fault.Conflict, "The appliance's registry has no images that could be handed over. Plug "+
			"the media in.")
	}
	now := s.Clock.Now().UTC()
	status := &Status{Way: wanted.Way, Name: name, To: wanted.To, Needed: wanted.Needed,
		By: access.From(ctx).String(), Started: now, Changed: now, Images: len(list.images), Bytes: list.bytes,
		Incomplete: list.incomplete, Proofs: []Proof{}, Clusters: []Cluster{}, Notes: []string{}}
	for _, d := range dependents {
		status.Clusters = append(status.Clusters, Cluster{ID: d.ID, Name: registry.NamesOf([]registry.Dependent{d})[0],
			State: Waiting, Pools: []Pool{}, Since: now})
	}
	return status, nil
}

// Confirm is a person's word to remove the appliance's registry from clusters that have both
// mirrors: those with the IDs, or all of them.
func (s *Service) Confirm(ctx context.Context, clusters []string) (*Status, error) {
	err := s.change(ctx, func(row *row) error {
		if row.Way != AddMirror || row.State != Adding && row.State != Asking && row.State != Removing {
			return fault.New(fault.Conflict, "There is nothing to remove: the hand-over is %s.", row.State)
		}
		for _, name := range clusters {
			if !slices.ContainsFunc(row.Clusters, func(c Cluster) bool { return c.ID == name || c.Name == name }) {
				return fault.New(fault.NotFound, "The hand-over has no cluster %q. Give the ID or the full name.", name)
			}
		}
		given := 0
		for i := range row.Clusters {
			cluster := &row.Clusters[i]
			named := slices.Contains(clusters, cluster.ID) || slices.Contains(clusters, cluster.Name)
			switch {
			case len(clusters) > 0 && !named:
			case cluster.State == Both:
				cluster.State, cluster.Since = ToRemove, s.Clock.Now().UTC()
				given++
			case named:
				return fault.New(fault.Conflict, "%s does not have both mirrors; it is %s.", cluster.Name,
					cluster.State)
			}
		}
		if given == 0 {
			return fault.New(fault.Conflict, "No cluster has both mirrors yet. landfall registry hand-over --status "+
				"shows what is missing.")
		}
		row.State, row.Changed = Removing, s.Clock.Now().UTC()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.soon()
	return s.Status()
}

// Cancel stops the hand-over. What was copied stays in the site's registry, and what was added to
// clusters stays there. After a complete hand-over, it makes the appliance's registry that of new
// clusters again.
func (s *Service) Cancel(ctx context.Context) (*Status, error) {
	err := s.change(ctx, func(row *row) error {
		switch row.State {
		case Stopped:
			return fault.New(fault.Conflict, "The hand-over was cancelled already.")
		case Done:
			row.Message = "New clusters use the appliance's registry again. The clusters that were handed over keep " +
				"the site's."
			if row.Way == MoveName {
				row.Message = "The appliance uses its own registry again. The name must lead to the appliance again."
			}
		default:
			row.Message = "Cancelled while it was " + string(row.State) + ". What was copied stays in " + row.To +
				", and a new hand-over there continues."
		}
		for i := range row.Clusters {
			if row.Clusters[i].State == ToRemove { // a new hand-over asks again
				row.Clusters[i].State = Both
			}
		}
		row.State, row.Changed = Stopped, s.Clock.Now().UTC()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Source.HandOver(nil)
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.soon()
	return s.Status()
}

// Independent reports whether a cluster was handed over, so that it does not depend on the
// appliance's registry.
func (s *Service) Independent(clusterID string) (bool, error) {
	if s == nil {
		return false, nil
	}
	row, err := s.read()
	if errors.Is(err, errNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if row.Way == MoveName {
		return row.State == Done, nil
	}
	return slices.ContainsFunc(row.Clusters, func(c Cluster) bool {
		return c.ID == clusterID && c.State == Independent
	}), nil
}

// Complete adds the credentials of nodes for the site's registry to a pull secret, if the registry
// was handed over. A nil service adds none.
func (s *Service) Complete(secret string) (string, error) {
	if s == nil {
		return secret, nil
	}
	row, err := s.read()
	if errors.Is(err, errNone) {
		return secret, nil
	}
	if err != nil || row.State != Done {
		return secret, err
	}
	return s.withNodes(row, secret)
}

// withNodes adds the credentials of nodes for the site's registry to a pull secret.
func (s *Service) withNodes(row *row, secret string) (string, error) {
	given, err := s.Secrets.Open(row.NodeSecret)
	if err != nil || given == "" {
		return secret, err
	}
	at, err := parsePlace(row.To)
	if err != nil {
		return "", err
	}
	parsed, err := mirror.ParsePullSecret(given)
	if err != nil {
		return "", err
	}
	config, err := credentialsOf(parsed, at)
	if err != nil {
		return "", err
	}
	return mirror.AddCredentials(secret, at.host, config.Username, config.Password)
}

// credentialsOf returns the name and the password for a registry in a pull secret.
func credentialsOf(secret *mirror.PullSecret, at place) (authn.AuthConfig, error) {
	found, err := secret.Resolve(at.parsed)
	if err != nil {
		return authn.AuthConfig{}, err
	}
	config, err := found.Authorization()
	if err != nil {
		return authn.AuthConfig{}, err
	}
	return *config, nil
}

// soon makes Run look at the row at once.
func (s *Service) soon() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// splitHost returns the host and the port of host:port; 443 is the port of a host without one.
func splitHost(name string) (host, port string) {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return strings.Trim(name, "[]"), "443"
	}
	return host, cmp.Or(port, "443")
}

// sentenceOf is the message of a state with a number of things.
func sentenceOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
