package trust

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
	"landfall/store"
)

// Sources of the permission to use a release.
const (
	SourceConfigured    = "configured"    // in release_images
	SourceAdministrator = "administrator" // allowed by an administrator
	SourceSigned        = "signed"        // by a key of the configuration
	SourceMedium        = "medium"        // on a medium of the registry that an administrator named
)

// Release is a release that may be used.
type Release struct {
	Allowed
	Source   string `json:"source"`
	Path     string `json:"path,omitempty"`      // of the medium that an administrator named
	SignedBy *Key   `json:"signed_by,omitempty"` // nil if no known signature is valid
}

// List describes which releases may be used. Releases with a signature that was not read yet are
// missing: the appliance reads the signatures in a registry when a release is used.
type List struct {
	Releases    []Release `json:"releases"`
	SigningKeys []Key     `json:"signing_keys"`
}

// Manager shows and changes the list of releases that may be used.
type Manager struct {
	policy *Policy
	engine *engine.Engine
	secret func() (authn.Keychain, error)
	wake   func()
	log    *slog.Logger
}

// NewManager returns a Manager. secret returns the credentials with which the appliance resolves
// tags. After each change, the Manager calls wake, which may be nil.
func NewManager(policy *Policy, e *engine.Engine, secret func() (authn.Keychain, error), wake func(),
	log *slog.Logger) *Manager {
	return &Manager{policy: policy, engine: e, secret: secret, wake: wake, log: log}
}

// List returns the releases that may be used, those of the configuration first.
func (m *Manager) List() (*List, error) {
	list := &List{Releases: []Release{}, SigningKeys: m.policy.Keys.List()}
	if list.SigningKeys == nil {
		list.SigningKeys = []Key{}
	}
	for digest, spec := range m.policy.digests {
		list.Releases = append(list.Releases, Release{Allowed: Allowed{Digest: digest, PullSpec: spec},
			Source: SourceConfigured})
	}
	slices.SortFunc(list.Releases, func(a, b Release) int { return strings.Compare(a.PullSpec, b.PullSpec) })
	for _, tag := range m.policy.tags {
		digest, err := m.policy.tagDigest(tag)
		if err != nil {
			return nil, err
		}
		list.Releases = append(list.Releases, Release{Allowed: Allowed{Digest: digest, PullSpec: tag},
			Source: SourceConfigured})
	}
	rows, err := m.policy.rows()
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		list.Releases = append(list.Releases, Release{Allowed: *row, Source: SourceAdministrator})
	}
	if err := m.addCarried(list); err != nil {
		return nil, err
	}
	return list, m.addSigned(list)
}

// addCarried adds the releases on media.
func (m *Manager) addCarried(list *List) error {
	if m.policy.Media == nil {
		return nil
	}
	carried, err := m.policy.Media.Carried()
	if err != nil {
		return err
	}
	for _, digest := range slices.Sorted(maps.Keys(carried)) {
		if !slices.ContainsFunc(list.Releases, func(r Release) bool { return r.Digest == digest }) {
			list.Releases = append(list.Releases, Release{Allowed: carried[digest].Allowed, Source: SourceMedium,
				Path: carried[digest].Path})
		}
	}
	return nil
}

// addSigned adds the signers of the releases in a list, and the other releases that are signed.
func (m *Manager) addSigned(list *List) error {
	rows, err := m.policy.signedRows()
	if err != nil {
		return err
	}
	digests := slices.Collect(maps.Keys(rows))
	if m.policy.Signed != nil {
		digests = append(digests, m.policy.Signed()...)
	}
	slices.Sort(digests)
	for _, digest := range slices.Compact(digests) {
		found, err := m.policy.known(digest)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		listed := false
		for i := range list.Releases {
			if list.Releases[i].Digest == digest {
				list.Releases[i].SignedBy, listed = found.key, true
			}
		}
		if !listed {
			list.Releases = append(list.Releases, Release{Allowed: Allowed{Digest: digest, PullSpec: found.reference},
				Source: SourceSigned, SignedBy: found.key})
		}
	}
	return nil
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Allow allows a release by its digest or its pull spec. It resolves a tag by the rules of the
// appliance; later changes of the tag have no effect.
func (m *Manager) Allow(ctx context.Context, release string) (*Allowed, error) {
	row := &Allowed{By: access.From(ctx).String(), At: m.policy.Clock.Now().UTC()}
	if digestPattern.MatchString(release) {
		row.Digest = release
	} else {
		ref, err := name.ParseReference(release, name.StrictValidation)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is neither the digest (sha256:…) nor the pull spec of a release "+
				"image.", release)
		}
		row.PullSpec = release
		if row.Digest, err = m.digest(ctx, ref, release); err != nil {
			return nil, err
		}
	}
	if err := m.policy.DB.Update(ctx, func(tx *store.Tx) error {
		return allowedRows.Put(tx, row.Digest, row)
	}); err != nil {
		return nil, err
	}
	m.log.Info("Release allowed.", "digest", row.Digest, "pull_spec", row.PullSpec, "by", row.By)
	if err := m.engine.ReleaseAllowed(ctx, row.Digest, row.By); err != nil {
		return nil, err
	}
	if m.wake != nil {
		m.wake()
	}
	return row, nil
}

func (m *Manager) digest(ctx context.Context, ref name.Reference, release string) (string, error) {
	if digest, ok := ref.(name.Digest); ok {
		return digest.DigestStr(), nil
	}
	secret, err := m.secret()
	if err != nil {
		return "", err
	}
	digest, err := m.policy.Resolve(ctx, release, secret)
	if err != nil {
		return "", &fault.Error{Kind: fault.Unavailable, Err: err, Reason: "The digest of " + release +
			" can't be determined: " + sentence.Ending(err) + " Give the release's digest instead."}
	}
	return digest, nil
}

// Forget removes the permission that an administrator gave to a release, also by naming its medium.
func (m *Manager) Forget(ctx context.Context, digest string) error {
	if spec := m.policy.digests[digest]; spec != "" {
		return fault.New(fault.Conflict, "Release %s is in release_images; remove it there, and restart the "+
			"appliance.", spec)
	}
	found := false
	err := m.policy.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if found = allowedRows.Exists(tx, digest); found {
			err = allowedRows.Delete(tx, digest)
		}
		if err != nil || m.policy.Media == nil {
			return err
		}
		carried, err := m.policy.Media.Forget(tx, digest)
		found = found || carried
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		return fault.New(fault.NotFound, "No administrator allowed release %s; landfall release list shows the "+
			"allowed releases.", digest)
	}
	by := access.From(ctx).String()
	m.log.Info("Release no longer allowed.", "digest", digest, "by", by)
	return m.engine.ReleaseForgotten(ctx, digest, by)
}
