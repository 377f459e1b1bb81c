package osimage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/architecture"
	"landfall/appliance/release"
)

// Payloads extracts live ISOs from release payloads.
type Payloads struct {
	Releases *release.Library
	Known    release.Offered
}

// Fetch writes the live ISO of a release to the writer that begin returns, and returns the digest
// of the payload. It implements [Options].FetchRelease.
func (p Payloads) Fetch(ctx context.Context, wanted Release,
	begin func(version string, size int64) (io.Writer, error)) (string, error) {
	pullSpec, err := p.pullSpec(wanted)
	if err != nil {
		return "", err
	}
	secret, err := p.secret(wanted.PullSecret)
	if err != nil {
		return "", err
	}
	payload, err := p.Releases.Payload(ctx, pullSpec, wanted.Architecture, secret)
	if err != nil {
		return "", err
	}
	return p.Releases.LiveISO(ctx, payload, secret, func(size int64) (io.Writer, error) {
		return begin(payload.Version, size)
	})
}

// pullSpec returns the pull spec of a release that is given by its pull spec or version. A minor
// version selects its last release in the configuration.
func (p Payloads) pullSpec(wanted Release) (string, error) {
	if _, err := name.ParseReference(wanted.Name, name.StrictValidation); err == nil {
		return wanted.Name, nil
	}
	version, found := wanted.Name, ""
	if version == "" {
		version = wanted.Version
	}
	for _, image := range p.Known.Images() {
		arch := architecture.Of(image.CPUArchitecture)
		if arch.RPM() != wanted.Architecture && arch != architecture.Multi {
			continue
		}
		if image.OpenshiftVersion == version {
			return image.URL, nil
		}
		if Minor(image.OpenshiftVersion) == version {
			found = image.URL
		}
	}
	if found == "" {
		return "",
			&ContentError{Problem: fmt.Sprintf("the site has no release %s for %s; add the release, or "+
				"give the pull spec of its release image", version, wanted.Architecture)}
	}
	return found, nil
}

func (p Payloads) secret(given string) (authn.Keychain, error) {
	secret, err := p.Known.Keychain(given)
	if malformed, ok := errors.AsType[*release.PullSecretError](err); ok {
		return nil, &ContentError{Problem: malformed.Error()}
	}
	return secret, err
}
