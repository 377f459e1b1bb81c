// Package trust decides which releases may be used: those of the configuration, those that an
// administrator allowed, and those with a signature by a key of the configuration.
//
// The decision is about the digest of a release image, because the digest determines every byte of
// it. [Policy] decides, for the engine and as the last check before openshift-install is extracted.
// [Manager] carries out the requests of administrators.
//
// Design: docs/design.md#releases-that-may-be-used.
package trust

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/store"
)

// allowedRows stores the releases that administrators allowed, by digest. tagRows stores the digest
// that a tag in the configuration had at its first use, by pull spec.
// signedRows stores the Sigstore signatures that were read from registries and verified, by digest,
// so that a release remains allowed while the registry does not answer.
var (
	signedRows  = store.NewBucket[signedRow]("release-signatures", 1)
	allowedRows = store.NewBucket[Allowed]("releases-allowed", 1)
	tagRows     = store.NewBucket[string]("release-tags", 1)
)

// Allowed is a release that an administrator allowed.
type Allowed struct {
	Digest   string    `json:"digest"`
	PullSpec string    `json:"pull_spec,omitempty"` // "" if the administrator gave only the digest
	By       string    `json:"by"`                  // the administrator
	At       time.Time `json:"at"`
}

// Resolve returns the digest to which a pull spec refers according to the rules of the appliance.
// The rules of a single cluster or infra-env do not apply to it.
type Resolve func(ctx context.Context, pullSpec string, secret authn.Keychain) (digest string, err error)

// Options configures a [Policy]. Only DB is required.
type Options struct {
	DB         *store.DB
	Configured []string // pull specs of the releases in the configuration
	Keys       *Keys    // nil if the configuration names none
	// Signatures returns the OpenPGP signatures of a release in the imported files.
	Signatures func(digest string) [][]byte
	// Signed returns the digests of releases with signatures in the imported files.
	Signed func() []string
	// Sigstore reads the Sigstore signatures of an image (repository@digest) from its registries.
	Sigstore func(ctx context.Context, image string, secret authn.Keychain) ([]mirror.SigstoreSignature, error)
	Resolve  Resolve
	Media    Media           // nil without a registry of the appliance
	Clock    clockwork.Clock // nil for the real clock
}

// Media has the permissions of the releases on media that administrators named.
type Media interface {
	// Carried returns the releases by digest.
	Carried() (map[string]Carried, error)
	// Forget removes the permission of a release. It reports whether there was one.
	Forget(tx *store.Tx, digest string) (found bool, err error)
}

// Carried is a release on a medium that an administrator named.
type Carried struct {
	Allowed
	Path string // of the medium
}

// Policy decides which releases may be used. Its methods are safe for concurrent use.
type Policy struct {
	Options
	digests      map[string]string // digest -> pull spec in the configuration
	tags         []string          // pull specs with a tag in the configuration
	repositories []string          // that Sigstore signatures may name
}

// New returns a policy.
func New(options Options) (*Policy, error) {
	p := &Policy{Options: options, digests: map[string]string{}, repositories: []string{releaseRepository}}
	if p.Clock == nil {
		p.Clock = clockwork.NewRealClock()
	}
	if p.Keys == nil {
		p.Keys = &Keys{}
	}
	for _, spec := range options.Configured {
		ref, err := name.ParseReference(spec)
		if err != nil {
			return nil, fmt.Errorf("release image %q is not a pull spec: %w", spec, err)
		}
		p.repositories = append(p.repositories, ref.Context().Name())
		if digest, ok := ref.(name.Digest); ok {
			p.digests[digest.DigestStr()] = spec
			continue
		}
		p.tags = append(p.tags, spec)
	}
	return p, nil
}

// NotAllowedError reports that a release may not be used.
type NotAllowedError struct {
	PullSpec string
	Digest   string
	Reason   string // "" if nothing allows the release
	Err      error  // the error of reading the release's signatures, or nil
}

func (e *NotAllowedError) Error() string {
	reason := e.Reason
	if e.Err != nil {
		reason = "its signature could not be read: " + e.Err.Error()
	}
	if reason == "" {
		reason = "it is not in release_images, and it has no signature by a key in releases.signing_keys"
	}
	return fmt.Sprintf("release %s is not allowed at this site: %s; an administrator can allow it with landfall "+
		"release allow %s", e.PullSpec, reason, e.Digest)
}

// Unwrap returns the error of reading the release's signatures.
func (e *NotAllowedError) Unwrap() error { return e.Err }

// FaultKind returns fault.Invalid, or fault.Unavailable if the release's signatures can't be read
// now.
func (e *NotAllowedError) FaultKind() fault.Kind {
	if e.Err != nil {
		return fault.Unavailable
	}
	return fault.Invalid
}

// Check returns a [*NotAllowedError] unless the release with a digest may be used. pullSpec is the
// name under which it is used. The secret has the credentials for the registry.
//
// A tag in the configuration allows the digest that it has at its first use, and no other digest
// later.
func (p *Policy) Check(ctx context.Context, pullSpec, digest string, secret authn.Keychain) error {
	if known, err := p.Known(digest); err != nil || known {
		return err
	}
	refused := &NotAllowedError{PullSpec: pullSpec, Digest: digest}
	if slices.Contains(p.tags, pullSpec) {
		if err := p.checkTag(ctx, pullSpec, digest, secret); !errors.As(err, &refused) {
			return err
		}
	}
	signed, err := p.fetch(ctx, pullSpec, digest, secret)
	if signed != nil {
		return nil
	}
	refused.Err = err
	return refused
}

// Known reports whether a release may be used without a question to a registry: the configuration
// or an administrator named it, or its signature is known.
func (p *Policy) Known(digest string) (bool, error) {
	if p.digests[digest] != "" {
		return true, nil
	}
	allowed, err := p.allowed(digest)
	if err != nil || allowed != nil {
		return allowed != nil, err
	}
	if p.Media != nil {
		carried, err := p.Media.Carried()
		if _, ok := carried[digest]; err != nil || ok {
			return err == nil, err
		}
	}
	signed, err := p.known(digest)
	return signed != nil, err
}

// CheckName is like Check for a pull spec that is not resolved yet. It returns nil if the answer
// depends on the digest of a tag.
func (p *Policy) CheckName(ctx context.Context, pullSpec string, secret authn.Keychain) error {
	ref, err := name.ParseReference(pullSpec)
	if err != nil {
		return fault.New(fault.Invalid, "The release image %q is not a pull spec.", pullSpec)
	}
	if digest, ok := ref.(name.Digest); ok {
		return p.Check(ctx, pullSpec, digest.DigestStr(), secret)
	}
	return nil
}

func (p *Policy) allowed(digest string) (row *Allowed, err error) {
	err = p.DB.View(func(tx *store.Tx) error {
		row, err = allowedRows.Get(tx, digest)
		return ignoreNotFound(err)
	})
	return row, err
}

// checkTag compares a digest with the digest that a tag of the configuration had at its first use.
func (p *Policy) checkTag(ctx context.Context, tag, digest string, secret authn.Keychain) error {
	first, err := p.tagDigest(tag)
	if err != nil {
		return err
	}
	if first == "" {
		if p.Resolve == nil {
			return &NotAllowedError{PullSpec: tag, Digest: digest}
		}
		resolved, err := p.Resolve(ctx, tag, secret)
		if err != nil {
			return err
		}
		if first, err = p.keepTag(ctx, tag, resolved); err != nil {
			return err
		}
	}
	if first != digest {
		return &NotAllowedError{PullSpec: tag, Digest: digest, Reason: fmt.Sprintf(
			"release_images names it by a tag that meant %s at its first use and means %s now", first, digest)}
	}
	return nil
}

func (p *Policy) tagDigest(tag string) (digest string, err error) {
	err = p.DB.View(func(tx *store.Tx) error {
		row, err := tagRows.Get(tx, tag)
		if err == nil {
			digest = *row
		}
		return ignoreNotFound(err)
	})
	return digest, err
}

// keepTag stores the first digest of a tag and returns the stored one.
func (p *Policy) keepTag(ctx context.Context, tag, resolved string) (digest string, err error) {
	err = p.DB.Update(ctx, func(tx *store.Tx) error {
		row, err := tagRows.Get(tx, tag)
		if err == nil {
			digest = *row
			return nil
		}
		digest = resolved
		return errors.Join(ignoreNotFound(err), tagRows.Put(tx, tag, &resolved))
	})
	return digest, err
}

func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Adopt allows all releases that another policy's administrators allowed, and takes over its
// verified signatures.
func (p *Policy) Adopt(ctx context.Context, other *Policy) error {
	rows, err := other.rows()
	if err != nil {
		return err
	}
	signed, err := other.signedRows()
	if err != nil {
		return err
	}
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		for _, row := range rows {
			if err := allowedRows.Put(tx, row.Digest, row); err != nil {
				return err
			}
		}
		for digest, row := range signed {
			if err := signedRows.Put(tx, digest, row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Policy) rows() (rows []*Allowed, err error) {
	err = p.DB.View(func(tx *store.Tx) error {
		return allowedRows.Each(tx, "", func(_ string, row *Allowed) error {
			rows = append(rows, row)
			return nil
		})
	})
	return rows, err
}
