// Package settings holds the settings of the site that a person can change while the appliance
// runs: releases, pull secret, SSH key, time servers and the URL for hosts. What the configuration
// sets is fixed.
//
// [Site] keeps the values in the store and in memory. [Service] shows and changes them, and knows
// what is still missing before the first installation.
package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"golang.org/x/mod/semver"

	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/release"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// rows has a single row. The live feed reports its changes.
var rows = store.NewBucket[row]("settings", 1)

const rowKey = "site"

// row is what people have set. It is not changed once it is in memory.
type row struct {
	Releases     []addedRelease `json:"releases,omitempty"`
	PullSecret   string         `json:"pull_secret,omitempty"` // sealed
	SSHPublicKey string         `json:"ssh_public_key,omitempty"`
	NTPSources   []string       `json:"ntp_sources,omitempty"`
	URL          string         `json:"url,omitempty"`
}

// addedRelease is a release that an administrator added.
type addedRelease struct {
	Version      string    `json:"version"`
	Architecture string    `json:"architecture"` // as the API spells it
	PullSpec     string    `json:"pull_spec"`
	Digest       string    `json:"digest"`
	Default      bool      `json:"default,omitempty"`
	Allowed      bool      `json:"allowed,omitempty"` // the permission to use it came with it
	By           string    `json:"by"`
	At           time.Time `json:"at"`
}

// find returns the index of a release that was added, or -1.
func (r *row) find(version, cpu string) int {
	return slices.IndexFunc(r.Releases, func(a addedRelease) bool { return a.is(version, cpu) })
}

func (r addedRelease) is(version, cpu string) bool {
	return r.Version == version && r.Architecture == cpu
}

// Fixed holds the settings in the configuration. Each precedes the setting in the store, except the
// releases, which come in addition.
type Fixed struct {
	Releases       []engine.ReleaseImage
	PullSecretFile string // "" for none
	NTPSources     []string
	URLs           []string
}

// Carried returns what the media of the appliance's registry add to the settings.
type Carried struct {
	// Releases are the releases on the media that may be used.
	Releases func() []engine.ReleaseImage
	// Complete returns a pull secret with the credentials for the registry. The given one may be
	// "".
	Complete func(secret string) (string, error)
}

// Options configures [Open].
type Options struct {
	DB      *store.DB
	Secrets *sitekey.Box // seals the pull secret
	Fixed   Fixed
	Carried *Carried     // nil without a registry
	Logger  *slog.Logger // nil: silent
}

// Site holds the settings. Its methods are safe for concurrent use.
type Site struct {
	options Options
	writing sync.Mutex // makes the values in memory those of the last commit
	values  atomic.Pointer[values]
	lost    bool // the row was damaged, so the values in memory are not those of the site
}

// errLost is the error of a change on a member of a fleet whose settings are damaged: it would
// replace the settings of all members by those that memory has.
var errLost = fault.New(fault.Unavailable, "the settings of the site are damaged on this member, so it changes none "+
	"of them. If another member has all data, it takes over within a minute; try again then. If none will come back, "+
	"make this machine a single one with landfall fleet end, remove the damaged settings with landfall check "+
	"--repair, and set them again")

// values are the settings in memory.
type values struct {
	row
	releases []engine.ReleaseImage
}

// Open reads the settings. If their row is damaged, nothing is set.
func Open(options Options) (*Site, error) {
	s := New(options)
	if err := s.Load(); err != nil {
		return nil, err
	}
	return s, nil
}

// New returns settings of which none are set until Load.
func New(options Options) *Site {
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	s := &Site{options: options}
	s.keep(row{})
	return s
}

// Load reads the settings. A follower of a fleet calls it after each change of their row.
func (s *Site) Load() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var stored row
	err := s.options.DB.View(func(tx *store.Tx) error {
		found, err := rows.Get(tx, rowKey)
		if err == nil {
			stored = *found
		}
		return ignoreNotFound(err)
	})
	s.lost = store.IsDamaged(err)
	if s.lost {
		s.options.Logger.Warn("The settings of the site cannot be read. The appliance goes on without them.", "error",
			err)
	} else if err != nil {
		return fmt.Errorf("read the settings of the site: %w", err)
	}
	s.keep(stored)
	return nil
}

// Lost reports whether the settings are damaged. Memory then has none.
func (s *Site) Lost() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.lost
}

// Prefix returns the beginning of the key of the row.
func Prefix() string { return rows.Prefix() }

func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Site) keep(stored row) {
	v := &values{row: stored, releases: slices.Clone(s.options.Fixed.Releases)}
	for _, added := range stored.Releases {
		v.releases = append(v.releases, engine.ReleaseImage{OpenshiftVersion: added.Version,
			CPUArchitecture: added.Architecture, URL: added.PullSpec, Default: added.Default})
	}
	s.values.Store(v)
}

// change stores changed settings. The function changes a copy.
func (s *Site) change(ctx context.Context, fn func(*row) error) error {
	return s.changeIn(ctx, func(_ *store.Tx, r *row) error { return fn(r) })
}

// changeIn is change with a function that also reads or writes other rows, in the same transaction.
func (s *Site) changeIn(ctx context.Context, fn func(*store.Tx, *row) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.lost && s.options.DB.Sequence() > 0 {
		return errLost
	}
	changed := s.values.Load().row
	changed.Releases, changed.NTPSources = slices.Clone(changed.Releases), slices.Clone(changed.NTPSources)
	var refused error
	if err := s.options.DB.Update(ctx, func(tx *store.Tx) error {
		if refused = fn(tx, &changed); refused != nil {
			return refused
		}
		return rows.Put(tx, rowKey, &changed)
	}); refused != nil {
		return refused
	} else if err != nil {
		return fmt.Errorf("store the settings of the site: %w", err)
	}
	s.keep(changed)
	return nil
}

// keepDefault makes the newest remaining release of an architecture the default after the removal
// of the default one, unless the configuration has a default.
func (s *Site) keepDefault(r *row, removed addedRelease) {
	if !removed.Default {
		return
	}
	for _, fixed := range s.options.Fixed.Releases {
		if fixed.Default && fixed.CPUArchitecture == removed.Architecture {
			return
		}
	}
	newest := -1
	for i, release := range r.Releases {
		if release.Architecture == removed.Architecture &&
			(newest < 0 || semver.Compare("v"+release.Version, "v"+r.Releases[newest].Version) > 0) {
			newest = i
		}
	}
	if newest >= 0 {
		r.Releases[newest].Default = true
	}
}

// Releases returns the releases that the site offers: those of the configuration first, those on
// media last. If no release of an architecture is the default, the newest one on media is. The
// caller must not change the list.
func (s *Site) Releases() []engine.ReleaseImage {
	releases := s.values.Load().releases
	if s.options.Carried == nil {
		return releases
	}
	all := slices.Clone(releases)
	newest := map[string]int{} // on media, by architecture
	for _, carried := range s.options.Carried.Releases() {
		known := slices.ContainsFunc(all, func(r engine.ReleaseImage) bool {
			return r.OpenshiftVersion == carried.OpenshiftVersion && r.CPUArchitecture == carried.CPUArchitecture
		})
		if known {
			continue
		}
		best, ok := newest[carried.CPUArchitecture]
		if !ok || semver.Compare("v"+carried.OpenshiftVersion, "v"+all[best].OpenshiftVersion) > 0 {
			newest[carried.CPUArchitecture] = len(all)
		}
		all = append(all, carried)
	}
	for arch, i := range newest {
		all[i].Default = !slices.ContainsFunc(all, func(r engine.ReleaseImage) bool {
			return r.Default && r.CPUArchitecture == arch
		})
	}
	return all
}

// NTPSources returns the time servers of the site. The caller must not change the list.
func (s *Site) NTPSources() []string {
	if len(s.options.Fixed.NTPSources) > 0 {
		return s.options.Fixed.NTPSources
	}
	return s.values.Load().NTPSources
}

// SSHPublicKey returns the public keys of people who may log in to hosts, or "".
func (s *Site) SSHPublicKey() string { return s.values.Load().SSHPublicKey }

// URL returns the URL for hosts that a person has set, or "".
func (s *Site) URL() string { return s.values.Load().URL }

// PullSecret returns the site's pull secret, or "". With a registry of the appliance, it has the
// credentials for it.
func (s *Site) PullSecret() (string, error) {
	secret, err := s.ownPullSecret()
	if err != nil || s.options.Carried == nil {
		return secret, err
	}
	return s.options.Carried.Complete(secret)
}

func (s *Site) ownPullSecret() (string, error) {
	if file := s.options.Fixed.PullSecretFile; file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read mirror.pull_secret: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	secret, err := s.options.Secrets.Open(s.values.Load().PullSecret)
	if err != nil {
		return "", fmt.Errorf("read the site's pull secret: %w", err)
	}
	return secret, nil
}

// Offered returns the site's releases and pull secret for the packages that read releases.
func (s *Site) Offered() release.Offered {
	return release.Offered{PullSecret: s.PullSecret, Images: func() []release.Image {
		var images []release.Image
		for _, image := range s.Releases() {
			images = append(images, release.Image{OpenshiftVersion: image.OpenshiftVersion,
				CPUArchitecture: image.CPUArchitecture, URL: image.URL})
		}
		return images
	}}
}

// CompleteCluster sets the pull secret and the SSH key of a request for a cluster if it lacks them.
func (s *Site) CompleteCluster(params *models.ClusterCreateParams) error {
	if params.SSHPublicKey == "" {
		params.SSHPublicKey = s.SSHPublicKey()
	}
	return s.completeSecret(&params.PullSecret)
}

// CompleteInfraEnv is like CompleteCluster for an infra-env. An empty SSH key in the request means
// no key.
func (s *Site) CompleteInfraEnv(params *models.InfraEnvCreateParams) error {
	if key := s.SSHPublicKey(); params.SSHAuthorizedKey == nil && key != "" {
		params.SSHAuthorizedKey = &key
	}
	return s.completeSecret(&params.PullSecret)
}

func (s *Site) completeSecret(field **string) error {
	if conv.Value(*field) != "" {
		return nil
	}
	secret, err := s.PullSecret()
	if err == nil && secret != "" {
		*field = &secret
	}
	return err
}
